package tokenserver

import (
	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

func countEvents(d *service.Deps) func(tokenserver.EventKind) {
	events := d.Metrics.Counter("holdfast_tokenserver_account_events_total", "Events received from the accounts server.", "event")
	for _, k := range []tokenserver.EventKind{tokenserver.OtherEvent, tokenserver.AccountDeleted, tokenserver.PasswordChanged} {
		events.WithLabelValues(k.String())
	}
	return func(k tokenserver.EventKind) { events.WithLabelValues(k.String()).Inc() }
}
