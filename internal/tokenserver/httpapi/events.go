package httpapi

import (
	"errors"
	"net/http"

	"holdfast/internal/tokenserver"
)

var errEventsOff = errors.New("account events are not configured: set tokenserver.fxa_webhook_enabled")

// events handles account events. Like the reference server, it gives all invalid events the same response, which does
// not reveal whether events are configured.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) error {
	token, err := bearer(r)
	if err == nil && !h.Service.AcceptsEvents() {
		err = errEventsOff
	}
	if err != nil {
		return &tokenserver.Refusal{Reason: tokenserver.BadCredentials, Cause: err}
	}
	var events []tokenserver.Event
	err = h.verify(r, func() (err error) {
		events, err = h.Service.Events(r.Context(), token)
		return err
	})
	if err != nil {
		return err
	}
	if err := h.Service.HandleEvents(r.Context(), events); err != nil {
		return err
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}
