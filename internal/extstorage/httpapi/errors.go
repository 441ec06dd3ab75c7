package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// refusal is an error that this package finds itself.
type refusal struct {
	status  int
	code    string
	pointer string
	reason  string
	kind    errcode.Code
}

// tooLong is the error for a body longer than limit bytes. said is the Content-Length if it is above limit.
type tooLong struct{ limit, said int64 }

func (e *tooLong) Error() string {
	if e.said > e.limit {
		return fmt.Sprintf("the body has %d bytes: the limit is %d bytes", e.said, e.limit)
	}
	return fmt.Sprintf("the body is too large: the limit is %d bytes", e.limit)
}

func (*tooLong) ErrorCode() errcode.Code { return errcode.TooLarge }

func (r *refusal) Error() string { return r.reason }

func (r *refusal) ErrorCode() errcode.Code { return r.kind }

var (
	errRoute    = &refusal{http.StatusNotFound, codeNotFound, "", "no such path: the routes are listed in /ext/openapi.json", errcode.NotFound}
	errInstall  = &refusal{http.StatusForbidden, codeDenied, "", "the token is for another install, or the install ID in the path is not valid", errcode.Denied}
	errLength   = &refusal{http.StatusRequestEntityTooLarge, codeLimit, "", "the body is too large", errcode.TooLarge}
	errSlowBody = &refusal{http.StatusRequestTimeout, "REQUEST_TIMEOUT", "", "the body was sent too slowly", errcode.Invalid}
	errCutBody  = &refusal{http.StatusBadRequest, codeInvalid, "", "the body ended early or its encoding is malformed", errcode.Invalid}
	errRate     = &refusal{http.StatusTooManyRequests, codeRate, "", "rate limit exceeded: retry after the seconds in Retry-After", errcode.Quota}
)

// methodNotAllowed answers 405 with the header Allow.
func methodNotAllowed(w http.ResponseWriter, methods ...string) error {
	slices.Sort(methods)
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	return &refusal{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "", "method not allowed: this path supports " + allowed, errcode.Invalid}
}

const (
	codeDenied          = "UNAUTHORIZED"
	codeNotFound        = "NOT_FOUND"
	codeInvalid         = "VALIDATION_FAILED"
	codeMismatch        = "REVISION_MISMATCH"
	codeLimit           = "LIMIT_EXCEEDED"
	codeUnauthenticated = "UNAUTHENTICATED"
	codeItem            = "BULK_PARTIAL_FAILURE"
	codeRate            = "RATE_LIMITED"
)

// CodeOf returns the error code sent to clients.
func CodeOf(err error) string {
	p := problemOf(err)
	if p.cause != "" {
		return p.cause
	}
	return p.code
}

// invalid is an error in the request. reason completes a sentence that begins with the pointer.
func invalid(pointer, reason string) error {
	return &ext.ValidationError{Pointer: pointer, Reason: reason}
}

// under moves an error's pointer below pointer.
func under(pointer string, err error) error { return ext.Under(pointer, err) }

// inList moves an item's error below list.
func inList(list string, err error) error {
	if large, ok := err.(*ext.LimitError); ok { //nolint:errorlint // as in ext.Under
		return large.Under(list)
	}
	if item, ok := err.(*ext.ItemError); ok { //nolint:errorlint // as in under
		return &ext.ItemError{Index: item.Index, Err: under(list+"/"+strconv.Itoa(item.Index), item.Err)}
	}
	return err
}

// isOurs reports whether the server, not the client, caused the error.
func isOurs(err error) bool {
	return errcode.Is(err, errcode.Internal) || errcode.Is(err, errcode.Unavailable)
}

// problem is an error as clients see it.
type problem struct {
	status  int
	code    string
	message string
	pointer *string
	// the record's revision after a mismatch
	current *ext.Revision
	// the exceeded limit
	limit int64
	size  int64
	why   []ext.SchemaFailure
	index int
	cause string

	imported *Imported
}

// retryable reports whether the same request may succeed later.
func (p *problem) retryable() bool {
	return p.status == http.StatusServiceUnavailable || p.status == http.StatusRequestTimeout || p.code == codeRate
}

// problemOf maps an error to a problem. It checks for server errors first, because they may wrap errors meant for clients.
func problemOf(err error) problem {
	if f, ok := errors.AsType[*importFailure](err); ok {
		p := problemOf(f.err)
		p.imported = &f.done
		p.inLine()
		return p
	}
	if own, ok := errors.AsType[*refusal](err); ok {
		return problem{status: own.status, code: own.code, message: own.reason, pointer: own.place()}
	}
	code := errcode.Of(err)
	switch code {
	case errcode.Internal:
		return problem{status: http.StatusInternalServerError, code: "INTERNAL_ERROR", message: "internal error: the server log has the details under this requestId"}
	case errcode.Unavailable:
		return problem{status: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: messageOf(err)}
	}
	if item, ok := errors.AsType[*ext.ItemError](err); ok {
		p := problemOf(item.Err)
		p.index, p.cause, p.code = item.Index, p.code, codeItem
		return p
	}
	p := problem{message: messageOf(err)}
	if s, ok := errors.AsType[*ext.SchemaError](err); ok {
		p.message = s.Failures[0].Message()
	}
	p.status, p.code = statusOf(err, code)
	p.place(err)
	if isHalfSentence(err) {
		p.message = subject(*p.pointer) + " " + p.message
	}
	if m, ok := errors.AsType[*ext.MismatchError](err); ok {
		p.current = &m.Current
	}
	return p
}

// place sets the pointer to the wrong part of the request.
func (p *problem) place(err error) {
	if c, ok := errors.AsType[*web.ConditionError](err); ok && c.Header != "" {
		pointer := "/" + strings.ToLower(c.Header)
		p.pointer, p.message = &pointer, pointer+" "+c.Reason
	}
	if pointer, ok := ext.PointerOf(err); ok {
		p.pointer = &pointer
	}
	if s, ok := errors.AsType[*ext.SchemaError](err); ok {
		p.why = s.Failures
	}
	if l, ok := errors.AsType[*ext.LimitError](err); ok {
		p.limit, p.size = l.Limit, l.Size
	}
	if l, ok := errors.AsType[*tooLong](err); ok {
		p.pointer, p.limit = new(string), l.limit
		if l.said > l.limit {
			p.size = l.said
		}
	}
	if q, ok := errors.AsType[*ext.QuotaError](err); ok {
		p.limit, p.size = q.Limit, q.Used
	}
}

// isHalfSentence reports whether the error's text needs a subject.
func isHalfSentence(err error) bool {
	_, invalid := errors.AsType[*ext.ValidationError](err)
	_, limit := errors.AsType[*ext.LimitError](err)
	_, schema := errors.AsType[*ext.SchemaError](err)
	return invalid || limit || schema
}

// Longest pointer to repeat in a message, in bytes.
const maxSubject = 200

const wholeBody = "the body"

// subject names the wrong part at the beginning of a message.
func subject(pointer string) string {
	switch {
	case pointer == "":
		return wholeBody
	case len(pointer) > maxSubject:
		return "the place in pointer"
	}
	return pointer
}

// inLine names the line in an import.
func (p *problem) inLine() {
	if p.cause == "" {
		return
	}
	line := "line " + strconv.Itoa(p.index+1)
	if rest, ok := strings.CutPrefix(p.message, wholeBody+" "); ok {
		p.message = line + " " + rest
		return
	}
	p.message = line + ": " + p.message
}

// place returns the pointer, nil if the error concerns no part of the request.
func (r *refusal) place() *string {
	if r.pointer == "" && r.code != codeInvalid {
		return nil
	}
	return &r.pointer
}

// statusOf returns the HTTP status and the code for clients.
func statusOf(err error, code errcode.Code) (int, string) {
	_, denied := errors.AsType[*ext.NamespaceDeniedError](err)
	_, mismatch := errors.AsType[*ext.MismatchError](err)
	_, bound := errors.AsType[*canonjson.BoundError](err)
	switch {
	case bound:
		return http.StatusConflict, "BOUND_REACHED"
	case denied:
		return http.StatusForbidden, "NAMESPACE_DENIED"
	case mismatch && code == errcode.Precondition:
		return http.StatusPreconditionFailed, codeMismatch
	case mismatch:
		return http.StatusConflict, codeMismatch
	case errors.Is(err, ext.ErrTokenRevoked), errors.Is(err, ext.ErrTokenExpired):
		return http.StatusUnauthorized, codeUnauthenticated
	case errors.Is(err, ext.ErrInstallDeleted), errors.Is(err, ext.ErrInstallDeleting):
		return http.StatusForbidden, "INSTALL_DELETED"
	case errors.Is(err, ext.ErrSchemaConflict), errors.Is(err, ext.ErrSchemaNeeded):
		return http.StatusConflict, "SCHEMA_CONFLICT"
	case errors.Is(err, ext.ErrKeyReused):
		return http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED"
	case errors.Is(err, ext.ErrChangesGone):
		return http.StatusGone, "CHANGES_EXPIRED"
	}
	switch code {
	case errcode.Denied:
		return http.StatusForbidden, codeDenied
	case errcode.NotFound:
		return http.StatusNotFound, codeNotFound
	case errcode.Invalid:
		return http.StatusBadRequest, codeInvalid
	case errcode.TooLarge:
		return http.StatusRequestEntityTooLarge, codeLimit
	case errcode.Quota:
		return http.StatusTooManyRequests, "QUOTA_EXCEEDED"
	}
	return http.StatusServiceUnavailable, "UNAVAILABLE" // a conflict or precondition without a more specific error
}

// messageOf returns "" if the error has no text for clients.
func messageOf(err error) string {
	if shown := errcode.Message(err); shown != "" {
		return shown
	}
	if c, ok := errors.AsType[errcode.Coder](err); ok {
		return c.Error()
	}
	return ""
}

// WriteError implements web.ErrorWriter for the public API: a problem in JSON, with the CORS headers that let front ends
// read it.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	greet(w)
	WriteInnerError(w, r, err)
}

// WriteInnerError is like WriteError, but for Runner: it writes no CORS headers.
func WriteInnerError(w http.ResponseWriter, _ *http.Request, err error) {
	p := problemOf(err)
	h := w.Header()
	h.Set("Cache-Control", private)
	for _, name := range []string{"ETag", "Location"} { // left over if the response failed before it was sent
		h.Del(name)
	}
	switch {
	case p.status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case p.status == http.StatusServiceUnavailable && h.Get("Retry-After") == "":
		h.Set("Retry-After", "10")
	}
	web.SendJSONLine(w, p.status, p.appendTo(nil, h.Get("X-Request-Id")))
}

// appendTo appends the body.
func (p *problem) appendTo(b []byte, requestID string) []byte {
	b = appendString(append(b, `{"error":{"code":`...), p.code)
	b = appendString(key(b, "message"), p.message)
	b = appendFlag(key(b, "retryable"), p.retryable())
	if p.current != nil {
		b = appendInt(key(b, "currentRevision"), *p.current)
	}
	if p.pointer != nil {
		b = appendString(key(b, "pointer"), *p.pointer)
	}
	if p.limit > 0 {
		b = appendInt(key(b, "limit"), p.limit)
	}
	if p.size > 0 {
		b = appendInt(key(b, "size"), p.size)
	}
	if p.why != nil {
		b = appendList(key(b, "failures"), p.why, appendFailure)
	}
	if p.cause != "" {
		b = appendInt(key(b, "index"), p.index)
		b = appendString(key(b, "cause"), p.cause)
	}
	if p.imported != nil {
		b = p.imported.appendTo(key(b, "imported"))
	}
	return append(appendString(key(b, "requestId"), requestID), "}}"...)
}

// appendFailure appends a schema's failure.
func appendFailure(b []byte, f *ext.SchemaFailure) []byte {
	b = appendString(key(append(b, '{'), "pointer"), f.Pointer)
	b = appendString(key(b, "location"), f.Location)
	if f.Missing.Set && len(f.Missing.Value) <= maxSubject {
		b = appendString(key(b, "missing"), f.Missing.Value)
	}
	if f.Keyword != "" {
		b = appendString(key(b, "keyword"), f.Keyword)
	}
	if f.Bound != "" {
		b = append(key(b, "bound"), f.Bound...)
	}
	return append(appendString(key(b, "message"), f.Message()), '}')
}

var bodyErrors = web.BodyErrors{Announced: errLength, TooLarge: errLength, TooSlow: errSlowBody, Cut: errCutBody}
