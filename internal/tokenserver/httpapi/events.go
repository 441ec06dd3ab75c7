package httpapi

import (
	"net/http"

	"holdfast/internal/tokenserver"
)

// takeEvents takes what the accounts server reports of its accounts. It has
// one answer to everything that is wrong with a report.
func (h *Handler) takeEvents(w http.ResponseWriter, r *http.Request) error {
	token, err := bearer(r)
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
