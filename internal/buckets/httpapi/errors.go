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
	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
	"holdfast/internal/web"
)

// Shared error codes, spelled as in Manta if they exist there.
const (
	codeInvalid     = "InvalidArgument"
	codeCredentials = "InvalidCredentials"
	codeForbidden   = "AuthorizationFailed"
	codeTooLarge    = "MaxContentLength"
	codeMD5         = "ContentMd5Error"
	codeUnavailable = "ServiceUnavailable"
	codeNotFound    = "ResourceNotFound"
	codeObjectName  = "InvalidObjectName"
	codeNoObject    = "ObjectNotFound"
)

// invalid refuses with 400.
func invalid(message string) error { return web.Refuse(http.StatusBadRequest, codeInvalid, message) }

var (
	errPath          = web.Refuse(http.StatusBadRequest, codeInvalid, "malformed path: check the percent-encoding")
	errRoute         = web.Refuse(http.StatusNotFound, codeNotFound, "no such path: the paths are listed in /buckets/openapi.json")
	errTooLarge      = web.Refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "the body is too large")
	errSlow          = web.Refuse(http.StatusRequestTimeout, "UploadTimeout", "the body was sent too slowly")
	errCut           = web.Refuse(http.StatusBadRequest, "UploadAbandoned", "the body ended early or its encoding is malformed")
	errMetadataLimit = web.Refuse(http.StatusBadRequest, "LimitConstraintError", "limit must be a number from 1 to 100 with metadata")
	errLimit         = web.Refuse(http.StatusBadRequest, "LimitConstraintError", "limit must be a number from 1 to 1024")
)

var bodyErrors = web.BodyErrors{Announced: errTooLarge, TooLarge: errTooLarge, TooSlow: errSlow, Cut: errCut}

// isEOF reports that a body ended early.
func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// methodNotAllowed lists the methods of the path.
func methodNotAllowed(w http.ResponseWriter, methods []string) error {
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	return web.Refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "method not allowed: this path supports "+allowed)
}

// known maps the store's errors. Others are mapped by code.
var known = []struct {
	err    error
	status int
	code   string
}{
	{buckets.ErrNoBucket, http.StatusNotFound, "BucketNotFound"},
	{buckets.ErrBucketExists, http.StatusConflict, "BucketAlreadyExists"},
	{buckets.ErrBucketNotEmpty, http.StatusConflict, "BucketNotEmpty"},
	{buckets.ErrBucketName, http.StatusUnprocessableEntity, "InvalidBucketName"},
	{buckets.ErrNoObject, http.StatusNotFound, codeNoObject},
	{buckets.ErrNoVersion, http.StatusNotFound, "VersionNotFound"},
	{buckets.ErrLockVersioning, http.StatusConflict, "InvalidBucketState"},
	{buckets.ErrObjectName, http.StatusUnprocessableEntity, codeObjectName},
	{buckets.ErrObjectNameEmpty, http.StatusUnprocessableEntity, codeObjectName},
	{buckets.ErrObjectNameTooLong, http.StatusUnprocessableEntity, codeObjectName},
	{buckets.ErrPrecondition, http.StatusPreconditionFailed, "PreconditionFailedError"},
	{buckets.ErrNotModified, http.StatusNotModified, "NotModified"},
	{buckets.ErrRange, http.StatusRequestedRangeNotSatisfiable, "InvalidRange"},
	{buckets.ErrNotEnoughSpace, http.StatusInsufficientStorage, "NotEnoughSpace"},
}

// asRefusal finds the answer for any error: specific types first, then codes.
func asRefusal(err error) *web.Refusal {
	if condition, ok := errors.AsType[*web.ConditionError](err); ok {
		return web.RefuseFor(err, http.StatusBadRequest, codeInvalid, condition.Error())
	}
	if own, ok := errors.AsType[*web.Refusal](err); ok {
		return own
	}
	if isGone(err) {
		return errGone
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return web.RefuseFor(err, k.status, k.code, k.err.Error())
		}
	}
	if digest, ok := errors.AsType[*sigv4.Error](err); ok {
		return ofBody(digest)
	}
	if quota, ok := errors.AsType[*buckets.QuotaError](err); ok {
		return web.RefuseFor(err, http.StatusForbidden, "QuotaExceeded", quota.Error())
	}
	if locked, ok := errors.AsType[*buckets.LockedError](err); ok {
		return web.RefuseFor(err, http.StatusForbidden, codeForbidden, locked.Error())
	}
	message := errcode.Message(err)
	switch errcode.Of(err) {
	case errcode.Internal:
		return web.RefuseFor(err, http.StatusInternalServerError, "InternalError", "internal error: the server log has the details under this requestId")
	case errcode.NotFound:
		return web.RefuseFor(err, http.StatusNotFound, codeNotFound, message)
	case errcode.Denied:
		return web.RefuseFor(err, http.StatusForbidden, codeForbidden, message)
	case errcode.TooLarge:
		return web.RefuseFor(err, http.StatusRequestEntityTooLarge, codeTooLarge, message)
	case errcode.Invalid:
		return web.RefuseFor(err, http.StatusBadRequest, codeInvalid, message)
	}
	if errors.Is(err, fairshare.ErrFull) {
		return web.RefuseFor(err, http.StatusServiceUnavailable, "Throttled", message)
	}
	return web.RefuseFor(err, http.StatusServiceUnavailable, codeUnavailable, message)
}

// ofBody maps errors of the body's checksums and length.
func ofBody(e *sigv4.Error) *web.Refusal {
	switch e.Kind {
	case sigv4.InvalidMD5, sigv4.DigestMismatch:
		return web.RefuseFor(e, http.StatusBadRequest, codeMD5, e.Message)
	case sigv4.TooLarge:
		return errTooLarge
	default:
		return errCut
	}
}

// problem is the error body, as in openapi.json.
type problem struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"` // the same request may succeed later
	RequestID string `json:"requestId"`
}

// WriteError is the service's web.ErrorWriter. It also writes listener errors, such as panics and load shedding.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	e := asRefusal(err)
	h := w.Header()
	h.Set("Cache-Control", noCache)
	retryable := e.Status == http.StatusServiceUnavailable || e.Status == http.StatusRequestTimeout
	switch {
	case e.Status == http.StatusNotModified:
		w.WriteHeader(e.Status)
		return
	case e.Status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case e.Status == http.StatusServiceUnavailable && h.Get("Retry-After") == "":
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	body, err := json.Marshal(map[string]problem{"error": {e.Code, e.Message, retryable, h.Get("X-Request-Id")}})
	if err != nil {
		body = []byte(`{}`)
	}
	web.SendJSONLine(w, e.Status, body)
}

// retryAfter is in seconds.
const retryAfter = 10
