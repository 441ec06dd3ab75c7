package guest

import (
	"holdfast/internal/guest"
	"holdfast/internal/obs"
)

// countTelemetry returns what counts page views and funnel events.
func countTelemetry(m *obs.Metrics) func(kind string, sampled bool, n int) {
	items := m.Counter("holdfast_guest_telemetry_items_total", "Page views and funnel events that were received; with sampling, not all are published.", "kind", "result")
	results := map[bool]string{true: "published", false: "sampled-out"}
	for _, kind := range []string{guest.PageViews, guest.FunnelEvents} {
		for _, result := range results {
			items.WithLabelValues(kind, result)
		}
	}
	return func(kind string, sampled bool, n int) { items.WithLabelValues(kind, results[sampled]).Add(float64(n)) }
}
