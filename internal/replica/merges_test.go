package replica

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superfly/ltx"

	"holdfast/internal/testdb"
)

// forge adds an object whose name claims to replace the files with a range of transactions.
func (w *world) forge(database, run string, from, to ltx.TXID) {
	w.t.Helper()
	name := ltxFile{run: run, from: from, to: to}.objectName(database) + w.r.keys.suffix()
	if !slices.Contains(w.objects(), name) {
		w.must(w.target.Target.Put(w.t.Context(), name, bytes.NewReader([]byte("forged"))))
	}
}

// TestForgedRanges adds all ranges of transactions that the server did not send. Tidying keeps the good files, also after
// a restart and without its record, and deletes the forged files if the record is there. A restore uses the good files, and
// reports the others.
func TestForgedRanges(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	for name, c := range map[string]struct {
		before   func(w *world)
		stay     bool // the forged files, because nothing says which files are good
		isMerged bool // good files with several transactions may hide the forged ones
	}{
		"singles":            {before: func(*world) {}},
		"merged":             {before: func(*world) {}, isMerged: true},
		"after a restart":    {before: func(w *world) { w.reopen(); w.must(w.ship()) }, isMerged: true},
		"without the record": {before: func(w *world) { w.r.merges = merges{} }, stay: true, isMerged: true},
		"with a damaged record": {before: func(w *world) {
			w.must(os.WriteFile(w.r.opts.Spool+mergedNote, []byte(`{"one.db/`), 0o600))
			w.r.merges = nil
		}, stay: true, isMerged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := twoPoints(t, nil)
			if c.isMerged {
				w.must(w.r.maintain(t.Context()))
				w.must(w.r.tidy(t.Context(), w.clock.Now().Add(100*time.Hour)))
			}
			c.before(w)
			position := w.r.newest().Files["one.db"]
			good := w.objects()
			for from := ltx.TXID(1); from <= position.TXID; from++ {
				for to := from; to <= position.TXID+1; to++ {
					w.forge("one.db", position.Run, from, to)
				}
			}
			var ignored []error
			into := t.TempDir()
			_, err := Restore(t.Context(), Restoring{
				Target: w.target, Known: testNames, Trust: testTrust, Into: into,
				Ignored: func(damage error) { ignored = append(ignored, damage) },
			})
			if err != nil || len(ignored) == 0 && !c.isMerged || len(ignored) > 0 && !strings.Contains(ignored[0].Error(), filesPrefix("one.db", position.Run)) {
				t.Errorf("before tidying: %v, ignored %v", err, ignored)
			}
			w.must(w.r.tidy(t.Context(), w.clock.Now().Add(200*time.Hour)))
			w.checkAgain()
			left := 0
			for _, f := range filesOf(w.objects())[seriesKey("one.db", position.Run, "")].sorted {
				if !slices.Contains(good, f.name) && f.to <= position.TXID { // a later file may belong to the next point
					left++
				}
			}
			if left > 0 != c.stay {
				t.Errorf("%d forged files stay", left)
			}
		})
	}
}
