package fault

import (
	"errors"
	"net/http"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
)

// The database hangs: it answers nothing, and its connections stay open.
func TestFrozen(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onPostgres: frozenPostgres, onCitus: frozenCitus, onSpanner: frozenSpanner})
}

// frozenPostgres stops the backend processes of the server, or all processes.
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
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // a stopped server cannot end
	o.rounds(2, func(round int) fault {
		choose := o.choice(round)
		return fault{inject: func() {
			rows, err := o.admin.Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast%' OR $1 AND pid <> pg_backend_pid()`, round%2 == 1)
			must(t, err)
			pids, err = pgx.CollectRows(rows, pgx.RowTo[int])
			must(t, err)
			if round%2 == 1 {
				pids = append(pids, db.PID())
			}
			signal(syscall.SIGSTOP)
			o.hold(round, 2, choose)
			signal(syscall.SIGCONT)
		}, recover: o.recovered}
	})
	o.end()
}

// frozenCitus stops the coordinator and the workers in turn.
func frozenCitus(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "it starts three servers and takes minutes")
	cluster := testdb.OwnCitus(t)
	url := cluster.Database(t)
	o := newOutage(t, url, url)
	o.rounds(3, func(round int) fault {
		choose := o.choice(round)
		return fault{inject: func() {
			thaw := cluster[round%len(cluster)].Freeze(t)
			o.hold(round, len(cluster), choose)
			thaw()
		}, recover: o.recovered}
	})
	o.end()
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
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // it cannot end otherwise
	h.rounds(2, func(round int) fault {
		choose := h.choice(round)
		return fault{inject: func() {
			signal(syscall.SIGSTOP)
			h.hold(round, 1, choose)
			signal(syscall.SIGCONT)
		}, recover: func() {
			h.server.Await("/readyz", http.StatusOK)
			h.unblocked(h.server)
		}}
	})
	h.end()
}
