package httpapi

import (
	"encoding/json"
	"net/http"

	"holdfast/internal/guest"
	"holdfast/internal/guest/telemetry"
)

const maxTelemetry = 64 << 10

// items reads a batch, without decoding the items.
func (x *exchange) items() ([]json.RawMessage, error) {
	var in struct {
		Items []json.RawMessage `json:"items"`
	}
	err := decode(x.body, &in)
	return in.Items, err
}

// accepted answers 202 with the IDs of the events, which are stored and published later.
func accepted(r telemetry.Recorded) (answer, error) {
	return jsonAnswer(http.StatusAccepted, struct {
		IDs []guest.ID `json:"ids"`
	}{r.IDs})
}

// recordPageViews accepts a batch with page views.
func (x *exchange) recordPageViews() error {
	items, err := x.items()
	if err != nil {
		return err
	}
	o, err := x.Telemetry.RecordPageViews(x.ctx(), x.mutation, items)
	return reply(x, o, err, accepted)
}

// recordFunnelEvents accepts a batch with funnel events.
func (x *exchange) recordFunnelEvents() error {
	items, err := x.items()
	if err != nil {
		return err
	}
	o, err := x.Telemetry.RecordFunnelEvents(x.ctx(), x.mutation, items)
	return reply(x, o, err, accepted)
}
