package guest

import (
	"context"
	"log/slog"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/inbox"
	"holdfast/internal/obs"
)

// countEvaluations registers the combinations that occur, so that they show 0 before the first request.
func countEvaluations(m *obs.Metrics) func(bots.Verdict, bots.Action) {
	evaluations := m.Counter("holdfast_guest_bot_evaluations_total", "Requests that were scored, by verdict and action.", "verdict", "action")
	for _, e := range []struct {
		verdict bots.Verdict
		action  bots.Action
	}{{bots.Human, bots.NoAction}, {bots.Suspect, bots.NoAction}, {bots.Suspect, bots.Challenge}, {bots.Bot, bots.HardBlock}} {
		evaluations.WithLabelValues(string(e.verdict), string(e.action))
	}
	return func(v bots.Verdict, a bots.Action) { evaluations.WithLabelValues(string(v), string(a)).Inc() }
}

// observeCatalogue registers the cache's and the upstreams' metrics by upstream, and sets the observers in o.
func observeCatalogue(m *obs.Metrics, upstreams []guest.Upstream, o *catalogue.Options) {
	requests := m.Counter("holdfast_guest_cache_requests_total", "Catalogue cache requests, by result.", "cache", "result")
	calls := m.Histogram("holdfast_guest_upstream_duration_seconds", "Durations of upstream catalogue calls, by result.", "upstream", "result")
	for _, u := range upstreams {
		for _, state := range catalogue.CacheStates {
			requests.WithLabelValues(u.Name, string(state))
		}
		for _, result := range []string{"ok", "error"} {
			calls.WithLabelValues(u.Name, result)
		}
	}
	o.Cached = func(cache string, state catalogue.CacheState) { requests.WithLabelValues(cache, string(state)).Inc() }
	o.Called = func(cache string, d time.Duration, err error) {
		result := "ok"
		if err != nil {
			result = "error"
		}
		calls.WithLabelValues(cache, result).Observe(d.Seconds())
	}
}

// observe registers the metrics of hot state. The returned function counts operations that continued without it; what
// is one of guest.Degradations.
func (h *hot) observe(m *obs.Metrics) func(what string) {
	degraded := m.Counter("holdfast_guest_hot_degraded_total", "Guest operations that continued without hot state because it was unavailable.", "operation")
	for _, what := range guest.Degradations {
		degraded.WithLabelValues(what)
	}
	if h.keeps {
		m.Gauge("holdfast_guest_hot_unsaved", "With hot state in memory and SQLite: sessions and searches that changed and are not in the database yet.", func(set obs.Set) {
			set(float64(h.memory.Unsaved()))
		})
	}
	if h.redis != nil {
		m.Gauge("holdfast_guest_redis_up", "1 if there is a working connection to Redis, else 0.", func(set obs.Set) {
			if up, _ := h.redis.State(); up {
				set(1)
			} else {
				set(0)
			}
		})
		m.Total("holdfast_guest_redis_disconnects_total", "How often the connection to Redis was given up after failures.", func(set obs.Set) {
			_, opened := h.redis.State()
			set(float64(opened))
		})
	}
	if h.memory != nil {
		m.Gauge("holdfast_guest_hot_entries", "Hot state entries in memory.", func(set obs.Set) {
			n, _, _ := h.memory.Bytes()
			set(float64(n))
		})
	}
	return func(what string) { degraded.WithLabelValues(what).Inc() }
}

// countTelemetry returns the function that counts received items. n is their number; a sampled-out item was counted and
// not published.
func countTelemetry(m *obs.Metrics) func(kind, result string, n int) {
	items := m.Counter("holdfast_guest_telemetry_items_total", "Page views and funnel events received, searches, property views, session starts and attribute changes; with sampling, not all are published.", "kind", "result")
	for _, kind := range []string{telemetry.PageViews, telemetry.FunnelEvents, telemetry.Searches, telemetry.DetailViews, telemetry.Sessions, telemetry.Attributes} {
		for _, result := range []string{telemetry.Published, telemetry.SampledOut, telemetry.Dropped} {
			items.WithLabelValues(kind, result)
		}
	}
	return func(kind, result string, n int) { items.WithLabelValues(kind, result).Add(float64(n)) }
}

// countReceived counts received events by result, pushed or from a broker, and logs events in quarantine, because an
// operator must look at them. It wraps receive, and returns its result unchanged.
func countReceived(m *obs.Metrics, log *slog.Logger, receive receiver) receiver {
	results := m.Counter("holdfast_guest_received_events_total", "Events about tenants that were received, by result.", "result")
	for _, r := range httpapi.ReceivedResults {
		results.WithLabelValues(r)
	}
	return func(ctx context.Context, e inbox.Event) (inbox.Result, error) {
		result, err := receive(ctx, e)
		results.WithLabelValues(httpapi.ReceivedResult(result, err)).Inc()
		if err == nil && result == inbox.Quarantined {
			log.Error("event is in quarantine", "event", e.ID, "topic", e.Type)
		}
		return result, err
	}
}

// countConsumes returns the function that counts attempts to consume a handoff. result is one of httpapi.ConsumeResults.
func countConsumes(m *obs.Metrics) func(result string) {
	results := m.Counter("holdfast_guest_handoff_consumes_total", "Requests to consume a handoff, by result.", "result")
	for _, r := range httpapi.ConsumeResults {
		results.WithLabelValues(r)
	}
	return func(r string) { results.WithLabelValues(r).Inc() }
}
