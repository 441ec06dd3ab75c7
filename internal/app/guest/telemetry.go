package guest

import (
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/obs"
)

// countTelemetry returns what counts telemetry.
func countTelemetry(m *obs.Metrics) func(kind, result string, n int) {
	items := m.Counter("holdfast_guest_telemetry_items_total", "Page views and funnel events that were received, searches, views of properties and sessions that have begun; with sampling, not all are published.", "kind", "result")
	for _, kind := range []string{telemetry.PageViews, telemetry.FunnelEvents, telemetry.Searches, telemetry.DetailViews, telemetry.Sessions} {
		for _, result := range []string{telemetry.Published, telemetry.SampledOut, telemetry.Dropped} {
			items.WithLabelValues(kind, result)
		}
	}
	return func(kind, result string, n int) { items.WithLabelValues(kind, result).Add(float64(n)) }
}
