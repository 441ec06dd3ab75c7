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

// metrics have no account or bucket labels.
type metrics struct {
	// ops and latency are by S3 operation; bodies are by storage node.
	ops     *prometheus.CounterVec
	latency *prometheus.HistogramVec
	bodies  *prometheus.CounterVec
	// aborted counts uploads that were too old, and dropped the events that a destination did not accept.
	aborted atomic.Int64
	dropped *prometheus.CounterVec

	lifecycleRead, lifecycleObjects, lifecycleBytes, lifecycleUploads atomic.Int64

	now clock.Clock

	repaired, scrubbedCopies, scrubbedBytes *prometheus.CounterVec

	// health and backlog read the database at most once in backlogAge.
	health  cached[maintenance.Health]
	backlog cached[buckets.Backlog]
}

// events are the label event's values.
var events = []string{
	string(blobs.Written), string(blobs.WriteFailed), string(blobs.Read), string(blobs.ReadFailed),
	string(blobs.Missing), string(blobs.Truncated), string(blobs.Corrupt), string(blobs.Unframed),
}

// observe registers all metrics, with each label value that may occur, so that they show 0 at first. Nodes are added
// when they are scraped, because they change.
func (s *Buckets) observe(d *service.Deps, s3 *s3api.Handler) *metrics {
	m, cluster := d.Metrics, s.cluster
	r := &metrics{
		now:     d.Clock,
		health:  cached[maintenance.Health]{read: s.maintenance.Health, now: d.Clock},
		backlog: cached[buckets.Backlog]{read: s.opened.Backlog, now: d.Clock},

		ops:     m.Counter("holdfast_buckets_operations_total", "S3 operations, by result.", "operation", "result"),
		latency: m.Histogram("holdfast_buckets_operation_duration_seconds", "Duration of S3 operations, including body transfers.", "operation"),
		dropped: m.Counter("holdfast_buckets_events_dropped_total", "Events that a destination did not accept in time.", "destination"),
		bodies:  m.Counter("holdfast_buckets_node_bodies_total", "Body copies written to and read from a storage node, and failures.", "node", "event"),
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
	total("holdfast_buckets_received_bytes_total", "Bytes in S3 request bodies.", &s3.Received)
	total("holdfast_buckets_sent_bytes_total", "Object bytes sent to clients.", &s3.Sent)
	total("holdfast_buckets_uploads_aborted_total", "Incomplete uploads aborted because of their age.", &r.aborted)
	total("holdfast_buckets_lifecycle_read_total", "Objects and uploads that lifecycle rules were applied to.", &r.lifecycleRead)
	total("holdfast_buckets_lifecycle_deleted_objects_total", "Objects that lifecycle rules deleted.", &r.lifecycleObjects)
	total("holdfast_buckets_lifecycle_deleted_bytes_total", "Object bytes deleted by lifecycle rules.", &r.lifecycleBytes)
	total("holdfast_buckets_lifecycle_aborted_uploads_total", "Incomplete uploads that lifecycle rules aborted.", &r.lifecycleUploads)
	m.Total("holdfast_buckets_locked_total", "Version deletions and changes refused by object lock.", func(set obs.Set) { set(float64(s.opened.Locked())) })
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
	nodes("holdfast_buckets_node_free_bytes", "Free space on the storage node.", func(n *blobs.Status) (float64, bool) {
		return float64(n.Space.Free), n.HasSpace && n.Space.Free >= 0
	})
	nodes("holdfast_buckets_node_size_bytes", "Total space on the storage node.", func(n *blobs.Status) (float64, bool) {
		return float64(n.Space.Total), n.HasSpace && n.Space.Total >= 0
	})
	garbage := func(name, help string, value func(buckets.Backlog) float64) {
		m.Gauge(name, help, func(set obs.Set) {
			if b, known := r.backlog.get(); known {
				set(value(b))
			}
		})
	}
	garbage("holdfast_buckets_garbage_objects", "Deleted objects whose bodies are not removed yet.", func(b buckets.Backlog) float64 { return float64(b.Rows) })
	garbage("holdfast_buckets_garbage_bytes", "Bytes of deleted objects not removed yet.", func(b buckets.Backlog) float64 { return float64(b.Bytes) })
	garbage("holdfast_buckets_garbage_oldest_age_seconds", "Time since the oldest deleted object not removed yet was deleted, or 0.", func(b buckets.Backlog) float64 {
		if b.Oldest == 0 {
			return 0
		}
		return d.Clock().Sub(b.Oldest.Time()).Seconds()
	})
	r.observeDamages(m, cluster, s.cfg.ScrubEvery)
	return r
}

// backlogAge is how long values from the database are cached, because reading the backlog scans all garbage.
const backlogAge = time.Minute

// count returns the handler for S3 requests, which it counts by operation.
func (m *metrics) count(s3 *s3api.Handler) web.Handler {
	s3.Observe = func(operation string, r *http.Request, err error, took time.Duration) {
		m.ops.WithLabelValues(operation, resultOf(r, err)).Inc()
		m.latency.WithLabelValues(operation).Observe(took.Seconds())
	}
	return s3.Serve
}

// resultOf returns the result label. "left" means that the client disconnected.
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
