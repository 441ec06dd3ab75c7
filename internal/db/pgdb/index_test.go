package pgdb_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
)

const (
	indexName   = "things_kind_idx"
	createIndex = `CREATE UNIQUE INDEX CONCURRENTLY ` + indexName + ` ON things (kind)`
)

func validIndex(t *testing.T, db *pgdb.DB) (valid, found bool) {
	t.Helper()
	found, err := db.QueryRow(t.Context(), pgdb.Statement{
		Name: "test", SQL: `SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('` + indexName + `')`,
	}, nil, &valid)
	if err != nil {
		t.Fatal(err)
	}
	return valid, found
}

func TestEnsureIndex(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	testdb.Script(t, url, `CREATE TABLE things (kind INTEGER); INSERT INTO things VALUES (1), (1), (2)`)
	db := open(t, pgdb.Options{URL: url})
	ctx := t.Context()
	if made, err := db.EnsureIndex(ctx, indexName, createIndex); made || err == nil {
		t.Errorf("with duplicate rows: %t, %v", made, err)
	}
	if valid, found := validIndex(t, db); valid || !found {
		t.Fatalf("the failed attempt left no invalid index: %t, %t", valid, found)
	}
	testdb.Script(t, url, `DELETE FROM things`)
	if made, err := db.EnsureIndex(ctx, indexName, createIndex); !made || err != nil {
		t.Errorf("again: %t, %v", made, err)
	}
	if valid, _ := validIndex(t, db); !valid {
		t.Error("the index is not valid")
	}
	if made, err := db.EnsureIndex(ctx, indexName, createIndex); made || err != nil {
		t.Errorf("with the index: %t, %v", made, err)
	}
}

func TestEnsureIndexAtOnce(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	testdb.Script(t, url, `CREATE TABLE things (kind INTEGER)`)
	var (
		wg    sync.WaitGroup
		count atomic.Int32
	)
	for range 4 {
		db := open(t, pgdb.Options{URL: url})
		wg.Go(func() {
			made, err := db.EnsureIndex(t.Context(), indexName, createIndex)
			if err != nil {
				t.Error(err)
			}
			if made {
				count.Add(1)
			}
		})
	}
	wg.Wait()
	if n := count.Load(); n != 1 {
		t.Errorf("%d callers created the index", n)
	}
}
