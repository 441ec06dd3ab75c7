package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

const (
	codeUnknown    = 0
	codeMethod     = 1
	codeBSO        = 8
	codeCollection = 13
	codeQuota      = 14
	codeSize       = 17
)

// refusal is an error that this package finds itself. code is the number in the body that old clients read.
type refusal struct {
	status int
	code   int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func (r *refusal) ErrorCode() errcode.Code { return errcode.Invalid }

var (
	errRoute       = &refusal{http.StatusNotFound, codeUnknown, "no such path"}
	errMethod      = &refusal{http.StatusMethodNotAllowed, codeMethod, "method not allowed"}
	errMedia       = &refusal{http.StatusUnsupportedMediaType, codeUnknown, "unsupported content type: expected application/json, application/newlines or text/plain"}
	errAccept      = &refusal{http.StatusNotAcceptable, codeUnknown, "not acceptable: Accept must allow application/json or application/newlines"}
	errLength      = &refusal{http.StatusRequestEntityTooLarge, codeSize, "the body is too large"}
	errLongStream  = &refusal{http.StatusBadRequest, codeSize, "the body is too large"}
	errManyRecords = &refusal{http.StatusBadRequest, codeSize, "the body has too many records"}
	errSlowBody    = &refusal{http.StatusRequestTimeout, codeUnknown, "the body was sent too slowly"}
	errOldClient   = &refusal{http.StatusServiceUnavailable, codeUnknown, "client version with a known crash"}
	errQuery       = &refusal{http.StatusBadRequest, codeUnknown, "malformed query string"}
)

// statusOf returns the HTTP status, and the number for the body.
func statusOf(err error) (status, code int) {
	if own, ok := errors.AsType[*refusal](err); ok {
		return own.status, own.code
	}
	switch {
	case errors.Is(err, ss.ErrBody):
		return http.StatusBadRequest, codeBSO
	case errors.Is(err, ss.ErrTooManyNames):
		return http.StatusBadRequest, codeCollection
	}
	switch errcode.Of(err) {
	case errcode.NotFound:
		return http.StatusNotFound, codeUnknown
	case errcode.Invalid:
		return http.StatusBadRequest, codeUnknown
	case errcode.TooLarge:
		return http.StatusBadRequest, codeSize
	case errcode.Quota:
		return http.StatusForbidden, codeQuota
	case errcode.Denied:
		return http.StatusUnauthorized, codeUnknown
	case errcode.Conflict, errcode.Unavailable:
		// the protocol says 409, but old clients mishandle it
		return http.StatusServiceUnavailable, codeUnknown
	}
	return http.StatusInternalServerError, codeUnknown
}

// WriteError is like Handler.WriteError, but without the service's headers.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	if unmet, ok := errors.AsType[*ss.PreconditionError](err); ok {
		status := http.StatusPreconditionFailed
		if unmet.NotModified {
			status = http.StatusNotModified
		}
		w.WriteHeader(status)
		return
	}
	h := w.Header()
	// These were set by a listing that failed before it was sent.
	for _, name := range []string{"X-Last-Modified", "X-Weave-Records", "X-Weave-Next-Offset"} {
		h.Del(name)
	}
	status, code := statusOf(err)
	switch {
	case status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Hawk")
	case status == http.StatusServiceUnavailable && !errors.Is(err, errOldClient) && h.Get("Retry-After") == "":
		h.Set("Retry-After", "10")
	}
	web.SendJSON(w, status, strconv.AppendInt(nil, int64(code), 10))
}

var bodyErrors = web.BodyErrors{Announced: errLength, TooLarge: errLongStream, TooSlow: errSlowBody, Cut: errBody}
