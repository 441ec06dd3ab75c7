package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/testdb"
)

const miscounted = `SELECT count(*) FROM user_collections c WHERE collection_id <> 0 AND (c.count, c.total_bytes) <> (
	SELECT count(*), coalesce(sum(octet_length(payload)), 0) FROM bsos b
	WHERE b.user_id = c.user_id AND b.collection_id = c.collection_id)`

// TestCountersAreExact checks the counters after concurrent random writes. sync_post_v1 and sync_commit_v1 rely on
// them: if a counter is 0, they look up no record.
func TestCountersAreExact(t *testing.T) {
	t.Parallel()
	const (
		second  = ss.Timestamp(1_700_000_000_000)
		workers = 6
		steps   = 150
	)
	ctx, url := t.Context(), testdb.PostgresDatabase(t)
	store := open(t, pgdb.Options{URL: url, MaxConns: workers})
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			for n := range steps {
				w := ss.Write{Collection: []string{"tabs", "forms"}[rnd.IntN(2)], Now: second + ss.Timestamp(n*1000), MaxNames: 10}
				err := randomWrite(ctx, store, rnd, ss.Owner{UID: 1 + rnd.Int64N(2)}, w)
				if err != nil && !errcode.Is(err, errcode.NotFound) && !errcode.Is(err, errcode.Invalid) {
					t.Errorf("step %d of %d: %v", n, i, err)
				}
			}
		})
	}
	wg.Wait()
	db := connect(t, url)
	var wrong, records int
	if err := db.QueryRow(ctx, miscounted).Scan(&wrong); err != nil || wrong != 0 {
		t.Errorf("%d collections are miscounted, %v", wrong, err)
	}
	if err := db.QueryRow(ctx, `SELECT count(*) FROM bsos`).Scan(&records); err != nil || records == 0 {
		t.Errorf("the test left %d records, %v", records, err)
	}
}

// randomWrite writes some of five records, some of which expire immediately.
func randomWrite(ctx context.Context, s *postgres.Store, rnd *rand.Rand, o ss.Owner, w ss.Write) (err error) {
	var us []ss.Update
	for id := range 5 {
		if u := (ss.Update{ID: fmt.Sprint(id)}); rnd.IntN(2) == 0 {
			if rnd.IntN(3) > 0 {
				u.Payload = ss.Some(make([]byte, rnd.IntN(50)))
			}
			if rnd.IntN(3) == 0 {
				u.TTL = ss.Some(rnd.Int64N(3))
			}
			us = append(us, u)
		}
	}
	switch rnd.IntN(10) {
	case 0:
		_, err = s.DeleteBSO(ctx, o, w, "1")
	case 1:
		_, err = s.DeleteBSOs(ctx, o, w, []string{"0", "1", "2", "3", "4"})
	case 2:
		_, err = s.DeleteCollection(ctx, o, w)
	case 3:
		err = s.DeleteAll(ctx, o, ss.Precondition{})
	case 4, 5:
		id, limits := ss.BatchID(fmt.Sprint("batch", rnd.Uint64())), ss.BatchLimits{Records: 100, Bytes: 10000}
		if _, err = s.Append(ctx, o, w, ss.BatchPart{ID: id, Opens: true, Updates: us, Limits: limits}); err == nil {
			_, err = s.Commit(ctx, o, w, ss.BatchPart{ID: id, Limits: limits})
		}
	case 6:
		_, err = s.Sweep(ctx, w.Now, 3)
	case 7:
		_, err = s.Put(ctx, o, w, ss.Update{ID: "1", Payload: ss.Some([]byte("x"))})
	default:
		_, err = s.Post(ctx, o, w, us)
	}
	return err
}

// TestWrongCounterOfZero checks that if an administrator set a counter to 0, a POST of an existing record fails.
func TestWrongCounterOfZero(t *testing.T) {
	t.Parallel()
	const second ss.Timestamp = 1_700_000_000_000
	ctx, url := t.Context(), testdb.PostgresDatabase(t)
	store, db := open(t, pgdb.Options{URL: url}), connect(t, url)
	o, w := ss.Owner{UID: 1}, ss.Write{Collection: "tabs", Now: second, MaxNames: 10}
	old, fresh := ss.Update{ID: "a", Payload: ss.Some([]byte("old"))}, ss.Update{ID: "b", Payload: ss.Some([]byte("new"))}
	if _, err := store.Post(ctx, o, w, []ss.Update{old}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, `UPDATE user_collections SET count = 0 WHERE collection_id <> 0`); err != nil {
		t.Fatal(err)
	}
	changed := old
	changed.Payload = ss.Some([]byte("changed"))
	_, err := store.Post(ctx, o, w, []ss.Update{fresh, changed})
	if !errcode.Is(err, errcode.Internal) {
		t.Errorf("a POST of a record that exists: %v", err)
	}
	var records int
	var payload string
	if err := db.QueryRow(ctx, `SELECT count(*), min(convert_from(payload, 'UTF8')) FROM bsos`).Scan(&records, &payload); err != nil || records != 1 || payload != "old" {
		t.Errorf("%d records, %q, %v", records, payload, err)
	}
	if _, err := store.Put(ctx, o, w, changed); err != nil { // does not use the counter
		t.Error(err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
