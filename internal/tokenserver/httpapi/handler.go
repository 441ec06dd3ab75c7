package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/clock"
	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
)

// Handler serves the paths that Owns reports.
type Handler struct {
	Service *tokenserver.Service
	Clock   clock.Clock
}

// Serve answers one request. The errors it returns are for WriteError; it has
// then written nothing but headers.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	now := h.Clock()
	w.Header().Set("X-Timestamp", strconv.FormatInt(now.Unix(), 10))
	w.Header().Set("X-Weave-Timestamp", fmt.Sprintf("%d.%02d", now.Unix(), now.Nanosecond()/1e7))
	if at.Err != nil {
		return at.Err
	}
	rt := parseRoute(at.Path)
	if rt.resource == nothing || rt.resource == events && !h.Service.TakesEvents() {
		return errRoute
	}
	if r.Method != rt.resource.method() {
		w.Header().Set("Allow", rt.resource.method())
		return errMethod
	}
	if rt.resource == events {
		return h.takeEvents(w, r)
	}
	return h.signIn(w, r, rt, at)
}

// bearer is the token of the Authorization header: what is behind the first
// blank, whatever it holds.
func bearer(r *http.Request) (string, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case !ok:
		return "", errNoCredentials
	case !strings.EqualFold(scheme, "bearer"):
		return "", errScheme
	}
	return token, nil
}
