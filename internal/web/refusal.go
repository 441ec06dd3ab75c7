package web

import (
	"net/http"
	"strings"

	"holdfast/internal/errcode"
)

// Refusal is an error with its HTTP status and the protocol's code and message. An ErrorWriter finds it by
// errors.AsType and sends its fields.
type Refusal struct {
	Status  int    // HTTP status
	Code    string // in the protocol's spelling, e.g. "not-found"
	Message string // for the client; must not quote its input
	Cause   error  // for the log, or nil
}

// Refuse returns a Refusal without a cause.
func Refuse(status int, code, message string) *Refusal {
	return &Refusal{Status: status, Code: code, Message: message}
}

// RefuseMethod refuses an unsupported method, and sets the Allow header.
func RefuseMethod(w http.ResponseWriter, allowed ...string) *Refusal {
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return Refuse(http.StatusMethodNotAllowed, "method-not-allowed", "this path supports "+list)
}

// RefuseFor returns a Refusal with a cause, which the log shows instead of the message.
func RefuseFor(cause error, status int, code, message string) *Refusal {
	return &Refusal{Status: status, Code: code, Message: message, Cause: cause}
}

// Error returns the text for the log.
func (r *Refusal) Error() string {
	if r.Cause != nil {
		return r.Code + ": " + r.Cause.Error()
	}
	return r.Code + ": " + r.Message
}

func (r *Refusal) Unwrap() error { return r.Cause }

// ErrorCode returns the errcode that fits the status, so that logs and metrics classify refusals like other errors.
func (r *Refusal) ErrorCode() errcode.Code {
	switch r.Status {
	case http.StatusNotFound:
		return errcode.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return errcode.Denied
	case http.StatusConflict:
		return errcode.Conflict
	case http.StatusPreconditionFailed, http.StatusNotModified:
		return errcode.Precondition
	case http.StatusRequestEntityTooLarge:
		return errcode.TooLarge
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return errcode.Unavailable
	case http.StatusInternalServerError:
		return errcode.Internal
	}
	return errcode.Invalid
}
