// Package problem writes errors as problem documents (RFC 9457).
package problem

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/errcode"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

const ContentType = "application/problem+json"

// Document is a problem document: RFC 9457's members and four of our own. Services embed it to add members.
type Document struct {
	Type      string `json:"type"`  // always "about:blank": the code says more
	Title     string `json:"title"` // the status's text
	Status    int    `json:"status"`
	Detail    string `json:"detail"`              // for people; never quotes the request
	Instance  string `json:"instance,omitempty"`  // the request's path
	Code      string `json:"code"`                // for programs, e.g. "not-found"; each API description lists its codes
	RequestID string `json:"requestId,omitempty"` // as in X-Request-Id and in the log
	TraceID   string `json:"traceId,omitempty"`   // "" if the request is not traced
	Retriable bool   `json:"retriable"`           // the same request may succeed later
}

// Field describes a problem with one part of a request.
type Field struct {
	Pointer   string `json:"pointer"`             // points to a body member (RFC 6901), otherwise ""
	Parameter string `json:"parameter,omitempty"` // name of a query or path parameter
	Code      string `json:"code"`                // as Document.Code
	Detail    string `json:"detail"`
}

// Occurrence identifies the request with the problem.
type Occurrence struct{ Path, RequestID, TraceID string }

// In returns the occurrence for a request that a web.Mux serves.
func In(w http.ResponseWriter, r *http.Request) Occurrence {
	return Occurrence{r.URL.EscapedPath(), w.Header().Get("X-Request-Id"), obs.TraceID(r)}
}

// New returns the document for a refusal.
func New(e *web.Refusal, in Occurrence) Document {
	retriable := e.Status == http.StatusServiceUnavailable || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests
	return Document{
		Type: "about:blank", Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Message, Instance: in.Path, Code: e.Code,
		RequestID: in.RequestID, TraceID: in.TraceID, Retriable: retriable,
	}
}

// codes are the statuses and codes for errors that no service names itself.
var codes = map[errcode.Code]struct {
	status int
	code   string
}{
	errcode.NotFound: {http.StatusNotFound, "not-found"}, errcode.Denied: {http.StatusForbidden, "denied"},
	errcode.Conflict: {http.StatusConflict, "conflict"}, errcode.Precondition: {http.StatusConflict, "conflict"},
	errcode.Invalid: {http.StatusUnprocessableEntity, "invalid"}, errcode.TooLarge: {http.StatusRequestEntityTooLarge, "too-large"},
	errcode.Quota: {http.StatusInsufficientStorage, "quota"}, errcode.Unavailable: {http.StatusServiceUnavailable, "unavailable"},
}

// Refusal returns the error as a *web.Refusal: itself, or by its errcode. Other errors become 500 without their text.
func Refusal(err error) *web.Refusal {
	if own, ok := errors.AsType[*web.Refusal](err); ok {
		return own
	}
	if c, ok := codes[errcode.Of(err)]; ok {
		return web.RefuseFor(err, c.status, c.code, errcode.Message(err))
	}
	return web.RefuseFor(err, http.StatusInternalServerError, "internal", "internal error: the server log has the details under this requestId")
}

// BodyErrors returns the errors for a body that is larger than maxBytes, too slow, or cut off.
func BodyErrors(maxBytes int) *web.BodyErrors {
	large := web.Refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than "+strconv.Itoa(maxBytes)+" bytes")
	return &web.BodyErrors{
		Announced: large, TooLarge: large,
		TooSlow: web.Refuse(http.StatusRequestTimeout, "timeout", "the body was sent too slowly"),
		Cut:     web.Refuse(http.StatusBadRequest, "invalid", "the body ended early or its encoding is malformed"),
	}
}

// Encode encodes a document, or a struct that embeds one.
func Encode(document any) []byte {
	body, err := json.Marshal(document)
	if err != nil {
		return []byte("{}")
	}
	return append(body, '\n')
}

// Send writes an answer whose body is, or contains, a result from Encode.
func Send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	if status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
