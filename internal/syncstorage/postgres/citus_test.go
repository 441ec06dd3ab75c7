package postgres

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestDistribution checks that each request is a single task on the user's node, and that writes are delegated there.
func TestDistribution(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, Migrations)

	opened.WantCitusTables(t, db, "user_collections",
		"batch_bsos distributed user_id colocated",
		"batches distributed user_id colocated",
		"bsos distributed user_id colocated",
		"collections reference <none>",
		"schema_migrations",
		"user_collections distributed user_id colocated",
	)

	for _, h := range hot() {
		switch h.st.Name {
		case sqlDue.Name, // queries every node, but only per sweep
			sqlTotals.Name: // reads several users, for operators
			continue
		}
		opened.WantOneTask(t, db, h.name, h.st.SQL, h.args...)
	}
}

// TestRebalance drains and refills a worker according to the guide.
func TestRebalance(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	testdb.FewShards(t, url)
	s := New(opened.Postgres(t, pgdb.Options{URL: url}, Migrations))
	written := make([]atomic.Int64, 20)
	testdb.Rebalance(t, url, func(ctx context.Context, n int) error {
		user := n % len(written)
		w := ss.Write{Collection: "bookmarks", Now: ss.Timestamp(1_700_000_000_000), MaxNames: 10}
		_, err := s.Put(ctx, ss.Owner{UID: int64(1 + user)}, w, ss.Update{ID: strconv.Itoa(n), Payload: ss.Some([]byte("x"))})
		if err == nil {
			written[user].Add(1)
		}
		return err
	})
	for user := range written {
		us, err := s.Usage(t.Context(), ss.Owner{UID: int64(1 + user)}, 1_700_000_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if want := written[user].Load(); len(us.Collections) != 1 || us.Collections[0].Records != want {
			t.Errorf("user %d has %+v after %d writes", user, us.Collections, want)
		}
	}
}

func TestHungWorker(t *testing.T) {
	t.Parallel()
	var keys []string
	for uid := 1; uid <= 12; uid++ {
		keys = append(keys, strconv.Itoa(uid))
	}
	opened.HungWorker(t, Migrations, "user_collections", keys, func(db *pgdb.DB) func(context.Context, int) error {
		s := New(db)
		return func(ctx context.Context, key int) error {
			o, now := ss.Owner{UID: int64(key + 1)}, ss.Timestamp(1_700_000_000_000)
			w := ss.Write{Collection: "bookmarks", Now: now, MaxNames: 10}
			if _, err := s.Put(ctx, o, w, ss.Update{ID: "a", Payload: ss.Some([]byte("x"))}); err != nil {
				return err
			}
			_, err := s.Get(ctx, o, ss.Request{Collection: w.Collection, Now: now}, "a")
			return err
		}
	})
}
