package buckets

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/clock"
	"holdfast/internal/obs"
)

// cached is a value that is read when it is needed, at most once in backlogAge.
type cached[T any] struct {
	read func(context.Context) (T, error)
	now  clock.Clock

	mu    sync.Mutex
	value T
	asked time.Time // time of the last read, even if it failed
	known bool
}

// get returns false if the last read failed. It does not try again before backlogAge.
func (c *cached[T]) get() (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); c.asked.IsZero() || now.Sub(c.asked) >= backlogAge || now.Before(c.asked) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		value, err := c.read(ctx)
		c.value, c.asked, c.known = value, now, err == nil
	}
	return c.value, c.known
}

// forget makes the next get read the value again, e.g. after a repair.
func (c *cached[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Time{}
}

// know makes the counters show 0 for nodes without an event.
func (m *metrics) know(nodes []blobs.Status) {
	for i := range nodes {
		for _, counter := range []*prometheus.CounterVec{m.repaired, m.scrubbedCopies, m.scrubbedBytes} {
			counter.WithLabelValues(nodes[i].ID)
		}
	}
}

// observeDamages registers the metrics for damaged copies and the scrubber. scrubEvery is 0 if the scrubber is off.
func (m *metrics) observeDamages(to *obs.Metrics, cluster *blobs.Cluster, scrubEvery time.Duration) {
	m.repaired = to.Counter("holdfast_buckets_repaired_copies_total", "Damaged body copies rewritten from good copies.", "node")
	m.scrubbedCopies = to.Counter("holdfast_buckets_scrubbed_copies_total", "Body copies read by the scrubber.", "node")
	m.scrubbedBytes = to.Counter("holdfast_buckets_scrubbed_bytes_total", "Body bytes read by the scrubber.", "node")
	to.Gauge("holdfast_buckets_damaged_copies", "Missing or wrong body copies: damaged (to be repaired) or lost (no good copy elsewhere).", func(set obs.Set) {
		m.know(cluster.Nodes())
		h, known := m.health.get()
		if !known {
			return
		}
		for _, n := range cluster.Nodes() {
			for _, state := range []buckets.DamageState{buckets.Damaged, buckets.Lost} {
				copies := int64(0)
				for _, c := range h.Damages {
					if c.Node == n.ID && c.State == state {
						copies = c.Copies
					}
				}
				set(float64(copies), n.ID, string(state))
			}
		}
	}, "node", "state")
	scrubs := func(name, help string, value func(buckets.Scrub) float64) {
		to.Gauge(name, help, func(set obs.Set) {
			h, known := m.health.get()
			for _, n := range cluster.Nodes() {
				progress := buckets.Scrub{Node: n.ID, Began: buckets.At(m.now()), Total: 1} // a state before the first pass
				if i := slices.IndexFunc(h.Scrubs, func(s buckets.Scrub) bool { return s.Node == n.ID }); i >= 0 {
					progress = h.Scrubs[i]
				}
				if known {
					set(value(progress), n.ID)
				}
			}
		}, "node")
	}
	scrubs("holdfast_buckets_scrub_progress_ratio", "Share of the storage node's bytes read in the current scrubber pass.", scrubShare)
	scrubs("holdfast_buckets_scrub_age_seconds", "Time since the last complete scrubber pass over the storage node, or since the start of the first pass.", func(s buckets.Scrub) float64 {
		since := s.Ended
		if since == 0 {
			since = s.Began
		}
		return m.now().Sub(since.Time()).Seconds()
	})
	to.Gauge("holdfast_buckets_scrub_interval_seconds", "Scrubber interval (buckets.scrub_interval); 0: disabled.", func(set obs.Set) {
		set(scrubEvery.Seconds())
	})
}

// scrubShare returns a pass's completed share, from 0 to 1.
func scrubShare(s buckets.Scrub) float64 {
	if s.Done || s.Total == 0 {
		return 1
	}
	return min(1, float64(s.Bytes)/float64(s.Total))
}
