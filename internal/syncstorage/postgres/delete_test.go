package postgres_test

import (
	"sync"
	"testing"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestDeletionMeetsNewName creates a name and a record after a deletion looked up the name, but before it reads the
// user's stamp. The result must not combine that stamp with a missing collection.
func TestDeletionMeetsNewName(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	other := open(t, pgdb.Options{URL: url})
	owner := ss.Owner{UID: 1, FxAUID: "a", FxAKID: "1-b"}
	write := ss.Write{Collection: "toys", Now: 1_790_000_000_000, MaxNames: 10}
	var put ss.Written
	var once sync.Once
	db := opened.Postgres(t, pgdb.Options{URL: url, Fault: func(point string) (err error) {
		if point == "sync.delete_collection" {
			once.Do(func() {
				put, err = other.Put(t.Context(), owner, write, ss.Update{ID: "x", Payload: ss.Some([]byte("y"))})
			})
		}
		return err
	}}, nil)
	got, err := postgres.New(db).DeleteCollection(t.Context(), owner, write)
	if err != nil {
		t.Fatal(err)
	}
	if got.Previous != put.Modified || got.Modified <= put.Modified {
		t.Errorf("the deletion returned %v, before %v, after a write at %v", got.Modified, got.Previous, put.Modified)
	}
	if cs, err := other.Collections(t.Context(), owner); err != nil || len(cs.Stamps) != 0 {
		t.Errorf("collections %v, %v", cs.Stamps, err)
	}
}
