package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/canonjson"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
	"holdfast/internal/web"
)

// refusal is an error with its status, code and message.
type refusal struct {
	status  int
	code    string
	message string
	cause   error
}

func refuse(status int, code, message string) *refusal {
	return &refusal{status: status, code: code, message: message}
}

func (r *refusal) Error() string {
	if r.cause != nil {
		return r.code + ": " + r.cause.Error()
	}
	return r.code + ": " + r.message
}

func (r *refusal) Unwrap() error { return r.cause }

// FaultCode implements fault.Coder.
func (r *refusal) FaultCode() fault.Code {
	switch r.status {
	case http.StatusNotFound:
		return fault.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Denied
	case http.StatusConflict:
		return fault.Conflict
	case http.StatusRequestEntityTooLarge:
		return fault.TooLarge
	case http.StatusServiceUnavailable:
		return fault.Unavailable
	case http.StatusInternalServerError:
		return fault.Internal
	}
	return fault.Invalid
}

var (
	errPath      = refuse(http.StatusNotFound, "not-found", "no such path")
	errSession   = refuse(http.StatusUnauthorized, "session-required", "this request needs the cookie of a session: begin one with POST "+prefix+"session")
	errCrossSite = refuse(http.StatusForbidden, "cross-site", "the request comes from another site")
	errMediaType = refuse(http.StatusUnsupportedMediaType, "media-type", "Content-Type: expected application/json")
	errTooLarge  = refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than "+strconv.Itoa(maxBody)+" bytes")
	errSlow      = refuse(http.StatusRequestTimeout, "timeout", "the body was sent too slowly")
	errCut       = refuse(http.StatusBadRequest, "invalid", "the body ended early or its encoding is malformed")
)

var bodyErrors = web.BodyErrors{Announced: errTooLarge, TooLarge: errTooLarge, TooSlow: errSlow, Cut: errCut}

// known are the errors of package guest that have a code of their own.
var known = []struct {
	err    error
	status int
	code   string
}{
	{guest.ErrWishlistFull, http.StatusConflict, "wishlist-full"},
	{guest.ErrOtherTenant, http.StatusConflict, "other-tenant"},
	{guest.ErrNoWish, http.StatusNotFound, "not-found"},
	{guest.ErrKeyReused, http.StatusUnprocessableEntity, "idempotency-key-reused"},
	{guest.ErrInFlight, http.StatusConflict, "in-flight"},
}

// asRefusal returns the refusal for an error.
func asRefusal(err error) *refusal {
	if own, ok := errors.AsType[*refusal](err); ok {
		return own
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return &refusal{k.status, k.code, k.err.Error(), err}
		}
	}
	message := fault.Message(err)
	if wrong, ok := errors.AsType[*canonjson.Error](err); ok {
		return &refusal{http.StatusBadRequest, "invalid", "the body is malformed: " + wrong.Error(), err}
	}
	switch fault.CodeOf(err) {
	case fault.Internal:
		return &refusal{http.StatusInternalServerError, "internal", "internal error: the server log has the details under this requestId", err}
	case fault.NotFound:
		return &refusal{http.StatusNotFound, "not-found", message, err}
	case fault.Denied:
		return &refusal{http.StatusForbidden, "denied", message, err}
	case fault.Conflict:
		return &refusal{http.StatusConflict, "conflict", message, err}
	case fault.TooLarge:
		return &refusal{http.StatusRequestEntityTooLarge, "too-large", message, err}
	case fault.Invalid:
		return &refusal{http.StatusUnprocessableEntity, "invalid", message, err}
	}
	return &refusal{http.StatusServiceUnavailable, "unavailable", message, err}
}

// problem is the body of an error (RFC 9457).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	RequestID string `json:"requestId,omitempty"`
	Retriable bool   `json:"retriable"` // the same request may succeed later
}

const problemType = "application/problem+json"

// encodeProblem returns the body of a refusal.
func encodeProblem(e *refusal, requestID string) []byte {
	body, err := json.Marshal(problem{
		Type: "about:blank", Title: http.StatusText(e.status), Status: e.status, Detail: e.message, Code: e.code, RequestID: requestID,
		Retriable: e.status == http.StatusServiceUnavailable || e.status == http.StatusRequestTimeout || e.code == "in-flight",
	})
	if err != nil {
		return []byte("{}") // not possible: it has only texts and numbers
	}
	return append(body, '\n')
}

// WriteError is the service's web.ErrorWriter. It also writes errors of the listener, such
// as panics and load shedding.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	e := asRefusal(err)
	h := w.Header()
	h.Set("Cache-Control", "private, no-store")
	if (e.status == http.StatusServiceUnavailable || e.code == "in-flight") && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	send(w, guest.Answer{Status: e.status, ContentType: problemType, Body: encodeProblem(e, h.Get("X-Request-Id"))})
}

// send writes a complete response. It ignores write errors: the request has been processed
// even if the client has disconnected.
func send(w http.ResponseWriter, a guest.Answer) {
	h := w.Header()
	if a.ContentType != "" {
		h.Set("Content-Type", a.ContentType)
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	if a.Location != "" {
		h.Set("Location", a.Location)
	}
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body)
	}
}
