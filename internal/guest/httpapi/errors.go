package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/canonjson"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

var (
	errPath      = web.Refuse(http.StatusNotFound, "not-found", "no such path")
	errSession   = web.Refuse(http.StatusUnauthorized, "session-required", "this request needs the cookie of a session: begin one with POST "+prefix+"session")
	errCrossSite = web.Refuse(http.StatusForbidden, "cross-site", "the request comes from another site")
	errMediaType = web.Refuse(http.StatusUnsupportedMediaType, "media-type", "Content-Type: expected application/json")
	errSlow      = web.Refuse(http.StatusRequestTimeout, "timeout", "the body was sent too slowly")
	errCut       = web.Refuse(http.StatusBadRequest, "invalid", "the body ended early or its encoding is malformed")
)

// bodyErrors are the errors of reading a body of at most so many bytes.
func bodyErrors(most int) *web.BodyErrors {
	large := web.Refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than "+strconv.Itoa(most)+" bytes")
	return &web.BodyErrors{Announced: large, TooLarge: large, TooSlow: errSlow, Cut: errCut}
}

// known are the errors of package guest that have a code of their own.
var known = []struct {
	err    error
	status int
	code   string
}{
	{guest.ErrWishlistFull, http.StatusConflict, "wishlist-full"},
	{guest.ErrOtherTenant, http.StatusConflict, "other-tenant"},
	{guest.ErrSearchExpired, http.StatusGone, "search-session-expired"},
	{guest.ErrNoWish, http.StatusNotFound, "not-found"},
	{guest.ErrKeyReused, http.StatusUnprocessableEntity, "idempotency-key-reused"},
	{guest.ErrInFlight, http.StatusConflict, "in-flight"},
	{guest.ErrChallenge, http.StatusForbidden, "challenge-required"},
	{guest.ErrHardBlock, http.StatusForbidden, "hard-block"},
	{guest.ErrTenantSuspended, http.StatusForbidden, "tenant-suspended"},
	{guest.ErrConsumed, http.StatusConflict, "handoff-consumed"},
	{guest.ErrHandoffExpired, http.StatusGone, "handoff-expired"},
	{guest.ErrHandoffToken, http.StatusForbidden, "token-invalid"},
	{guest.ErrBinding, http.StatusForbidden, "other-browser"},
}

// asRefusal returns the refusal for an error.
func asRefusal(err error) *web.Refusal {
	if own, ok := errors.AsType[*web.Refusal](err); ok {
		return own
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return web.RefuseFor(err, k.status, k.code, cmp.Or(fault.Message(k.err), k.err.Error()))
		}
	}
	message := fault.Message(err)
	if wrong, ok := errors.AsType[*canonjson.Error](err); ok {
		what := "the body is malformed: " + wrong.Error()
		if wrong.Pointer == "" {
			what = "the body " + wrong.Reason
		}
		return web.RefuseFor(err, http.StatusBadRequest, "invalid", what)
	}
	switch fault.CodeOf(err) {
	case fault.Internal:
		return web.RefuseFor(err, http.StatusInternalServerError, "internal", "internal error: the server log has the details under this requestId")
	case fault.NotFound:
		return web.RefuseFor(err, http.StatusNotFound, "not-found", message)
	case fault.Denied:
		return web.RefuseFor(err, http.StatusForbidden, "denied", message)
	case fault.Conflict:
		return web.RefuseFor(err, http.StatusConflict, "conflict", message)
	case fault.TooLarge:
		return web.RefuseFor(err, http.StatusRequestEntityTooLarge, "too-large", message)
	case fault.Invalid:
		return web.RefuseFor(err, http.StatusUnprocessableEntity, "invalid", message)
	}
	return web.RefuseFor(err, http.StatusServiceUnavailable, "unavailable", message)
}

// problem is the body of an error (RFC 9457).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance,omitempty"` // path of the request
	Code      string `json:"code"`
	RequestID string `json:"requestId,omitempty"`
	TraceID   string `json:"traceId,omitempty"`
	Retriable bool   `json:"retriable"` // the same request may succeed later

	Challenge *challengeView `json:"challenge,omitempty"`

	Errors guest.FieldErrors `json:"errors,omitempty"` // what is wrong with parts of the request; every 422 has them
}

const problemType = "application/problem+json"

// occurrence says in which request a problem has occurred.
type occurrence struct{ path, request, trace string }

// encodeProblem returns the body of a refusal.
func encodeProblem(e *web.Refusal, in occurrence) []byte {
	fields, _ := errors.AsType[guest.FieldErrors](e)
	if len(fields) == 0 && e.Status == http.StatusUnprocessableEntity { // it concerns the whole request
		fields = guest.FieldErrors{{Code: e.Code, Detail: e.Message}}
	}
	var challenge *challengeView
	if c, ok := errors.AsType[*guest.ChallengeError](e); ok {
		challenge = &challengeView{c.Challenge, c.Bits}
	}
	body, err := json.Marshal(problem{
		Type: "about:blank", Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Message, Instance: in.path, Code: e.Code, RequestID: in.request, TraceID: in.trace,
		Errors: fields, Challenge: challenge,
		Retriable: e.Status == http.StatusServiceUnavailable || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests || e.Code == "in-flight",
	})
	if err != nil {
		return []byte("{}") // not possible: it has only texts and numbers
	}
	return append(body, '\n')
}

// WriteError is the service's web.ErrorWriter. It also writes errors of the listener, such
// as panics and load shedding.
func WriteError(w http.ResponseWriter, r *http.Request, err error) { writeError(w, r, err, false) }

// WriteError is the web.ErrorWriter of the handler.
func (h *Handler) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	writeError(w, r, err, h.NestErrors)
}

func writeError(w http.ResponseWriter, r *http.Request, err error, nest bool) {
	e := asRefusal(err)
	h := w.Header()
	h.Set("Cache-Control", "private, no-store")
	if (e.Status == http.StatusServiceUnavailable || e.Code == "in-flight") && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	send(w, problemAnswer(e, occurrence{r.URL.EscapedPath(), h.Get("X-Request-Id"), obs.TraceID(r)}, nest))
}

// problemAnswer returns the answer of a refusal. Nested, it is the member error of an object,
// which is not the format of RFC 9457.
func problemAnswer(e *web.Refusal, in occurrence, nest bool) answer {
	a := answer{Status: e.Status, ContentType: problemType, Body: encodeProblem(e, in)}
	if nest {
		a.ContentType, a.Body = "application/json", []byte(`{"error":`+strings.TrimSpace(string(a.Body))+"}\n")
	}
	return a
}
