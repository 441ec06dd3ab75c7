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

func NewVerifications(wait time.Duration) *fairshare.Pool {
	return fairshare.New(maxVerifications, maxVerifications, wait)
}

const maxVerifications = 128

func (h *Handler) SetVerificationWait(wait time.Duration) {
	h.Verifications.Resize(maxVerifications, maxVerifications, wait)
}

func (h *Handler) verify(w http.ResponseWriter, r *http.Request, fn func() error) error {
	if err := h.Verifications.Do(r.Context(), web.Client(w), fn); err != nil {
		return err
	}
	return web.AcquireSlot(w, r)
}

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
