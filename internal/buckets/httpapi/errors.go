package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/fair"
	"holdfast/internal/fault"
	"holdfast/internal/web"
)

// Codes of several errors. Those that Manta has are spelled as there.
const (
	codeInvalid     = "InvalidArgument"
	codeCredentials = "InvalidCredentials"
	codeForbidden   = "AuthorizationFailed"
	codeTooLarge    = "MaxContentLength"
	codeMD5         = "ContentMd5Error"
	codeUnavailable = "ServiceUnavailable"
	codeNotFound    = "ResourceNotFound"
	codeObjectName  = "InvalidObjectName"
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
	case http.StatusPreconditionFailed, http.StatusNotModified:
		return fault.Precondition
	case http.StatusRequestEntityTooLarge:
		return fault.TooLarge
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return fault.Unavailable
	case http.StatusInternalServerError:
		return fault.Internal
	}
	return fault.Invalid
}

// invalid rejects a part of the request.
func invalid(message string) error { return refuse(http.StatusBadRequest, codeInvalid, message) }

var (
	errPath     = refuse(http.StatusBadRequest, codeInvalid, "malformed path: check the percent-encoding")
	errRoute    = refuse(http.StatusNotFound, codeNotFound, "no such path: the paths are listed in /buckets/openapi.json")
	errTooLarge = refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "the body is too large")
	errSlow     = refuse(http.StatusRequestTimeout, "UploadTimeout", "the body was sent too slowly")
	errCut      = refuse(http.StatusBadRequest, "UploadAbandoned", "the body ended early or its encoding is malformed")
	errLimit    = refuse(http.StatusBadRequest, "LimitConstraintError", "limit must be a number from 1 to 1024")
)

var bodyErrors = web.BodyErrors{Announced: errTooLarge, TooLarge: errTooLarge, TooSlow: errSlow, Cut: errCut}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// methodNotAllowed rejects a method, and sets the header Allow.
func methodNotAllowed(w http.ResponseWriter, methods []string) error {
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "method not allowed: this path supports "+allowed)
}

// known are the errors of package buckets.
var known = []struct {
	err    error
	status int
	code   string
}{
	{buckets.ErrNoBucket, http.StatusNotFound, "BucketNotFound"},
	{buckets.ErrBucketExists, http.StatusConflict, "BucketAlreadyExists"},
	{buckets.ErrBucketNotEmpty, http.StatusConflict, "BucketNotEmpty"},
	{buckets.ErrBucketName, http.StatusUnprocessableEntity, "InvalidBucketName"},
	{buckets.ErrNoObject, http.StatusNotFound, "ObjectNotFound"},
	{buckets.ErrObjectName, http.StatusUnprocessableEntity, codeObjectName},
	{buckets.ErrObjectNameEmpty, http.StatusUnprocessableEntity, codeObjectName},
	{buckets.ErrObjectNameTooLong, http.StatusUnprocessableEntity, codeObjectName},
	{buckets.ErrPrecondition, http.StatusPreconditionFailed, "PreconditionFailedError"},
	{buckets.ErrNotModified, http.StatusNotModified, "NotModified"},
	{buckets.ErrRange, http.StatusRequestedRangeNotSatisfiable, "InvalidRange"},
	{buckets.ErrNotEnoughSpace, http.StatusInsufficientStorage, "NotEnoughSpace"},
}

// asRefusal returns the refusal for an error.
func asRefusal(err error) *refusal {
	if own, ok := errors.AsType[*refusal](err); ok {
		return own
	}
	if isGone(err) {
		return errGone
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return &refusal{k.status, k.code, k.err.Error(), err}
		}
	}
	if digest, ok := errors.AsType[*sigv4.Error](err); ok {
		return ofBody(digest)
	}
	if quota, ok := errors.AsType[*buckets.QuotaError](err); ok {
		return &refusal{http.StatusForbidden, "QuotaExceeded", quota.Error(), err}
	}
	message := fault.Message(err)
	switch fault.CodeOf(err) {
	case fault.Internal:
		return &refusal{http.StatusInternalServerError, "InternalError", "internal error: the server log has the details under this requestId", err}
	case fault.NotFound:
		return &refusal{http.StatusNotFound, codeNotFound, message, err}
	case fault.Denied:
		return &refusal{http.StatusForbidden, codeForbidden, message, err}
	case fault.TooLarge:
		return &refusal{http.StatusRequestEntityTooLarge, codeTooLarge, message, err}
	case fault.Invalid:
		return &refusal{http.StatusBadRequest, codeInvalid, message, err}
	}
	if errors.Is(err, fair.ErrFull) {
		return &refusal{http.StatusServiceUnavailable, "Throttled", message, err}
	}
	return &refusal{http.StatusServiceUnavailable, codeUnavailable, message, err}
}

// ofBody returns the refusal of a body that is not as the client declared it.
func ofBody(e *sigv4.Error) *refusal {
	switch e.Kind {
	case sigv4.InvalidMD5, sigv4.DigestMismatch:
		return &refusal{http.StatusBadRequest, codeMD5, e.Message, e}
	case sigv4.TooLarge:
		return errTooLarge
	default:
		return errCut
	}
}

// problem is the body of an error.
type problem struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"` // the same request may succeed later
	RequestID string `json:"requestId"`
}

// WriteError is the service's web.ErrorWriter. It also writes errors of the listener,
// such as panics and load shedding.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	e := asRefusal(err)
	h := w.Header()
	h.Set("Cache-Control", noCache)
	retryable := e.status == http.StatusServiceUnavailable || e.status == http.StatusRequestTimeout
	switch {
	case e.status == http.StatusNotModified:
		w.WriteHeader(e.status)
		return
	case e.status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case e.status == http.StatusServiceUnavailable && h.Get("Retry-After") == "":
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	body, err := json.Marshal(map[string]problem{"error": {e.code, e.message, retryable, h.Get("X-Request-Id")}})
	if err != nil {
		body = []byte(`{}`) // not possible: it has only texts
	}
	web.SendJSONLine(w, e.status, body)
}

// retryAfter is the delay in seconds that clients are asked for when the server is not
// available.
const retryAfter = 10
