package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

var (
	errPath      = web.Refuse(http.StatusNotFound, "not-found", "no such path")
	errSession   = web.Refuse(http.StatusUnauthorized, "session-required", "this request needs the cookie of a session: begin one with POST "+prefix+"session")
	errToken     = web.Refuse(http.StatusUnauthorized, "session-required", "this request needs a session token in Authorization: Bearer TOKEN: start a session with POST "+prefix+"session and X-Session-Mode: bearer")
	errCrossSite = web.Refuse(http.StatusForbidden, "cross-site", "the request comes from another site")
	errMediaType = web.Refuse(http.StatusUnsupportedMediaType, "media-type", "Content-Type: expected application/json")
)

var known = []struct {
	err    error
	status int
	code   string
}{
	{guest.ErrWishlistFull, http.StatusConflict, "wishlist-full"},
	{guest.ErrOtherTenant, http.StatusConflict, "other-tenant"},
	{guest.ErrAttributesChanged, http.StatusPreconditionFailed, "attributes-changed"},
	{guest.ErrChanged, http.StatusPreconditionFailed, "wishlist-changed"},
	{guest.ErrUserToken, http.StatusForbidden, "user-token-invalid"},
	{guest.ErrOtherUser, http.StatusConflict, "other-user"},
	{guest.ErrSignInEnded, http.StatusForbidden, "not-signed-in"},
	{guest.ErrNotLinked, http.StatusForbidden, "not-signed-in"},
	{guest.ErrSearchExpired, http.StatusGone, "search-session-expired"},
	{guest.ErrNoWish, http.StatusNotFound, "not-found"},
	{guest.ErrKeyReused, http.StatusUnprocessableEntity, "idempotency-key-reused"},
	{guest.ErrInFlight, http.StatusConflict, "in-flight"},
	{bots.ErrChallenge, http.StatusForbidden, "challenge-required"},
	{bots.ErrHardBlock, http.StatusForbidden, "hard-block"},
	{tenants.ErrSuspended, http.StatusForbidden, "tenant-suspended"},
	{handoffs.ErrConsumed, http.StatusConflict, "handoff-consumed"},
	{handoffs.ErrExpired, http.StatusGone, "handoff-expired"},
	{handoffs.ErrVoided, http.StatusGone, "handoff-voided"},
	{handoffs.ErrNotConsumed, http.StatusConflict, "handoff-open"},
	{handoffs.ErrItemsRemoved, http.StatusConflict, "items-removed"},
	{handoffs.ErrToken, http.StatusForbidden, "token-invalid"},
	{handoffs.ErrBinding, http.StatusForbidden, "other-browser"},
}

// asRefusal returns the answer for any error.
func asRefusal(err error) *web.Refusal {
	if own, ok := errors.AsType[*web.Refusal](err); ok {
		return own
	}
	if e, ok := errors.AsType[*handoffs.ClaimError](err); ok {
		return web.RefuseFor(err, http.StatusForbidden, "token-invalid", e.Error())
	}
	if e, ok := errors.AsType[*guest.AttributesFullError](err); ok {
		return web.RefuseFor(err, http.StatusConflict, "attributes-full", e.Error())
	}
	if e, ok := errors.AsType[*guest.QuantityError](err); ok {
		return web.RefuseFor(err, http.StatusConflict, "quantity-limit", e.Error())
	}
	if e, ok := errors.AsType[*guest.UserError](err); ok {
		return web.RefuseFor(err, http.StatusForbidden, "user-token-invalid", e.Error())
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return web.RefuseFor(err, k.status, k.code, cmp.Or(errcode.Message(k.err), k.err.Error()))
		}
	}
	if invalid, ok := errors.AsType[*canonjson.Error](err); ok {
		what := "the body is malformed: " + invalid.Error()
		if invalid.Pointer == "" {
			what = "the body " + invalid.Reason
		}
		return web.RefuseFor(err, http.StatusBadRequest, "invalid", what)
	}
	return problem.Refusal(err)
}

// problemDocument is a body as in RFC 9457.
type problemDocument struct {
	problem.Document

	Challenge *challengeView `json:"challenge,omitempty"`
	Handoff   any            `json:"handoff,omitempty"` // the consumed handoff that refuses a mint

	Errors guest.FieldErrors `json:"errors,omitempty"` // by field; set for every 422
}

// encodeProblem adds field errors, a challenge and a consumed handoff.
func encodeProblem(e *web.Refusal, in problem.Occurrence) []byte {
	fields, _ := errors.AsType[guest.FieldErrors](e)
	if c, ok := errors.AsType[*web.ConditionError](e); ok {
		fields = guest.FieldErrors{{Header: c.Header, Code: guest.CodeInvalid, Detail: c.Reason}}
	}
	if len(fields) == 0 && e.Status == http.StatusUnprocessableEntity { // about the whole request
		fields = guest.FieldErrors{{Code: e.Code, Detail: e.Message}}
	}
	var challenge *challengeView
	if c, ok := errors.AsType[*bots.ChallengeError](e); ok {
		challenge = &challengeView{c.Challenge, c.Bits}
	}
	d := problemDocument{Document: problem.New(e, in), Errors: fields, Challenge: challenge}
	if c, ok := errors.AsType[*handoffs.ConsumedError](e); ok {
		d.Handoff = handoffOf(c.Handoff, c.Handoff.Consumed)
	}
	d.Retriable = d.Retriable || e.Code == "in-flight"
	return problem.Encode(d)
}

// WriteError is a web.ErrorWriter. It also writes listener errors, such as panics and load shedding.
func WriteError(w http.ResponseWriter, r *http.Request, err error) { writeError(w, r, err, false) }

// WriteError implements web.ErrorWriter with CORS headers, so that front ends can read errors.
func (h *Handler) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	h.share(w, r)
	writeError(w, r, err, h.NestErrors)
}

// writeError also says when to retry.
func writeError(w http.ResponseWriter, r *http.Request, err error, nest bool) {
	e := asRefusal(err)
	if h := w.Header(); e.Code == "in-flight" && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	a := problemAnswer(e, problem.In(w, r), nest)
	problem.Send(w, a.Status, a.ContentType, a.Body)
}

// problemAnswer renders a refusal; nest wraps it in a member named error, which deviates from RFC 9457.
func problemAnswer(e *web.Refusal, in problem.Occurrence, nest bool) answer {
	a := answer{Status: e.Status, ContentType: problem.ContentType, Body: encodeProblem(e, in)}
	if nest {
		a.ContentType, a.Body = "application/json", []byte(`{"error":`+strings.TrimSpace(string(a.Body))+"}\n")
	}
	return a
}
