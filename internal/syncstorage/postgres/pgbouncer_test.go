package postgres_test

import (
	"bytes"
	"context"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
)

// TestStoreBehindPgBouncer uses transaction pooling, with more callers than connections.
func TestStoreBehindPgBouncer(t *testing.T) {
	t.Parallel()
	if !testdb.PgBouncerCancels(t) {
		t.Skip("the suite cancels statements, which crashes PgBouncer 1.18: install 1.19 or later")
	}
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		through := testdb.PgBouncer(t, testdb.PostgresDatabase(t), 4)
		h := harness(t, testdb.WithParameter(t, through, "default_query_exec_mode", "exec"))
		h.Soak = suite.Soak{Why: "the other groups behave the same through a pooler", But: []string{"Batches", "Collections", "Concurrency", "OwnQuota"}}
		return h
	})
}

// BenchmarkModes compares query modes on a database that does not sync to disk, because that would hide their cost.
func BenchmarkModes(b *testing.B) {
	url := testdb.PostgresDatabase(b)
	through := testdb.PgBouncer(b, url, 16)
	payload := bytes.Repeat([]byte("x"), 500)
	for _, way := range []struct{ name, url string }{
		{"prepared", url},
		{"exec", testdb.WithParameter(b, url, "default_query_exec_mode", "exec")},
		{"cache_describe", testdb.WithParameter(b, url, "default_query_exec_mode", "cache_describe")},
		{"exec-pgbouncer", testdb.WithParameter(b, through, "default_query_exec_mode", "exec")},
	} {
		store := open(b, pgdb.Options{URL: way.url, MaxConns: 16})
		put := func(ctx context.Context, user, i int64) error {
			_, err := store.Put(ctx, ss.Owner{UID: user}, ss.Write{Collection: "bookmarks", Now: now()},
				ss.Update{ID: key(i), Payload: ss.Some(payload)})
			return err
		}
		get := func(ctx context.Context, user, _ int64) error {
			_, err := store.Collections(ctx, ss.Owner{UID: user})
			return err
		}
		b.Run("put/1/"+way.name, func(b *testing.B) { run(b, 1, put) })
		b.Run("put/16/"+way.name, func(b *testing.B) { run(b, 16, put) })
		b.Run("info/1/"+way.name, func(b *testing.B) { run(b, 1, get) })
	}
}
