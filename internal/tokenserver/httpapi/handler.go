package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fair"
	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
)

// Handler serves the paths that Owns reports.
type Handler struct {
	Service *tokenserver.Service
	Clock   clock.Clock

	// Verifications bounds the tokens that are verified at once, for
	// which the accounts server may be asked. Addresses share it. A request has no
	// slot of the listener's gate meanwhile, so that an accounts server which takes
	// long holds up sign-ins only. nil: no bound.
	Verifications *fair.Pool
}

// NewVerifications returns a pool for Handler.Verifications. wait is how long a
// sign-in may wait for its turn.
func NewVerifications(wait time.Duration) *fair.Pool {
	const most = 128
	return fair.New(most, most, wait)
}

// verify calls fn, which verifies a token, and then takes a slot for the request.
func (h *Handler) verify(w http.ResponseWriter, r *http.Request, fn func() error) error {
	if err := h.Verifications.Do(r.Context(), web.Client(w), fn); err != nil {
		return err
	}
	return web.AcquireSlot(w, r)
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
	if rt.resource == nothing {
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
