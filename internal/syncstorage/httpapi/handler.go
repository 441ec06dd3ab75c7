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

// Handler serves the paths that Owns reports.
type Handler struct {
	Service  *ss.Service
	Keyring  *tokenlib.Keyring
	Clock    clock.Clock
	TimeSkew time.Duration // how far a client's clock may be off

	// Backoff, when not nil, is how long clients should wait before their next
	// sync, 0 for no time: the load of the server.
	Backoff func() time.Duration
	// Revoked, when not nil, reports whether tokens of an owner are refused though
	// they have not expired. It is called for each request, twice for writes.
	Revoked func(ss.Owner) bool
}

// exchange is a request and its answer under way.
type exchange struct {
	in    *http.Request
	out   http.ResponseWriter
	route route
	query url.Values
	owner ss.Owner
	purge bool       // by the tokenserver, for which no token is revoked
	ask   ss.Request // the collection, the precondition, the moment of arrival
}

// Serve is the service's web.Handler: after an error that comes in the middle of a
// listing the connection must be cut.
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

// WriteError is the service's web.ErrorWriter. Together with the errors of Serve it
// writes those of the listener: a panic, a server that sheds load.
func (h *Handler) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if w.Header().Get("X-Weave-Timestamp") == "" && !errors.Is(err, errOldClient) {
		h.greet(w, h.Clock())
	}
	WriteError(w, r, err)
}

// greet sets what every answer has: the time, and whether to come less often.
func (h *Handler) greet(w http.ResponseWriter, now time.Time) {
	w.Header().Set("X-Weave-Timestamp", ss.At(now).String())
	if h.Backoff == nil {
		return
	}
	if d := h.Backoff(); d > 0 {
		w.Header().Set("X-Weave-Backoff", strconv.Itoa(int((d+time.Second-1)/time.Second)))
	}
}

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
		return act(h, x) // as public as the limits themselves
	}
	if err = h.authenticate(x, at, now); err != nil {
		return err
	}
	if x.query, err = url.ParseQuery(x.in.URL.RawQuery); err != nil {
		return errQuery
	}
	web.Identify(x.out, "sync "+strconv.FormatInt(x.owner.UID, 10))
	x.ask.Collection = x.route.collection
	if x.ask.If, err = precondition(x.in.Header); err != nil {
		return err
	}
	if m := x.in.Method; m != http.MethodPut && m != http.MethodPost { // those read their body first
		if err := h.acquireSlot(x); err != nil {
			return err
		}
	}
	return act(h, x)
}

// acquireSlot takes a slot for the request. Its body, and the wait for the slot, may
// have taken longer than the token was good.
func (h *Handler) acquireSlot(x *exchange) error {
	if err := web.AcquireSlot(x.out, x.in); err != nil {
		return err
	}
	return h.checkRevoked(x)
}

// modified says when the addressed resource was last modified.
func (x *exchange) modified(ts ss.Timestamp) {
	x.out.Header().Set("X-Last-Modified", ts.String())
	x.notBefore(ts)
}

// notBefore makes sure that X-Weave-Timestamp is not before a stamp that the
// answer speaks of: stamps may be ahead of the clock.
func (x *exchange) notBefore(ts ss.Timestamp) {
	if x.ask.Now < ts {
		x.out.Header().Set("X-Weave-Timestamp", ts.String())
	}
}

// records says how many items the answer has.
func (x *exchange) records(n int) {
	x.out.Header().Set("X-Weave-Records", strconv.Itoa(n))
}

// stored says how much more the collection written may hold, where there is a
// quota.
func (h *Handler) stored(x *exchange, w ss.Written) {
	if left := w.Quota.Remaining(w.Used); left.Set {
		x.out.Header().Set("X-Weave-Quota-Remaining", string(appendKB(nil, left.Value)))
	}
}

// answer writes a whole answer.
func (x *exchange) answer(status int, body []byte) error {
	web.SendJSON(x.out, status, body)
	return nil
}
