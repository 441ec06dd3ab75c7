package buckets

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/buckets/s3api"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

// metrics are not labeled by account or bucket.
type metrics struct {
	ops     *prometheus.CounterVec
	latency *prometheus.HistogramVec
	bodies  *prometheus.CounterVec
	aborted atomic.Int64
	dropped *prometheus.CounterVec

	lifecycleRead, lifecycleObjects, lifecycleBytes, lifecycleUploads atomic.Int64

	now clock.Clock

	repaired, scrubbedCopies, scrubbedBytes *prometheus.CounterVec

	health  cached[maintenance.Health]
	backlog cached[buckets.Backlog]
}

var events = []string{
	string(blobs.Written), string(blobs.WriteFailed), string(blobs.Read), string(blobs.ReadFailed),
	string(blobs.Missing), string(blobs.Truncated), string(blobs.Corrupt), string(blobs.Unframed),
}

func (s *Buckets) observe(d *service.Deps, s3 *s3api.Handler) *metrics {
	m, cluster := d.Metrics, s.cluster
	r := &metrics{
		now:     d.Clock,
		health:  cached[maintenance.Health]{read: s.maintenance.Health, now: d.Clock},
		backlog: cached[buckets.Backlog]{read: s.opened.Backlog, now: d.Clock},

		ops:     m.Counter("S3 operations, by result.", "Operations of S3, by result.", "operation", "result"),
		latency: m.Histogram("Duration of S3 operations, including body transfers.", "Duration of operations of S3, including the transfer of bodies.", "operation"),
		dropped: m.Counter("holdfast_buckets_events_dropped_total", "Events that a destination did not accept in time.", "destination"),
		bodies:  m.Counter("Body copies written to and read from a storage node, and failures.", "Copies of bodies that were written to and read from a storage node, and what failed.", "node", "event"),
	}
	for name := range s.cfg.Destinations {
		r.dropped.WithLabelValues(name)
	}
	for _, operation := range s3api.Operations {
		r.ops.WithLabelValues(operation, "ok")
		r.latency.WithLabelValues(operation)
	}
	total := func(name, help string, n *atomic.Int64) {
		m.Total(name, help, func(set obs.Set) { set(float64(n.Load())) })
	}
	total("Bytes in S3 request bodies.", "Bytes of request bodies of S3.", &s3.Received)
	total("Object bytes sent to clients.", "Bytes of objects that were sent to clients.", &s3.Sent)
	total("Incomplete uploads aborted because of their age.", "Incomplete uploads that were aborted because of their age.", &r.aborted)
	total("holdfast_buckets_lifecycle_read_total", "Objects and uploads that lifecycle rules were applied to.", &r.lifecycleRead)
	total("holdfast_buckets_lifecycle_deleted_objects_total", "Objects that lifecycle rules deleted.", &r.lifecycleObjects)
	total("Object bytes deleted by lifecycle rules.", "Bytes of objects that lifecycle rules deleted.", &r.lifecycleBytes)
	total("holdfast_buckets_lifecycle_aborted_uploads_total", "Incomplete uploads that lifecycle rules aborted.", &r.lifecycleUploads)
	m.Total("Version deletions and changes refused by object lock.", "Deletions and changes of versions that object lock refused.", func(set obs.Set) { set(float64(s.opened.Locked())) })
	nodes := func(name, help string, value func(*blobs.Status) (float64, bool)) {
		m.Gauge(name, help, func(set obs.Set) {
			for _, n := range cluster.Nodes() {
				for _, e := range events {
					r.bodies.WithLabelValues(n.ID, e)
				}
				if v, ok := value(&n); ok {
					set(v, n.ID)
				}
			}
		}, "node")
	}
	nodes("holdfast_buckets_node_up", "1 if the storage node works, else 0.", func(n *blobs.Status) (float64, bool) {
		if n.Err != nil || !n.HasSpace {
			return 0, true
		}
		return 1, true
	})
	nodes("holdfast_buckets_node_active", "1 if the storage node gets new bodies, 0 if it is read-only or drained.", func(n *blobs.Status) (float64, bool) {
		if n.State == buckets.NodeActive && !n.Space.ReadOnly {
			return 1, true
		}
		return 0, true
	})
	nodes("Free space on the storage node.", "Free space of the storage node.", func(n *blobs.Status) (float64, bool) {
		return float64(n.Space.Free), n.HasSpace && n.Space.Free >= 0
	})
	nodes("Total space on the storage node.", "Size of the storage node.", func(n *blobs.Status) (float64, bool) {
		return float64(n.Space.Total), n.HasSpace && n.Space.Total >= 0
	})
	garbage := func(name, help string, value func(buckets.Backlog) float64) {
		m.Gauge(name, help, func(set obs.Set) {
			if b, known := r.backlog.get(); known {
				set(value(b))
			}
		})
	}
	garbage("Deleted objects whose bodies are not removed yet.", "Deleted objects whose bodies are not removed yet.", func(b buckets.Backlog) float64 { return float64(b.Rows) })
	garbage("Bytes of deleted objects not removed yet.", "Bytes of deleted objects that are not removed yet.", func(b buckets.Backlog) float64 { return float64(b.Bytes) })
	garbage("Time since the oldest deleted object not removed yet was deleted, or 0.", "Time since the deletion of the oldest object that is not removed yet, or 0.", func(b buckets.Backlog) float64 {
		if b.Oldest == 0 {
			return 0
		}
		return d.Clock().Sub(b.Oldest.Time()).Seconds()
	})
	r.observeDamages(m, cluster, s.cfg.ScrubEvery)
	return r
}

// backlogAge is how long database values are cached. Reading the backlog scans all garbage.
const backlogAge = time.Minute

func (m *metrics) count(s3 *s3api.Handler) web.Handler {
	s3.Observe = func(operation string, r *http.Request, err error, took time.Duration) {
		m.ops.WithLabelValues(operation, resultOf(r, err)).Inc()
		m.latency.WithLabelValues(operation).Observe(took.Seconds())
	}
	return s3.Serve
}

// resultOf returns a result label; left means that the client disconnected.
func resultOf(r *http.Request, err error) string {
	switch {
	case err == nil:
		return "ok"
	case r.Context().Err() != nil:
		return "left"
	case errcode.Of(err) == errcode.Internal || errcode.Is(err, errcode.Unavailable):
		return "failed"
	}
	return "refused"
}
