package overview

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/obs"
)

var historyStart = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func newHistory(file string) (h *History, log *strings.Builder) {
	log = &strings.Builder{}
	h = &History{File: file, Log: slog.New(slog.NewTextHandler(log, nil))}
	h.load()
	return h, log
}

// fill adds points for n minutes, with a request each second, a tenth of them failing.
func fill(h *History, from time.Time, n, databases int) {
	for i := range n {
		p := Point{At: from.Add(time.Duration(i) * time.Minute), Shed: int64(i) * 30, Sizes: map[string]int64{}}
		p.Traffic = obs.Traffic{Requests: int64(i) * 60, Errors: int64(i) * 6}
		for d := range databases {
			p.Sizes[fmt.Sprintf("postgres://a-database-with-a-long-name.example.org:5432/holdfast_%d", d)] = int64(i) << 30
		}
		h.Add(p)
	}
}

func values(c *service.Chart, series int) (known []float64, unknown int) {
	for _, v := range c.Series[series].Values {
		if math.IsNaN(v) {
			unknown++
		} else {
			known = append(known, v)
		}
	}
	return known, unknown
}

// TestHistorySpans checks that an hour consists of minutes, and a day and a week of means.
func TestHistorySpans(t *testing.T) {
	t.Parallel()
	h, _ := newHistory("")
	fill(h, historyStart, 8*24*60, 1)
	for at, want := range []int{MaxPoints, 144, 168} {
		c := h.charts(map[string][]string{"postgres://a-database-with-a-long-name.example.org:5432/holdfast_0": {"a"}}, at)
		requests := c.All[0]
		if n := len(requests.Times); n < want-1 || n > want {
			t.Errorf("%s: %d points", c.Spans.Current, n)
		}
		for i, name := range []string{"Requests", "Server errors", "Rejected because of overload"} {
			for _, v := range requests.Series[i].Values {
				if rate := []float64{1, .1, .5}[i]; math.Abs(v-rate) > 1e-9 || requests.Series[i].Name != name {
					t.Fatalf("%s: %s is %v, want %v", c.Spans.Current, requests.Series[i].Name, v, rate)
				}
			}
		}
		if sizes := c.All[2].Series[0].Values; sizes[len(sizes)-1] != float64(8*24*60-1)*(1<<30) {
			t.Errorf("%s: the size is %v", c.Spans.Current, sizes[len(sizes)-1])
		}
		if span := requests.Times[len(requests.Times)-1].Sub(requests.Times[0]); span > spans[at].length() || span < spans[at].length()*9/10 {
			t.Errorf("%s is %v long", c.Spans.Current, span)
		}
	}
	if _, grown, in, _ := h.growth("postgres://a-database-with-a-long-name.example.org:5432/holdfast_0"); in < 6*24*time.Hour || grown != int64(in/time.Minute)<<30 {
		t.Errorf("grown by %d in %v", grown, in)
	}
}

// TestHistoryRestart checks that a restart shows a gap, after which the counters start at zero.
func TestHistoryRestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), HistoryFile)
	h, _ := newHistory(file)
	fill(h, historyStart, 30, 2)
	h.save()
	h, log := newHistory(file)
	if c := h.charts(nil, 0); len(c.All[0].Times) != 0 {
		t.Errorf("before the first point: %v", c.All[0].Times)
	}
	fill(h, historyStart.Add(45*time.Minute), 10, 2)
	requests := h.charts(nil, 0).All[0]
	known, unknown := values(requests, 0)
	if len(known) != 29+9 || unknown != 2 {
		t.Errorf("%d known, %d unknown: %v", len(known), unknown, requests.Series[0].Values)
	}
	for _, v := range known {
		if math.Abs(v-1) > 1e-3 {
			t.Errorf("%v requests per second", v)
		}
	}
	if log.String() != "" {
		t.Error(log)
	}
}

// TestHistoryClock sets the clock back and forward. Points from a wildly wrong clock are hidden and do not replace
// others.
func TestHistoryClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then  time.Time
		shown int
	}{
		"back by ten minutes":    {historyStart.Add(50 * time.Minute), 50 + 5},
		"forward by ten minutes": {historyStart.Add(70 * time.Minute), 0},
		"without an own clock":   {time.Unix(0, 0), 5},
		"forward by years":       {historyStart.AddDate(20, 0, 0), 5},
	} {
		h, _ := newHistory("")
		fill(h, historyStart, 60, 1)
		fill(h, c.then, 5, 1)
		all := h.charts(nil, 0).All[2].Times
		if c.shown > 0 && len(all) != c.shown {
			t.Errorf("%s: %d points", name, len(all))
		}
		for i := 1; i < len(all); i++ {
			if !all[i].After(all[i-1]) {
				t.Errorf("%s: %v after %v", name, all[i], all[i-1])
			}
		}
		known, _ := values(h.charts(nil, 0).All[0], 0)
		for _, v := range known {
			if math.Abs(v-1) > 1e-9 {
				t.Errorf("%s: %v requests per second", name, v)
			}
		}
		fill(h, historyStart.Add(2*time.Hour), 10, 1)
		for at := 1; at < len(spans); at++ {
			if c := h.charts(nil, at).All[2]; c.Times[0].Year() != 2026 || len(c.Times) < 2 {
				t.Errorf("%s: %v", name, c.Times)
			}
		}
	}
}

func TestHistorySize(t *testing.T) {
	t.Parallel()
	for databases, most := range map[int]int64{1: 24 << 10, 5: 64 << 10, 3 * maxDatabases: maxHistoryFile} {
		file := filepath.Join(t.TempDir(), HistoryFile)
		h, _ := newHistory(file)
		fill(h, historyStart, 8*24*60, databases)
		h.save()
		info, err := os.Stat(file)
		if err != nil || info.Size() > most {
			t.Errorf("%d databases: %v, %v", databases, info.Size(), err)
		}
		h, log := newHistory(file)
		if log.String() != "" || len(h.samples[2]) != 168 || len(h.samples[0]) != MaxPoints {
			t.Errorf("%d databases: %d samples of a week; %s", databases, len(h.samples[2]), log)
		}
	}
}

// TestHistoryDamage checks that a damaged or foreign file is ignored, logged and replaced.
func TestHistoryDamage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), HistoryFile)
	h, _ := newHistory(file)
	fill(h, historyStart, 30, 2)
	h.save()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func(*storedHistory)) string {
		var s storedHistory
		if err := json.Unmarshal(good, &s); err != nil {
			t.Fatal(err)
		}
		change(&s)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, text := range map[string]string{
		"cut":             string(good[:len(good)/2]),
		"empty":           "",
		"zeros":           strings.Repeat("\x00", len(good)),
		"null":            "null",
		"foreign":         `{"charts":[]}`,
		"another version": edit(func(s *storedHistory) { s.Format = 2 }),
		"a short row":     edit(func(s *storedHistory) { s.Samples["day"][0] = s.Samples["day"][0][:3] }),
		"a null":          edit(func(s *storedHistory) { s.Samples["hour"][0][1] = nil }),
		"negative":        edit(func(s *storedHistory) { s.Samples["week"][0][2] = new(-1.0) }),
		"huge numbers":    edit(func(s *storedHistory) { s.Samples["hour"][0][6] = new(1e300) }),
		"too large":       string(good) + strings.Repeat(" ", maxHistoryFile),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, log := newHistory(file)
		if strings.Count(log.String(), "level=WARN") != 1 || h.samples[0] != nil || h.samples[1] != nil {
			t.Errorf("%s: %s", name, log)
		}
		fill(h, historyStart, 3, 1)
		h.save()
		if h, log = newHistory(file); log.String() != "" || len(h.samples[0]) != 3 {
			t.Errorf("%s: afterwards %d samples; %s", name, len(h.samples[0]), log)
		}
	}
}

// TestHistoryWithoutDisk checks that an unwritable file only causes a single log line.
func TestHistoryWithoutDisk(t *testing.T) {
	t.Parallel()
	h, log := newHistory(filepath.Join(t.TempDir(), "missing", HistoryFile))
	fill(h, historyStart, 3, 1)
	for range 3 {
		h.save()
	}
	if n := strings.Count(log.String(), "will not survive a restart"); n != 1 || len(h.charts(nil, 0).All[0].Times) != 2 {
		t.Errorf("%d warnings in\n%s", n, log)
	}
}

// TestHistoryOfTwoServers checks that servers with the same data folder replace the file atomically.
func TestHistoryOfTwoServers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), HistoryFile)
	var wg sync.WaitGroup
	for range 3 {
		h, _ := newHistory(file)
		wg.Go(func() {
			for i := range 20 {
				fill(h, historyStart.Add(time.Duration(i)*time.Hour), 20, 3)
				h.save()
			}
		})
	}
	wg.Wait()
	if h, log := newHistory(file); log.String() != "" || len(h.samples[0]) == 0 {
		t.Errorf("%d samples; %s", len(h.samples[0]), log)
	}
}
