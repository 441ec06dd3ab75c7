package app

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/obs"
)

// The console shows charts of the last hours. historyEvery is the time between two points.
const (
	historyEvery  = time.Minute
	historyPoints = 6 * 60
)

// history has the traffic of the last hours.
type history struct {
	mu     sync.Mutex
	points []point
}

type point struct {
	at      time.Time
	traffic obs.Traffic
}

// run adds points until ctx ends.
func (h *history) run(ctx context.Context, now clock.Clock, traffic func() obs.Traffic) {
	for {
		h.add(point{now(), traffic()})
		if !clock.Sleep(ctx, historyEvery) {
			return
		}
	}
}

func (h *history) add(p point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.points = append(h.points, p); len(h.points) > historyPoints {
		h.points = slices.Delete(h.points, 0, len(h.points)-historyPoints)
	}
}

// charts returns charts of the requests. The interval before the first point is unknown.
func (h *history) charts() []service.Block {
	h.mu.Lock()
	defer h.mu.Unlock()
	requests, failed := service.Series{Name: "Requests"}, service.Series{Name: "Errors of the server"}
	slow := service.Series{Name: "99 of 100 requests took at most"}
	var times []time.Time
	for i := 1; i < len(h.points); i++ {
		before, p := h.points[i-1], h.points[i]
		seconds, t, quantile := p.at.Sub(before.at).Seconds(), p.traffic.Since(before.traffic), math.NaN()
		if seconds <= 0 { // the clock was set back
			continue
		}
		if t.Requests > 0 {
			quantile = t.Quantile(.99)
		}
		times = append(times, p.at)
		requests.Values = append(requests.Values, float64(t.Requests)/seconds)
		failed.Values = append(failed.Values, float64(t.Errors)/seconds)
		slow.Values = append(slow.Values, quantile)
	}
	return []service.Block{
		&service.Chart{Title: "Requests", Unit: "/s", Times: times, Series: []service.Series{requests, failed}},
		&service.Chart{Title: "Duration of requests", Unit: "s", Times: times, Series: []service.Series{slow}},
	}
}
