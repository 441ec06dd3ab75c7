package overview

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/obs"
)

// The console shows charts of the last hours. historyEvery is the time between two points. Every tenth
// one measures the database servers, because each process does it, and on Citus on each node.
const (
	historyEvery = time.Minute
	MaxPoints    = 6 * 60
	historySized = 10
)

// History has the traffic and the sizes of the databases of the last hours.
type History struct {
	mu     sync.Mutex
	points []Point
}

// Point is the state of a server at a time.
type Point struct {
	At      time.Time
	Traffic obs.Traffic
	Shed    int64
	Sizes   map[string]int64 // by Database.Where, as far as they are known
}

// sizeTimeout limits how long a database server may take to tell its size.
const sizeTimeout = 5 * time.Second

// measure returns the point of now. It measures database servers if it should, or if their size is
// not known.
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
		if size, err := d.Size(ctx); err == nil { // the page of checks has the error
			p.Sizes[d.Where] = size
		}
	}
	return p
}

// run adds points until ctx ends.
func (h *History) run(ctx context.Context, measure func(ctx context.Context, servers bool) Point) {
	for i := 0; ; i++ {
		h.Add(measure(ctx, i%historySized == 0))
		if !clock.Sleep(ctx, historyEvery) {
			return
		}
	}
}

// Add adds a point, and forgets the oldest one if there are too many.
func (h *History) Add(p Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.points = append(h.points, p); len(h.points) > MaxPoints {
		h.points = slices.Delete(h.points, 0, len(h.points)-MaxPoints)
	}
}

// Points returns the points, the oldest first.
func (h *History) Points() []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.points)
}

// lastSize returns the size of a database in the latest point.
func (h *History) lastSize(where string) (size int64, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) > 0 {
		size, known = h.points[len(h.points)-1].Sizes[where]
	}
	return size, known
}

// growth returns the latest size of a database, by how much it has grown, and in which time.
func (h *History) growth(where string) (size, grown int64, in time.Duration, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first, last *Point
	for i := range h.points {
		if _, ok := h.points[i].Sizes[where]; !ok {
			continue
		}
		if last = &h.points[i]; first == nil {
			first = last
		}
	}
	if first == nil {
		return 0, 0, 0, false
	}
	return last.Sizes[where], last.Sizes[where] - first.Sizes[where], last.At.Sub(first.At), true
}

// charts returns charts of the requests and of the sizes of databases, whose names are those of
// their services. The interval before the first Point is unknown.
func (h *History) charts(databases map[string][]string) *service.Charts {
	h.mu.Lock()
	defer h.mu.Unlock()
	requests, failed, shed := service.Series{Name: "Requests"}, service.Series{Name: "Errors of the server"}, service.Series{Name: "Rejected because of overload"}
	slow := service.Series{Name: "99th percentile"}
	var times []time.Time
	for i := 1; i < len(h.points); i++ {
		before, p := h.points[i-1], h.points[i]
		seconds, t, quantile := p.At.Sub(before.At).Seconds(), p.Traffic.Since(before.Traffic), math.NaN()
		if seconds <= 0 || len(times) > 0 && !p.At.After(times[len(times)-1]) { // the clock was set back
			continue
		}
		if t.Requests > 0 {
			quantile = t.Quantile(.99)
		}
		times = append(times, p.At)
		requests.Values = append(requests.Values, float64(t.Requests)/seconds)
		failed.Values = append(failed.Values, float64(t.Errors)/seconds)
		shed.Values = append(shed.Values, float64(p.Shed-before.Shed)/seconds)
		slow.Values = append(slow.Values, quantile)
	}
	return &service.Charts{All: []*service.Chart{
		{Title: "Requests", Unit: "/s", Times: times, Series: []service.Series{requests, failed, shed}},
		{Title: "Duration of requests", Unit: "s", Times: times, Series: []service.Series{slow}},
		h.sizes(databases),
	}}
}

// sizes returns a chart of the sizes of databases. The caller holds the lock.
func (h *History) sizes(databases map[string][]string) *service.Chart {
	c := &service.Chart{Title: "Size of the databases", Unit: "B"}
	var shown []*Point
	for i := range h.points {
		if p := &h.points[i]; len(shown) == 0 || p.At.After(shown[len(shown)-1].At) { // the clock may be set back
			shown, c.Times = append(shown, p), append(c.Times, p.At)
		}
	}
	for where, services := range databases {
		s := service.Series{Name: strings.Join(services, ", ")}
		for _, p := range shown {
			value := math.NaN()
			if size, ok := p.Sizes[where]; ok {
				value = float64(size)
			}
			s.Values = append(s.Values, value)
		}
		if slices.ContainsFunc(s.Values, func(v float64) bool { return !math.IsNaN(v) }) {
			c.Series = append(c.Series, s)
		}
	}
	slices.SortFunc(c.Series, func(a, b service.Series) int { return strings.Compare(a.Name, b.Name) })
	return c
}
