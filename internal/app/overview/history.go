package overview

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/obs"
)

// historyEvery is the time between points. Database servers are measured once per historySized points, because every
// process queries them, and Citus queries each node.
const (
	historyEvery = time.Minute
	historySized = 10
	MaxPoints    = 61 // an hour
)

// span is a period that the charts can show, with its own resolution.
type span struct {
	name, title string        // in addresses and in the file
	every       time.Duration // time between samples
	samples     int           // kept at most
}

// spans are the charts' periods, by increasing length and interval.
var spans = [...]span{
	{"hour", "Hour", historyEvery, MaxPoints},
	{"day", "Day", 10 * time.Minute, 24 * 6},
	{"week", "Week", time.Hour, 7 * 24},
}

// length is the period that a chart shows.
func (s *span) length() time.Duration { return s.every * time.Duration(s.samples) }

// History is the last week's traffic and database sizes, kept in a file to survive restarts.
type History struct {
	File string // "": kept in memory only
	Log  *slog.Logger

	mu      sync.Mutex
	points  []Point              // last hour, in insertion order, like the samples
	samples [len(spans)][]sample // by index in spans
	unsaved bool                 // the last write failed, which was logged
}

// Point is the server's state at a time.
type Point struct {
	At      time.Time
	Traffic obs.Traffic      // counters since the start
	Shed    int64            // requests rejected because of overload, since the start
	Sizes   map[string]int64 // by Database.Where; known sizes only
}

// sample counts events in an interval, which ends with the sample.
type sample struct {
	at       time.Time // end
	seconds  float64   // traffic duration; 0: unknown
	requests float64
	errors   float64 // responses with status 5xx
	shed     float64
	slow     float64          // 99th percentile of the slowest minute, in seconds; 0: no requests
	sizes    map[string]int64 // by Database.Where, at the end
}

const sizeTimeout = 5 * time.Second // for all databases

// measure reads the counters and the database sizes. Database servers are asked only if servers is true or their size
// is not known yet; otherwise the last size is used again.
func (o *Overview) measure(ctx context.Context, servers bool) Point {
	p := Point{At: o.Clock(), Traffic: o.Traffic(), Shed: o.Gate.Stats().Shed, Sizes: map[string]int64{}}
	ctx, cancel := context.WithTimeout(ctx, sizeTimeout)
	defer cancel()
	for _, d := range o.databases() {
		if _, known := p.Sizes[d.Where]; known || d.Size == nil {
			continue
		}
		if last, known := o.History.lastSize(d.Where); known && !servers && !d.Embedded() {
			p.Sizes[d.Where] = last
			continue
		}
		if size, err := d.Size(ctx); err == nil {
			p.Sizes[d.Where] = size
		}
	}
	return p
}

// run measures until ctx ends. It reads the file first, and writes it every historySaved points and at the end.
func (h *History) run(ctx context.Context, measure func(ctx context.Context, servers bool) Point) {
	h.load()
	defer h.save()
	for i := 0; ; i++ {
		h.Add(measure(ctx, i%historySized == 0))
		if i%historySaved == historySaved-1 {
			h.save()
		}
		if !clock.Sleep(ctx, historyEvery) {
			return
		}
	}
}

// Add appends a point and updates all periods' samples.
func (h *History) Add(p Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := sample{at: p.At, sizes: p.Sizes}
	if len(h.points) > 0 {
		s.count(&h.points[len(h.points)-1], &p)
	}
	h.points = append(h.points, p)
	h.points = h.points[max(0, len(h.points)-MaxPoints):]
	for i := range h.samples {
		h.samples[i] = spans[i].add(h.samples[i], s)
	}
}

// count sets the traffic since the previous point, unless the clock was changed or the machine was suspended.
func (s *sample) count(before, p *Point) {
	seconds := p.At.Sub(before.At).Seconds()
	if seconds <= 0 || seconds > 5*historyEvery.Seconds() {
		return
	}
	t := p.Traffic.Since(before.Traffic)
	s.seconds, s.requests, s.errors, s.shed = seconds, float64(t.Requests), float64(t.Errors), float64(p.Shed-before.Shed)
	s.slow = t.Quantile(.99)
}

// add merges a sample into the last sample if the interval is the same. If the clock was set back, it removes later
// samples. Samples from a wildly wrong clock are hidden, and expire.
func (s *span) add(all []sample, measured sample) []sample {
	all = slices.DeleteFunc(all, func(old sample) bool { return !old.at.Before(measured.at) && old.at.Sub(measured.at) < s.length() })
	if n := len(all); n > 0 && s.every > historyEvery && all[n-1].at.Truncate(s.every).Equal(measured.at.Truncate(s.every)) {
		last := &all[n-1]
		measured.seconds += last.seconds
		measured.requests += last.requests
		measured.errors += last.errors
		measured.shed += last.shed
		measured.slow = max(measured.slow, last.slow)
		*last = measured
		return all
	}
	all = append(all, measured)
	return slices.Delete(all, 0, max(0, len(all)-s.samples))
}

// Points returns the last hour's points, oldest first.
func (h *History) Points() []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.points)
}

// lastSize returns the size in the newest point.
func (h *History) lastSize(where string) (size int64, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) > 0 {
		size, known = h.points[len(h.points)-1].Sizes[where]
	}
	return size, known
}

// shown returns the period's samples (at), oldest first, without those that a wrong clock put into the future. The
// caller holds the lock.
func (h *History) shown(at int) (all []sample) {
	if len(h.points) == 0 {
		return nil
	}
	now := h.points[len(h.points)-1].At
	first := now.Add(-spans[at].length())
	for _, s := range h.samples[at] {
		if !s.at.After(now) && !s.at.Before(first) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b sample) int { return a.at.Compare(b.at) })
	return all
}

// growth returns a database's newest size, and by how much it grew in which time: from the oldest known sample to the
// newest, at most a week. known is false if its size was never measured.
func (h *History) growth(where string) (size, grown int64, in time.Duration, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first, last *sample
	for i := range slices.Backward(spans[:]) { // longer intervals keep only their last size, so shorter ones may begin earlier
		all := h.shown(i)
		for j := range all {
			if _, ok := all[j].sizes[where]; !ok {
				continue
			}
			if first == nil || all[j].at.Before(first.at) {
				first = &all[j]
			}
			if last == nil || all[j].at.After(last.at) {
				last = &all[j]
			}
		}
	}
	if first == nil {
		return 0, 0, 0, false
	}
	return last.sizes[where], last.sizes[where] - first.sizes[where], last.at.Sub(first.at), true
}

// spanOf finds the period with this name in spans, or the shortest period.
func spanOf(name string) int {
	return max(0, slices.IndexFunc(spans[:], func(s span) bool { return s.name == name }))
}

// charts draws the period at. databases are service names by Database.Where. The first charts are requests and
// durations, in this order; trafficStats takes its lines from them.
func (h *History) charts(databases map[string][]string, at int) *service.Charts {
	h.mu.Lock()
	all := h.shown(at)
	h.mu.Unlock()
	all = withGaps(all, spans[at].every)
	requests, failed, shed := service.Series{Name: "Requests"}, service.Series{Name: "Server errors"}, service.Series{Name: "Rejected because of overload"}
	slow := service.Series{Name: "99th percentile"}
	if spans[at].every > historyEvery {
		slow.Name += " in the slowest minute"
	}
	var times []time.Time
	for i := range all {
		s := &all[i]
		if len(times) == 0 && s.seconds == 0 {
			continue
		}
		rate := func(n float64) float64 { return orNaN(n/s.seconds, s.seconds > 0) }
		times = append(times, s.at)
		requests.Values = append(requests.Values, rate(s.requests))
		failed.Values = append(failed.Values, rate(s.errors))
		shed.Values = append(shed.Values, rate(s.shed))
		slow.Values = append(slow.Values, orNaN(s.slow, s.slow > 0))
	}
	c := &service.Charts{Spans: service.Views{Label: "Chart time range", Current: spans[at].title}, All: []*service.Chart{
		{Title: "Requests", Unit: "/s", Times: times, Series: []service.Series{requests, failed, shed}},
		{Title: "Request duration", Unit: "s", Times: times, Series: []service.Series{slow}},
		sizeChart(all, databases),
	}}
	for _, s := range spans {
		c.Spans.All = append(c.Spans.All, service.Link{Text: s.title, To: service.PageLink("", "span", s.name)})
	}
	return c
}

// orNaN returns NaN, a gap in a chart, for an unknown value.
func orNaN(v float64, known bool) float64 {
	if !known {
		return math.NaN()
	}
	return v
}

// withGaps adds an empty sample where the server did not run, so that lines are interrupted there.
func withGaps(all []sample, every time.Duration) (with []sample) {
	for i, s := range all {
		if i > 0 {
			if before := all[i-1].at; s.at.Sub(before) > 2*every+every/2 {
				with = append(with, sample{at: before.Add(every)})
			}
		}
		with = append(with, s)
	}
	return with
}

// sizeChart has a line for each database, named by the services in it. A database without a known size has none.
func sizeChart(all []sample, databases map[string][]string) *service.Chart {
	c := &service.Chart{Title: "Database size", Unit: "B"}
	for i := range all {
		c.Times = append(c.Times, all[i].at)
	}
	for where, services := range databases {
		s, isKnown := service.Series{Name: strings.Join(services, ", ")}, false
		for i := range all {
			size, ok := all[i].sizes[where]
			s.Values = append(s.Values, orNaN(float64(size), ok))
			isKnown = isKnown || ok
		}
		if isKnown {
			c.Series = append(c.Series, s)
		}
	}
	slices.SortFunc(c.Series, func(a, b service.Series) int { return cmp.Compare(a.Name, b.Name) })
	return c
}
