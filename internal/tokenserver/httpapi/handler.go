package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fairshare"
	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
)

// Handler serves the paths that Owns reports.
type Handler struct {
	Service *tokenserver.Service
	Clock   clock.Clock

	// Verifications limits concurrent verifications of tokens, which may call the accounts
	// server. Client addresses share it. A request has no slot of the gate meanwhile, so a
	// slow accounts server delays only sign-ins. nil means no limit.
	Verifications *fairshare.Pool
}

// NewVerifications returns a pool for Handler.Verifications. A sign-in waits for at most
// wait.
func NewVerifications(wait time.Duration) *fairshare.Pool {
	return fairshare.New(maxVerifications, maxVerifications, wait)
}

const maxVerifications = 128

// SetVerificationWait changes how long a sign-in waits for Verifications.
func (h *Handler) SetVerificationWait(wait time.Duration) {
	h.Verifications.Resize(maxVerifications, maxVerifications, wait)
}

// verify calls fn, which verifies a token, and then acquires a slot for the request.
func (h *Handler) verify(w http.ResponseWriter, r *http.Request, fn func() error) error {
	if err := h.Verifications.Do(r.Context(), web.Client(w), fn); err != nil {
		return err
	}
	return web.AcquireSlot(w, r)
}

// Serve is a web.Handler. Its web.ErrorWriter is WriteError.
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
		return h.events(w, r)
	}
	return h.signIn(w, r, rt, at)
}

// bearer returns the token of the Authorization header: everything after the first space.
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
