package httpapi

import (
	"errors"
	"net/http"

	"holdfast/internal/tokenserver"
)

var errEventsOff = errors.New("account events are not configured: set tokenserver.fxa_webhook_enabled")

// takeEvents takes what the accounts server reports of its accounts. It has
// one answer to everything that is wrong with a report. Where events are not configured
// nothing can be verified, so no report is authentic: 401, as the reference server
// answers, and nobody learns from it what is configured.
func (h *Handler) takeEvents(w http.ResponseWriter, r *http.Request) error {
	token, err := bearer(r)
	if err == nil && !h.Service.TakesEvents() {
		err = errEventsOff
	}
	if err != nil {
		return &tokenserver.Refusal{Reason: tokenserver.BadCredentials, Cause: err}
	}
	if err := h.verify(w, r, func() error { return h.Service.TakeEvents(r.Context(), token) }); err != nil {
		return err
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}
