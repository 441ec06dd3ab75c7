package httpapi

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/clock"
	ss "holdfast/internal/syncstorage"
)

// Handler serves the paths that Owns reports.
type Handler struct {
	Service  *ss.Service
	Keyring  *tokenlib.Keyring
	Clock    clock.Clock
	TimeSkew time.Duration // how far a client's clock may be off

	// Address says where a request arrived; an error of it is the client's.
	Address func(*http.Request) (Address, error)

	// Backoff, when not nil, is how long clients should wait before their next
	// sync, 0 for no time: the load of the server.
	Backoff func() time.Duration
}

// request is a request under way.
type request struct {
	*http.Request
	w      http.ResponseWriter
	route  route
	owner  ss.Owner
	query  url.Values
	target ss.Request
}

// Serve answers one request. The errors it returns are for WriteError; it has
// then written nothing but headers.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request) error {
	if refused(r.UserAgent()) {
		return errOldClient
	}
	if cors(w, r) {
		return nil
	}
	now := h.Clock()
	w.Header().Set("X-Weave-Timestamp", ss.At(now).String())
	if h.Backoff != nil {
		if d := h.Backoff(); d > 0 {
			w.Header().Set("X-Weave-Backoff", strconv.Itoa(int(d.Seconds())))
		}
	}
	at, err := h.Address(r)
	if err != nil {
		return err
	}
	q := &request{Request: r, w: w, route: parseRoute(at.Path)}
	if q.route.resource == nothing {
		return errRoute
	}
	if allow := q.route.resource.methods(); !slices.Contains(allow, r.Method) {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		return errMethod
	}
	if q.route.resource == infoConfiguration {
		return h.configuration(q) // as public as the limits themselves
	}
	if q.owner, err = h.authenticate(r, q.route, at, now); err != nil {
		return err
	}
	if q.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return errQuery
	}
	q.target.Collection, q.target.Now = q.route.collection, ss.At(now)
	if q.target.If, err = precondition(r.Header); err != nil {
		return err
	}
	return h.handler(q.route.resource, r.Method)(q)
}

// handler is the method's handler of a resource that has the method.
func (h *Handler) handler(res resource, method string) func(*request) error {
	switch res {
	case infoCollections:
		return h.collections
	case infoCounts:
		return h.counts
	case infoUsage:
		return h.usage
	case infoQuota:
		return h.quota
	case user:
		return h.deleteAll
	case collection:
		switch method {
		case http.MethodGet:
			return h.list
		case http.MethodPost:
			return h.post
		}
		return h.deleteCollection
	}
	switch method {
	case http.MethodGet:
		return h.get
	case http.MethodPut:
		return h.put
	}
	return h.deleteBSO
}

// body reads the body of a request, which its collection's limit bounds.
func (h *Handler) body(q *request) ([]byte, error) {
	limit := h.Service.Limits(q.target.Collection).MaxRequestBytes
	if q.ContentLength > limit {
		return nil, errLength
	}
	r := http.MaxBytesReader(q.w, q.Body, limit)
	if q.ContentLength < 0 {
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, bodyError(err)
		}
		return b, nil
	}
	// One byte more than announced, so that the end is read too: it is there
	// that a signed body is verified.
	b := make([]byte, q.ContentLength+1)
	n, err := io.ReadFull(r, b)
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, bodyError(err)
	}
	return b[:n], nil
}

// written sets the headers of an answer to a write with this stamp.
func (h *Handler) written(q *request, w ss.Written, lastModified ss.Timestamp) {
	head := q.w.Header()
	head.Set("X-Last-Modified", lastModified.String())
	raiseTimestamp(head, max(w.Modified, lastModified))
	if left := h.Service.Remaining(w); left.Set {
		head.Set("X-Weave-Quota-Remaining", string(appendKB(nil, left.Value)))
	}
}

// read sets the headers of an answer to a read.
func read(q *request, lastModified ss.Timestamp, records int) {
	head := q.w.Header()
	head.Set("X-Last-Modified", lastModified.String())
	raiseTimestamp(head, lastModified)
	if records >= 0 {
		head.Set("X-Weave-Records", strconv.Itoa(records))
	}
}

// raiseTimestamp makes sure that X-Weave-Timestamp is not before a stamp that
// the answer speaks of: stamps may be ahead of the clock.
func raiseTimestamp(h http.Header, ts ss.Timestamp) {
	if now, ok := ss.ParseTimestamp(h.Get("X-Weave-Timestamp")); ok && now < ts {
		h.Set("X-Weave-Timestamp", ts.String())
	}
}

// send writes a whole answer.
func send(q *request, httpStatus int, body []byte) error {
	h := q.w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	q.w.WriteHeader(httpStatus)
	_, _ = q.w.Write(body) // a client that went away
	return nil
}
