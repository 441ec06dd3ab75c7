package adminapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/fault"
	"holdfast/internal/obs"
	"holdfast/internal/operate"
	"holdfast/internal/web"
)

// problem is the body of an error (RFC 9457).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance"` // path of the request
	Code      string `json:"code"`
	RequestID string `json:"requestId,omitempty"`
	TraceID   string `json:"traceId,omitempty"`
	Retriable bool   `json:"retriable"` // the same request may succeed later

	Errors []fieldError `json:"errors,omitempty"` // every 422 has them
}

type fieldError struct {
	Pointer string `json:"pointer"` // to a member of the body; "" for another part of the request
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// codes are the status and the code of each kind of error.
var codes = map[fault.Code]struct {
	status int
	code   string
}{
	fault.NotFound: {http.StatusNotFound, "not-found"}, fault.Denied: {http.StatusForbidden, "denied"},
	fault.Conflict: {http.StatusConflict, "conflict"}, fault.Precondition: {http.StatusConflict, "conflict"},
	fault.Invalid: {http.StatusUnprocessableEntity, "invalid"}, fault.TooLarge: {http.StatusRequestEntityTooLarge, "too-large"},
	fault.Quota: {http.StatusInsufficientStorage, "quota"}, fault.Unavailable: {http.StatusServiceUnavailable, "unavailable"},
}

func asRefusal(err error) *web.Refusal {
	if own, ok := errors.AsType[*web.Refusal](err); ok {
		return own
	}
	if c, ok := codes[fault.CodeOf(err)]; ok {
		return web.RefuseFor(err, c.status, c.code, fault.Message(err))
	}
	return web.RefuseFor(err, http.StatusInternalServerError, "internal", "internal error: the server log has the details under this requestId")
}

// WriteError is the web.ErrorWriter of the API.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e, h := asRefusal(err), w.Header()
	p := problem{
		Type: "about:blank", Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Message, Instance: r.URL.EscapedPath(), Code: e.Code,
		RequestID: h.Get("X-Request-Id"), TraceID: obs.TraceID(r),
		Retriable: e.Status == http.StatusServiceUnavailable || e.Status == http.StatusRequestTimeout,
	}
	if e.Status == http.StatusUnprocessableEntity {
		p.Errors = []fieldError{{"", e.Code, e.Message}}
		if wrong, ok := errors.AsType[*operate.InputError](err); ok && r.Method != http.MethodGet {
			p.Errors[0].Pointer = "/" + wrong.Input
		}
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts and numbers can always be encoded
	}
	if e.Status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has left
}
