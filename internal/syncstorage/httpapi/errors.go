package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// Codes in the body of an error.
const (
	codeUnknown    = 0
	codeMethod     = 1
	codeBSO        = 8
	codeCollection = 13
	codeQuota      = 14
	codeSize       = 17
)

// status is an error that names its own answer, for what only HTTP knows.
type status struct {
	status int
	code   int
	reason string
}

func (s *status) Error() string { return s.reason }

// FaultCode implements fault.Coder.
func (s *status) FaultCode() fault.Code { return fault.Invalid }

var (
	errRoute      = &status{http.StatusNotFound, codeUnknown, "no such resource"}
	errMethod     = &status{http.StatusMethodNotAllowed, codeMethod, "the resource does not have this method"}
	errMedia      = &status{http.StatusUnsupportedMediaType, codeUnknown, "the content type is not one of Sync"}
	errAccept     = &status{http.StatusNotAcceptable, codeUnknown, "no acceptable content type"}
	errLength     = &status{http.StatusRequestEntityTooLarge, codeSize, "the body is larger than a request may be"}
	errLongStream = &status{http.StatusBadRequest, codeSize, "the body is larger than a request may be"}
	errOldClient  = &status{http.StatusServiceUnavailable, codeUnknown, "a client that crashes on answers"}
	errQuery      = &status{http.StatusBadRequest, codeUnknown, "the query is malformed"}
	errSlowBody   = &status{http.StatusRequestTimeout, codeUnknown, "the body did not arrive"}
)

// answer maps an error to a status and the integer of its body.
func answer(err error) (httpStatus, code int) {
	var own *status
	if errors.As(err, &own) {
		return own.status, own.code
	}
	switch {
	case errors.Is(err, ss.ErrBody):
		return http.StatusBadRequest, codeBSO
	case errors.Is(err, ss.ErrTooManyNames):
		return http.StatusBadRequest, codeCollection
	}
	switch fault.CodeOf(err) {
	case fault.NotFound:
		return http.StatusNotFound, codeUnknown
	case fault.Invalid:
		return http.StatusBadRequest, codeUnknown
	case fault.TooLarge:
		return http.StatusBadRequest, codeSize
	case fault.Quota:
		return http.StatusForbidden, codeQuota
	case fault.Denied:
		return http.StatusUnauthorized, codeUnknown
	case fault.Conflict, fault.Unavailable:
		// 409 is in the protocol and old clients mishandle it.
		return http.StatusServiceUnavailable, codeUnknown
	}
	return http.StatusInternalServerError, codeUnknown
}

// retryAfter is when a client may come back after a 503.
const retryAfter = 10 * time.Second

// WriteError answers with an error in the protocol's form. Together with the
// handler's own errors it serves those of the listener: a panic, a server that
// sheds load.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	h := w.Header()
	var p *ss.PreconditionError
	if errors.As(err, &p) {
		h.Set("X-Last-Modified", p.Modified.String())
		raiseTimestamp(h, p.Modified)
		if p.NotModified {
			w.WriteHeader(http.StatusNotModified)
		} else {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
		return
	}
	httpStatus, code := answer(err)
	h.Del("X-Last-Modified")
	switch httpStatus {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Hawk")
	case http.StatusServiceUnavailable:
		if h.Get("Retry-After") == "" {
			h.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		}
	}
	if errors.Is(err, errOldClient) {
		h.Del("X-Weave-Timestamp")
	}
	h.Set("Content-Type", typeJSON)
	body := strconv.Itoa(code)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(httpStatus)
	_, _ = w.Write([]byte(body)) // a client that went away
}

// bodyError tells what a failed read of a body means.
func bodyError(err error) error {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return errLongStream
	case errors.Is(err, hawk.ErrPayload):
		return err
	}
	return errSlowBody
}
