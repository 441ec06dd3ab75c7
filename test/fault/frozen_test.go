package fault

import (
	"errors"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestFrozen makes the database hang: it does not respond, but its connections stay open.
func TestFrozen(t *testing.T) {
	t.Parallel()
	harness.OnEach(t, map[harness.Engine]func(*testing.T){harness.OnPostgres: frozenPostgres, harness.OnCitus: frozenCitus, harness.OnSpanner: frozenSpanner})
}

func frozenPostgres(t *testing.T) {
	t.Helper()
	db := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	o := newOutage(t, db.URL(), db.URL())
	var pids []int
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // a stopped process cannot exit
	o.Rounds(2, func(round int) harness.Fault {
		choose := o.Choice(round)
		return harness.Fault{Inject: func() {
			rows, err := o.admin.Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast%' OR $1 AND pid <> pg_backend_pid()`, round%2 == 1)
			harness.Must(t, err)
			pids, err = pgx.CollectRows(rows, pgx.RowTo[int])
			harness.Must(t, err)
			if round%2 == 1 {
				pids = append(pids, db.PID())
			}
			signal(syscall.SIGSTOP)
			o.Hold(round, 2, choose)
			signal(syscall.SIGCONT)
		}, Recover: o.recovered}
	})
	o.End()
}

// frozenCitus stops the coordinator and the workers in turn. While a worker is stopped, users on the other worker must
// be served.
func frozenCitus(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "it starts three servers and takes minutes")
	cluster := testdb.OwnCitus(t)
	url := cluster.Database(t)
	o := newOutage(t, url, url)
	served := 0
	o.Rounds(3, func(round int) harness.Fault {
		choose := o.Choice(round)
		return harness.Fault{Inject: func() {
			victim := cluster[round%len(cluster)]
			var healthy []neighbour
			if round%len(cluster) > 0 {
				healthy = o.neighbours(func(node string) bool { return node != victim.Host() })
			}
			thaw := victim.Freeze(t)
			over := make(chan struct{})
			var sending sync.WaitGroup
			for _, n := range healthy {
				sending.Go(func() { o.served(n, over) })
			}
			o.Hold(round, len(cluster), choose)
			close(over)
			sending.Wait()
			thaw()
			served += len(healthy)
		}, Recover: o.recovered}
	})
	if served == 0 && !t.Failed() {
		t.Error("no user on a healthy worker sent a request")
	}
	o.End()
}

type neighbour struct {
	name string
	send func() (binary.Answer, error)
}

// neighbours returns two users per service whose shards are on the given nodes, or the only user if its shard is
// there.
func (o *outage) neighbours(isOn func(node string) bool) (found []neighbour) {
	o.T.Helper()
	for i, s := range services() {
		if s.Neighbours.Table == "" {
			continue
		}
		keys := map[string]bool{}
		for n := 0; n < 30 && len(keys) < 2; n++ {
			var key, node string
			harness.Must(o.T, o.admin.QueryRow(o.T.Context(), `
				SELECT key, n.nodename FROM (SELECT `+s.Neighbours.Key(n)+` AS key) k, pg_dist_placement p JOIN pg_dist_node n USING (groupid)
				WHERE p.shardid = get_shard_id_for_distribution_column($1::text::regclass, key)`, s.Neighbours.Table).Scan(&key, &node))
			if isOn(node) && !keys[key] {
				keys[key] = true
				found = append(found, neighbour{s.Name + " " + key, func() (binary.Answer, error) { return s.Neighbours.Send(o.Harness, o.Workloads[i], n) }})
			}
		}
	}
	return found
}

// served sends at least five requests by a user, until over is closed. Each must succeed within the time limit for
// requests to a hanging database.
func (o *outage) served(n neighbour, over <-chan struct{}) {
	for sent := 0; sent < 5 || !harness.Closed(over); sent++ {
		begun := time.Now()
		a, err := n.send()
		if took := time.Since(begun); err != nil || a.Status >= http.StatusMultipleChoices || took > o.Bound {
			o.T.Errorf("%s, request %d, after %v: %d %.300s %v", n.name, sent, took, a.Status, a.Body, err)
			return
		}
	}
}

func frozenSpanner(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "the emulator is slow")
	emulator := testdb.OwnSpanner(t)
	h := patientSpanner(t, emulator.Host(), spannertest.NewName())
	signal := func(sig syscall.Signal) {
		if err := syscall.Kill(emulator.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // a stopped process cannot exit
	h.Rounds(2, func(round int) harness.Fault {
		choose := h.Choice(round)
		return harness.Fault{Inject: func() {
			signal(syscall.SIGSTOP)
			h.Hold(round, 1, choose)
			signal(syscall.SIGCONT)
		}, Recover: func() {
			h.Server.Await("/readyz", http.StatusOK)
			unblocked(h, h.Server)
		}}
	})
	h.End()
}
