package opened

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

// HungWorker opens a database on its own cluster and checks that ten connections keep serving the owners of one
// worker while the other worker hangs and 30 goroutines work for its owners. These goroutines finally fail without a
// wait, and succeed when the worker continues. keys are a table's distribution column values; start returns a
// function that works for a key.
func HungWorker(t testing.TB, migrations Migrations, table string, keys []string, start func(*pgdb.DB) func(ctx context.Context, key int) error) {
	t.Helper()
	cluster := testdb.OwnCitus(t)
	db := Postgres(t, pgdb.Options{
		URL: cluster.Database(t), MaxConns: 10, ConnectTimeout: 3 * time.Second, StatementTimeout: 30 * time.Second,
	}, migrations)
	work := start(db)
	nodeOf := func(key string) string {
		return Lines(t, db, `SELECT n.nodename FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid)
			WHERE p.shardid = get_shard_id_for_distribution_column($1::text::regclass, $2::text)`, table, key)[0]
	}
	on := map[string][]int{}
	for i, key := range keys {
		on[nodeOf(key)] = append(on[nodeOf(key)], i)
		if err := work(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if len(on) != 2 {
		t.Fatalf("the keys are on %d workers", len(on))
	}
	hung := nodeOf(keys[0])
	var healthy []int
	for node, some := range on {
		if node != hung {
			healthy = some
		}
	}

	thaw := cluster.Worker(t, hung).Freeze(t)
	refused, thawed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var readers sync.WaitGroup
	for i := range 30 {
		readers.Go(func() {
			for t.Context().Err() == nil {
				err := work(t.Context(), on[hung][i%len(on[hung])])
				switch {
				case err == nil:
					return
				case pgdb.Silent(err):
					once.Do(func() { close(refused) })
					<-thawed
				case errcode.Of(err) != errcode.Unavailable:
					t.Errorf("an owner of the hung worker: %v", err)
					return
				}
			}
		})
	}
	var took []time.Duration
	for waiting := true; waiting; {
		began := time.Now()
		if err := work(t.Context(), healthy[len(took)%len(healthy)]); err != nil {
			t.Errorf("an owner of the healthy worker, after %d: %v", len(took), err)
			break
		}
		took = append(took, time.Since(began))
		select {
		case <-refused:
			waiting = len(took) < 200
		default:
		}
	}
	thaw()
	close(thawed)
	readers.Wait()
	slices.Sort(took)
	if n := len(took); n > 0 {
		t.Logf("%d operations for owners of the healthy worker: half within %v, 99%% within %v, all within %v", n, took[n/2], took[n*99/100], took[n-1])
	}
}
