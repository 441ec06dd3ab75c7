package tokenserver

import (
	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

// countEvents registers the counter with each kind, so that it shows 0 before the first event, and returns the function
// that counts.
func countEvents(d *service.Deps) func(tokenserver.EventKind) {
	events := d.Metrics.Counter("holdfast_tokenserver_account_events_total", "Events received from the accounts server.", "event")
	for _, k := range []tokenserver.EventKind{tokenserver.OtherEvent, tokenserver.AccountDeleted, tokenserver.PasswordChanged} {
		events.WithLabelValues(k.String())
	}
	return func(k tokenserver.EventKind) { events.WithLabelValues(k.String()).Inc() }
}
