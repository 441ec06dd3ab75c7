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

// Handler serves the paths that Owns reports. Its web.ErrorWriter is WriteError.
type Handler struct {
	Service *tokenserver.Service
	Clock   clock.Clock

	// Verifications limits concurrent token verifications across client addresses. They hold no slot of the gate, so
	// a slow accounts server delays only sign-ins. If it is nil, there is no limit.
	Verifications *fairshare.Pool
}

// NewVerifications returns the pool for Handler.Verifications. wait is how long a sign-in may queue.
func NewVerifications(wait time.Duration) *fairshare.Pool {
	return fairshare.New(maxVerifications, maxVerifications, wait)
}

const maxVerifications = 128 // running, and as many waiting

// SetVerificationWait changes the wait when settings are reloaded.
func (h *Handler) SetVerificationWait(wait time.Duration) {
	h.Verifications.Resize(maxVerifications, maxVerifications, wait)
}

// verify runs fn with a place among the verifications, and then acquires a slot for the database.
func (h *Handler) verify(r *http.Request, fn func() error) error {
	if err := h.Verifications.Do(r.Context(), web.Client(r), fn); err != nil {
		return err
	}
	return web.AcquireSlot(r)
}

// Serve implements web.Handler. The timestamp headers are in every answer, because browsers correct their clocks by
// them.
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
	switch rt.resource {
	case events:
		return h.events(w, r)
	case clientConfig:
		return h.clientConfiguration(w, at)
	}
	return h.signIn(w, r, rt, at)
}

// bearer returns the token in the Authorization header.
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
