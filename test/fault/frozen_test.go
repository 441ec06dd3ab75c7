package fault

import (
	"errors"
	"net/http"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/fault/harness"
)

// The database hangs: it answers nothing, and its connections stay open.
func TestFrozen(t *testing.T) {
	t.Parallel()
	harness.OnEach(t, map[harness.Engine]func(*testing.T){harness.OnPostgres: frozenPostgres, harness.OnCitus: frozenCitus, harness.OnSpanner: frozenSpanner})
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

// frozenCitus stops the coordinator and the workers in turn.
func frozenCitus(t *testing.T) {
	t.Helper()
	testdb.SoakOnly(t, "it starts three servers and takes minutes")
	cluster := testdb.OwnCitus(t)
	url := cluster.Database(t)
	o := newOutage(t, url, url)
	o.Rounds(3, func(round int) harness.Fault {
		choose := o.Choice(round)
		return harness.Fault{Inject: func() {
			thaw := cluster[round%len(cluster)].Freeze(t)
			o.Hold(round, len(cluster), choose)
			thaw()
		}, Recover: o.recovered}
	})
	o.End()
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
