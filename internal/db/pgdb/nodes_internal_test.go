package pgdb

import (
	"context"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
)

// TestOneNodeHoldsHalf checks that hung statements on a node leave connections to another node. Statements and
// transactions wait for the hung node without a connection.
func TestOneNodeHoldsHalf(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db, err := Open(t.Context(), Options{URL: url, MaxConns: 4, ConnectTimeout: time.Minute, StatementTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	distributed := *db
	distributed.nodes = newNodes(db.life, 4, nil, func(context.Context, address) (bool, error) { return true, nil })
	distributed.nodes.set(halves)
	find := func(on *node) (key int64) {
		for distributed.nodes.layout.Load().find(hashBigint(key)) != on {
			key++
		}
		return key
	}
	nodes := distributed.nodes.layout.Load().nodes
	hung, healthy := find(nodes[first]), find(nodes[second])

	// The statements of the hung node wait for a lock of this transaction.
	locked, release, held := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		held <- db.Tx(t.Context(), "lock", func(tx *Tx) error {
			_, err := tx.Exec(Statement{SQL: `SELECT pg_advisory_xact_lock(7)`})
			close(locked)
			<-release
			return err
		})
	}()
	<-locked
	wait := Statement{Key: 1, SQL: `SELECT pg_advisory_xact_lock_shared(7) FROM (SELECT $1::bigint) AS key`}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := distributed.Exec(t.Context(), wait, hung); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if err := distributed.Tx(t.Context(), "wait", func(tx *Tx) error {
				_, err := tx.Exec(wait, hung)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < 2; {
		if _, err := db.QueryRow(t.Context(), Statement{SQL: `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`}, nil, &waiting); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		var key int64
		if _, err := distributed.QueryRow(t.Context(), Statement{Key: 1, SQL: `SELECT $1::bigint`}, []any{healthy}, &key); err != nil || key != healthy {
			t.Fatalf("a statement of the other node: %d, %v", key, err)
		}
	}
	close(release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	group.Wait()
}
