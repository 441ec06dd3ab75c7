// Package fault codes the errors that cross a service's walls.
//
// A store or service says what kind of failure it met (a Code), one sentence
// for the client, and, for us alone, the cause. The protocol's error writer
// turns the code into its own status and body; nobody looks at error text.
package fault

import (
	"errors"
	"fmt"
)

// Code is the kind of a failure. The zero value is Internal, so that an error
// nobody coded is never mistaken for the client's fault.
type Code uint8

// The codes, in no order of gravity.
const (
	Internal     Code = iota // a bug or an unforeseen state of ours
	NotFound                 // the addressed thing is not there
	Conflict                 // a concurrent change won; the caller may retry
	Precondition             // what the caller saw no longer stands
	Invalid                  // the request itself is wrong; retrying is useless
	TooLarge                 // a size or count limit is exceeded
	Quota                    // the owner's quota is used up
	Denied                   // the caller may not do this
	Unavailable              // an engine or a peer is away; retrying later helps
)

var names = [...]string{
	"internal", "not_found", "conflict", "precondition", "invalid",
	"too_large", "quota", "denied", "unavailable",
}

// String is the code's name as it appears in logs and metric labels.
func (c Code) String() string {
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// Error is a coded failure. Message is one sentence that may be shown to the
// client; Cause is for logs and never leaves the process.
type Error struct {
	Code    Code
	Message string
	Cause   error
}

// New makes a coded error without a cause.
func New(code Code, message string) *Error {
	return &Error{Code: code, Message: message}
}

// Newf is New with a formatted message.
func Newf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap codes an error that came from below.
func Wrap(code Code, message string, cause error) *Error {
	return &Error{Code: code, Message: message, Cause: cause}
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// FaultCode implements Coder.
func (e *Error) FaultCode() Code { return e.Code }

// Coder is implemented by every error that carries a code: *Error, and the
// typed errors of a service that also carry data.
type Coder interface {
	error
	FaultCode() Code
}

// CodeOf returns the code of the outermost coded error in err's chain, and
// Internal when there is none.
func CodeOf(err error) Code {
	if c, ok := errors.AsType[Coder](err); ok {
		return c.FaultCode()
	}
	return Internal
}

// Is reports whether err carries the code.
func Is(err error, code Code) bool {
	return err != nil && CodeOf(err) == code
}

// Message returns the sentence for the client, or "" when err carries none.
func Message(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return ""
}
