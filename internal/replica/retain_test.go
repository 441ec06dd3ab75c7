package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/superfly/ltx"
	"pgregory.net/rapid"

	"holdfast/internal/testdb"
)

type history struct {
	names  []string
	points map[string]Point
	runs   map[string]string
	txid   map[string]ltx.TXID
	merged map[string]ltx.TXID
	now    time.Time
	number uint64

	started int

	record merges          // the data folder's record
	forged map[string]bool // objects that somebody else added
}

func newHistory(now time.Time) *history {
	return &history{points: map[string]Point{}, runs: map[string]string{}, txid: map[string]ltx.TXID{}, merged: map[string]ltx.TXID{}, now: now, record: merges{}, forged: map[string]bool{}}
}

// files returns the files in the target, and those that the server knows.
func (h *history) files() listed {
	all := filesOf(h.names)
	return listed{all, h.record.of(all)}
}

func (h *history) add(database string, from, to ltx.TXID) {
	name := ltxFile{run: h.runs[database], from: from, to: to}.objectName(database)
	if h.forged[name] {
		h.names = without(h.names, name) // overwritten
		delete(h.forged, name)
	}
	h.names = append(h.names, name)
}

// addRange adds a file with several transactions, and usually records it.
func (h *history) addRange(database string, from, to ltx.TXID, isRecorded bool) {
	h.add(database, from, to)
	if isRecorded {
		h.record.add(seriesKey(database, h.runs[database], ""), rangeName(from, to))
	}
}

// forge adds an object, unless the target contains its name already.
func (h *history) forge(database string, from, to ltx.TXID) {
	name := ltxFile{run: h.runs[database], from: from, to: to}.objectName(database)
	if !slices.Contains(h.names, name) {
		h.names, h.forged[name] = append(h.names, name), true
	}
}

func (h *history) begin(database string) {
	h.started++
	h.runs[database] = fmt.Sprintf("%026d", h.started)
	h.txid[database], h.merged[database] = 1, 1
	h.add(database, 1, 1)
}

func (h *history) publish() {
	for database, run := range h.runs {
		h.record.add(seriesKey(database, run, ""), "")
	}
	h.number++
	p := Point{Number: h.number, Time: h.now, Files: map[string]Position{}}
	for database, run := range h.runs {
		p.Files[database] = Position{Run: run, TXID: h.txid[database]}
	}
	h.points[pointName(p)] = p
	h.names = append(h.names, pointName(p))
}

// TestRetention checks after each deletion, even the last before a crash, that all remaining points can be restored,
// including the newest and those of the last hour. The number of objects is limited. Somebody else adds files, and the
// record of the server's own files may be incomplete or lost.
func TestRetention(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(time.Unix(1_700_000_000, 0))
		h.begin("one.db")
		h.begin("two.db")
		h.publish()
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			database := rapid.SampledFrom(names).Draw(rt, "database")
			switch rapid.SampledFrom([]string{"write", "write", "publish", "publish", "merge", "snapshot", "run", "tidy", "wait", "forge", "forge", "lose the record"}).Draw(rt, "event") {
			case "write":
				h.txid[database]++
				h.add(database, h.txid[database], h.txid[database])
			case "publish":
				h.publish()
			case "merge":
				if h.txid[database] > h.merged[database] {
					h.addRange(database, h.merged[database]+1, h.txid[database], rapid.IntRange(0, 4).Draw(rt, "killed") > 0)
					h.merged[database] = h.txid[database]
				}
			case "snapshot":
				h.addRange(database, 1, h.txid[database], rapid.IntRange(0, 4).Draw(rt, "killed") > 0)
			case "forge":
				from := rapid.Uint64Range(1, uint64(h.txid[database])).Draw(rt, "from")
				to := rapid.Uint64Range(from, uint64(h.txid[database])+1).Draw(rt, "to")
				h.forge(database, ltx.TXID(from), ltx.TXID(to))
			case "lose the record": // and with it the chain, so that new runs begin
				h.record = merges{}
				for _, database := range names {
					h.begin(database)
				}
			case "run":
				h.begin(database)
			case "wait":
				h.now = h.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 100 * time.Hour}).Draw(rt, "time"))
			case "tidy":
				h.tidy(rt)
			}
			h.now = h.now.Add(time.Second)
		}
		h.publish()
		h.now = h.now.Add(1000 * time.Hour)
		h.tidy(rt)
		if len(h.points) != 1 {
			rt.Fatalf("%d points remain", len(h.points))
		}
	})
}

func (h *history) tidy(rt *rapid.T) {
	rule := retention{now: h.now, keep: 7 * 24 * time.Hour, fine: fine, every: mergeEvery}
	newest := h.number
	recent := 0
	for _, p := range h.points {
		if h.now.Sub(p.Time) <= fine {
			recent++
		}
	}
	before := h.restorable()
	for _, name := range unneeded(h.names, h.points, h.files(), current{runs: h.runs}, rule) {
		delete(h.points, name)
		h.names = without(h.names, name)
		for point := range h.points {
			if before[point] && !h.restorable()[point] {
				rt.Fatalf("after the deletion of %s, %s cannot be restored", name, point)
			}
		}
	}
	found := false
	for _, p := range h.points {
		found = found || p.Number == newest
		if h.now.Sub(p.Time) <= fine {
			recent--
		}
	}
	if !found || recent != 0 {
		rt.Fatalf("the newest point is there: %v; points of the last hour that are not: %d", found, recent)
	}
	if again := unneeded(h.names, h.points, h.files(), current{runs: h.runs}, rule); len(again) > 0 {
		rt.Fatalf("a second run deletes %v", again)
	}
	for database, run := range h.runs {
		if _, err := h.genuine()[database+"/"+run].cover(h.txid[database]); err != nil {
			rt.Fatalf("%s: %v", database, err)
		}
	}
}

// genuine returns the files that the server wrote.
func (h *history) genuine() series {
	return filesOf(slices.DeleteFunc(slices.Clone(h.names), func(name string) bool { return h.forged[name] }))
}

func (h *history) restorable() map[string]bool {
	files, all := h.genuine(), map[string]bool{}
	for name, p := range h.points {
		all[name] = true
		for database, position := range p.Files {
			if _, err := files[seriesKey(database, position.Run, "")].cover(position.TXID); err != nil {
				all[name] = false
			}
		}
	}
	return all
}

func without(names []string, name string) (rest []string) {
	for _, n := range names {
		if n != name {
			rest = append(rest, n)
		}
	}
	return rest
}

// TestRetentionSizes checks that with a point per second, the first hour keeps 3,600 points and later hours one per
// five minutes, with as many files.
func TestRetentionSizes(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	h := newHistory(time.Unix(1_700_000_000, 0).Truncate(mergeEvery))
	h.begin("one.db")
	for second := range 3 * 3600 {
		h.txid["one.db"]++
		h.add("one.db", h.txid["one.db"], h.txid["one.db"])
		h.publish()
		if second%300 == 299 {
			h.addRange("one.db", h.merged["one.db"]+1, h.txid["one.db"], true)
			h.merged["one.db"] = h.txid["one.db"]
		}
		h.now = h.now.Add(time.Second)
	}
	start := time.Now()
	deleted := len(unneeded(h.names, h.points, h.files(), current{runs: h.runs}, retention{now: h.now, keep: 7 * 24 * time.Hour, fine: fine, every: mergeEvery}))
	t.Logf("%d of %d objects remain, after %v", len(h.names)-deleted, len(h.names), time.Since(start))
	if remain := len(h.names) - deleted; remain > 2*3600+2*3*12+50 {
		t.Errorf("%d objects remain", remain)
	}
}
