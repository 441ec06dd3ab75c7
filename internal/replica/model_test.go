package replica

import (
	"errors"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/superfly/ltx"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
)

// TestModel compares every restore point with the databases' former states after random writes by several processes,
// checkpoints, restarts, kills, and faults of the target and of each step.
func TestModel(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	walks, restored, deleted := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(testdb.Memory(), "holdfast-replica-") //nolint:usetesting // one for each walk
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		limit := rapid.SampledFrom([]int64{0, 0, 100_000}).Draw(rt, "limit")
		w := newToyWorld(rtb{t, rt}, root, func(o *Options) { o.SpoolBytes, o.Keep = limit, 2*time.Hour })
		defer func() { w.close() }()
		actions := w.actions()
		maps.Copy(actions, w.toyActions())
		rt.Repeat(actions)
		// Whatever happened before, the replica is complete once the target works.
		w.target.set(targetWorks)
		w.fault = nil
		w.toys.endAll()
		for range 3 {
			err = errors.Join(w.capture(), w.upload(), w.ship())
			w.reconcile() // the last reconciliation may have failed
		}
		if err != nil {
			rt.Fatalf("the replica does not recover: %v", err)
		}
		for _, s := range w.r.sources {
			position := w.r.newest().Files[s.name]
			if w.states[position] != w.dump(s.name) {
				rt.Fatalf("the last point does not have the last write of %s", s.name)
			}
		}
		w.retainNothing()
		walks++
		deleted += w.toys.deleted
		restored += w.stats.restored
	})
	t.Logf("%d walks, %d databases restored, bodies were deleted %d times", walks, restored, deleted)
}

type rtb struct {
	testing.TB
	rt *rapid.T
}

func (b rtb) Helper()                   {}
func (b rtb) Fatal(args ...any)         { b.rt.Fatal(args...) }
func (b rtb) Fatalf(f string, a ...any) { b.rt.Fatalf(f, a...) }
func (b rtb) Errorf(f string, a ...any) { b.rt.Errorf(f, a...) }

func (w *world) actions() map[string]func(*rapid.T) { //nolint:funlen // a table
	file := func(rt *rapid.T) string { return rapid.SampledFrom(names).Draw(rt, "file") }
	other := func(rt *rapid.T, sql ...string) {
		_ = w.other(file(rt), func(c *sqlite.Conn) error { // the database may be busy
			for _, s := range sql {
				if err := sqlitex.ExecuteTransient(c, s, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	copied := ""                                                                     // copy of the folder, made while the server was stopped
	captureAndShip := func(*rapid.T) { _, _, _ = w.capture(), w.upload(), w.ship() } // the target may fail
	return map[string]func(*rapid.T){
		"write": func(rt *rapid.T) {
			w.must(w.exec(file(rt), insert, rapid.IntRange(1, 20).Draw(rt, "rows"), rapid.SampledFrom([]int{10, 1000, 9000}).Draw(rt, "bytes")))
		},
		"write much": func(rt *rapid.T) {
			rows := rapid.IntRange(40, 100).Draw(rt, "rows")
			w.must(w.dbs[file(rt)].WriteAlone(rt.Context(), "much", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, insert, rows, 2000) }))
		},
		"delete": func(rt *rapid.T) {
			w.must(w.exec(file(rt), `DELETE FROM t WHERE id % ? = 0`, rapid.IntRange(1, 5).Draw(rt, "modulus")))
		},
		"fail to write": func(rt *rapid.T) {
			if err := w.exec(file(rt), insert+` UNION ALL SELECT 'x', abs(-9223372036854775808)`, 50, 3000); err == nil {
				rt.Fatal("the write does not fail")
			}
		},
		"vacuum":     func(rt *rapid.T) { other(rt, `VACUUM`) },
		"table":      func(rt *rapid.T) { other(rt, `CREATE TABLE IF NOT EXISTS u (id INTEGER PRIMARY KEY, body)`) },
		"drop table": func(rt *rapid.T) { other(rt, `DROP TABLE IF EXISTS u`) },
		"other writes": func(rt *rapid.T) {
			other(rt, `DELETE FROM t WHERE id % 7 = 0`, `INSERT INTO t (body) VALUES (randomblob(5000))`)
		},
		"checkpoint": func(rt *rapid.T) {
			other(rt, `PRAGMA wal_checkpoint(`+rapid.SampledFrom([]string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}).Draw(rt, "mode")+`)`)
		},
		"other restarts": func(rt *rapid.T) {
			other(rt, `PRAGMA wal_checkpoint(RESTART)`, `INSERT INTO t (body) VALUES (randomblob(500))`)
		},
		"capture":        func(*rapid.T) { _ = w.capture() },
		"ship":           func(*rapid.T) { _ = w.ship() },
		"sync":           captureAndShip,
		"sync once more": captureAndShip,
		"target":         func(rt *rapid.T) { w.target.set(rapid.IntRange(targetWorks, targetIsFull).Draw(rt, "mode")) },
		"target works":   func(*rapid.T) { w.target.set(targetWorks) },
		"release":        w.releaseHold,
		"restart":        func(*rapid.T) { w.shutDown(); w.open() },
		"copy": func(*rapid.T) {
			w.shutDown()
			copied = w.newFolder()
			w.must(os.CopyFS(copied, os.DirFS(w.folder)))
			w.open()
		},
		"go back": func(*rapid.T) {
			if copied != "" {
				w.goBack(copied)
			}
		},
		"write while off": func(rt *rapid.T) { w.shutDown(); other(rt, `INSERT INTO t (body) VALUES (randomblob(500))`); w.open() },
		"kill":            func(*rapid.T) { w.kill() },
		"fault": func(rt *rapid.T) {
			after := rapid.IntRange(0, 4).Draw(rt, "after")
			w.fault = func(string) error {
				if after--; after < 0 {
					w.fault = nil
					return errTarget
				}
				return nil
			}
		},
		"time": func(rt *rapid.T) {
			w.clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 60, 3600}).Draw(rt, "seconds")) * time.Second)
		},
		"maintain": func(*rapid.T) { w.maintain() },
		"forge": func(rt *rapid.T) { // somebody else adds a file that claims to replace good ones
			name := file(rt)
			if position := w.r.newest().Files[name]; position.TXID > 1 {
				to := rapid.Uint64Range(2, uint64(position.TXID)).Draw(rt, "to")
				w.forge(name, position.Run, ltx.TXID(rapid.Uint64Range(1, to-1).Draw(rt, "from")), ltx.TXID(to))
				w.same = map[Position]bool{}
			}
		},
	}
}

// releaseHold ends the read transaction, so that the WAL is unprotected and the replica must detect missed frames.
func (w *world) releaseHold(rt *rapid.T) {
	for _, s := range w.r.sources {
		if s.follow != nil && rapid.Bool().Draw(rt, "which") {
			w.must(s.follow.Release())
		}
	}
}
