package replica

import (
	"errors"
	"holdfast/internal/testdb"
	"os"
	"strings"
	"testing"
)

const large = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)
	INSERT OR REPLACE INTO t (id, body) SELECT i, zeroblob(100000 + ?1) FROM n`

// TestFullDisk checks that on a nearly full data disk, waiting files are dropped and the writer checkpoints. Once
// there is space again, a new series begins.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	free := 1e12
	w := newWorld(t, testdb.MemoryFolder(t), func(o *Options) {
		o.space = func(string) (float64, float64, error) { return free, 1e12, nil }
	})
	w.must(w.exec(names[0], insert, 30, 3000))
	w.must(w.capture())
	w.must(w.ship())
	w.must(w.exec(names[0], insert, 30, 3000))
	w.must(w.capture()) // the file waits for the target
	free = 1e6
	if err := w.r.capture(t.Context()); err == nil || !strings.Contains(err.Error(), "too little disk space") {
		t.Errorf("capture on a full disk: %v", err)
	}
	if n := w.r.Status().WaitingBytes; n != 0 {
		t.Errorf("%d bytes still wait", n)
	}
	for i := range 20 {
		w.must(w.exec(names[0], large, i))
		_ = w.r.capture(t.Context())
	}
	info, err := os.Stat(w.path(names[0]) + "-wal")
	w.must(err)
	if info.Size() > 25<<20 {
		t.Errorf("the WAL has %d bytes: nobody checkpoints", info.Size())
	}
	if w.r.ship(t.Context()) != nil {
		t.Error("nothing is to be sent, which is no error")
	}
	free = 1e12
	w.must(w.capture())
	w.must(w.ship())
	w.check()
	w.close()
}

// TestFailingSpool checks that an unwritable spool does not prevent WAL checkpoints.
func TestFailingSpool(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	w := newWorld(t, testdb.MemoryFolder(t), nil)
	w.must(w.capture())
	w.must(w.ship())
	w.fault = func(point string) error {
		if point == "spool" {
			return errors.New("no space left on device")
		}
		return nil
	}
	for i := range 20 {
		w.must(w.exec(names[0], large, i))
		_ = w.r.capture(t.Context())
	}
	if w.r.Status().CaptureError == nil {
		t.Error("the spool fails, and nobody says so")
	}
	info, err := os.Stat(w.path(names[0]) + "-wal")
	w.must(err)
	if info.Size() > 25<<20 {
		t.Errorf("the WAL has %d bytes: nobody checkpoints", info.Size())
	}
	w.fault = nil
	w.must(w.capture())
	w.must(w.ship())
	w.check()
	w.close()
}
