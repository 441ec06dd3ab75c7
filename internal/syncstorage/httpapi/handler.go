package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/clock"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

type Handler struct {
	Service  *ss.Service
	Keyring  *tokenlib.Keyring
	Clock    clock.Clock
	TimeSkew time.Duration

	// Backoff, if set, returns how long clients should wait before their next sync; 0 for no wait.
	Backoff func() time.Duration
	// Revoked, if set, reports whether an owner's tokens are revoked.
	Revoked func(ss.Owner) bool
}

type exchange struct {
	in    *http.Request
	out   http.ResponseWriter
	route route
	query url.Values
	owner ss.Owner
	purge bool // the tokenserver deletes a user, whether revoked or not
	ask   ss.Request
}

// Serve may return an error after a listing began. The caller must then close the connection.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	if crashes(r.UserAgent()) {
		return errOldClient
	}
	if preflight(w, r) {
		return nil
	}
	now := h.Clock()
	h.greet(w, now)
	x := &exchange{in: r, out: w, ask: ss.Request{Now: ss.At(now)}}
	err := h.serve(x, at, now)
	if unmet, ok := errors.AsType[*ss.PreconditionError](err); ok {
		x.modified(unmet.Modified)
	}
	return err
}

// WriteError writes an error response with the service's headers, which clients need to correct their clocks.
func (h *Handler) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if w.Header().Get("X-Weave-Timestamp") == "" && !errors.Is(err, errOldClient) {
		h.greet(w, h.Clock())
	}
	WriteError(w, r, err)
}

// greet sets the headers that every response carries. Backoff is rounded up to seconds.
func (h *Handler) greet(w http.ResponseWriter, now time.Time) {
	w.Header().Set("X-Weave-Timestamp", ss.At(now).String())
	if h.Backoff == nil {
		return
	}
	if d := h.Backoff(); d > 0 {
		w.Header().Set("X-Weave-Backoff", strconv.Itoa(int((d+time.Second-1)/time.Second)))
	}
}

// serve authenticates a request before it reads the body.
func (h *Handler) serve(x *exchange, at web.Address, now time.Time) error {
	if at.Err != nil {
		return at.Err
	}
	x.route = parseRoute(at.Path)
	act, err := x.action()
	if err != nil {
		return err
	}
	if x.route.resource == infoConfiguration {
		return act(h, x)
	}
	if err = h.authenticate(x, at, now); err != nil {
		return err
	}
	if x.query, err = url.ParseQuery(x.in.URL.RawQuery); err != nil {
		return errQuery
	}
	web.Identify(x.in, "sync "+strconv.FormatInt(x.owner.UID, 10))
	x.ask.Collection = x.route.collection
	if x.ask.If, err = precondition(x.in.Header); err != nil {
		return err
	}
	if m := x.in.Method; m != http.MethodPut && m != http.MethodPost { // PUT and POST read their body first
		if err := h.acquireSlot(x); err != nil {
			return err
		}
	}
	return act(h, x)
}

// acquireSlot waits for a slot. The token may be revoked during the wait, so it is checked again.
func (h *Handler) acquireSlot(x *exchange) error {
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	return h.checkRevoked(x)
}

// modified sets X-Last-Modified.
func (x *exchange) modified(ts ss.Timestamp) {
	x.out.Header().Set("X-Last-Modified", ts.String())
	x.notBefore(ts)
}

// notBefore keeps X-Weave-Timestamp from preceding stamps in the response, which may be ahead of the clock.
func (x *exchange) notBefore(ts ss.Timestamp) {
	if x.ask.Now < ts {
		x.out.Header().Set("X-Weave-Timestamp", ts.String())
	}
}

// records sets X-Weave-Records.
func (x *exchange) records(n int) {
	x.out.Header().Set("X-Weave-Records", strconv.Itoa(n))
}

// stored sets X-Weave-Quota-Remaining, in KB, if the user has a quota.
func (h *Handler) stored(x *exchange, w ss.Written) {
	if left := w.Quota.Remaining(w.Used); left.Set {
		x.out.Header().Set("X-Weave-Quota-Remaining", string(appendKB(nil, left.Value)))
	}
}

// answer sends a JSON body.
func (x *exchange) answer(status int, body []byte) error {
	web.SendJSON(x.out, status, body)
	return nil
}
