// Package errcode assigns codes to errors that cross a service's boundaries.
//
// Nothing compares error texts.
package errcode

import (
	"errors"
	"fmt"
	"strings"
)

// Code is an error's kind. The zero value is Internal: an error without a code is never blamed on the client.
type Code uint8

// The codes.
const (
	Internal     Code = iota // a bug, or an unexpected failure
	NotFound                 // the named thing does not exist
	Conflict                 // a concurrent change won; retry
	Precondition             // the caller's condition does not hold
	Invalid                  // the request is wrong; repeating it does not help
	TooLarge                 // a size is above its limit
	Quota                    // the account's quota would be exceeded
	Denied                   // credentials are missing, wrong or insufficient
	Unavailable              // something that the service needs fails; retry later
)

var names = [...]string{
	"internal", "not_found", "conflict", "precondition", "invalid",
	"too_large", "quota", "denied", "unavailable",
}

func (c Code) String() string {
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// Error is an error with a code. Message may be shown to the client; Cause and Fix are only for the log and operators.
type Error struct {
	Code    Code
	Message string // never quotes the client's input
	Cause   error
	Fix     string // advice for an operator, or ""; it may contain addresses and paths

	rephrased bool // Message already contains the cause's text
}

// New returns an error without a cause.
func New(code Code, message string) *Error {
	return &Error{Code: code, Message: message}
}

// Newf is like New, but formats the message.
func Newf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error with a cause, which Unwrap and the log show, and the client does not see.
func Wrap(code Code, message string, cause error) *Error {
	return &Error{Code: code, Message: message, Cause: cause}
}

// Rephrase returns err with another message and the same code. errors.Is and Fix still find err, but its text is left out:
// message replaces it, e.g. with the place of the error before it.
func Rephrase(err error, message string) *Error {
	return &Error{Code: Of(err), Message: message, Cause: err, rephrased: true}
}

// Error returns the text for logs and commands.
func (e *Error) Error() string {
	text := e.Message
	if e.Cause != nil && !e.rephrased {
		text += ": " + e.Cause.Error()
	}
	if e.Fix != "" && !strings.Contains(text, e.Fix) {
		text += "; " + e.Fix
	}
	return text
}

func (e *Error) Unwrap() error { return e.Cause }

func (e *Error) ErrorCode() Code { return e.Code }

// Coder is an error with a code, such as *Error or a protocol's own error.
type Coder interface {
	error
	ErrorCode() Code
}

// Of returns the outermost Coder's code in err's chain, or Internal.
func Of(err error) Code {
	if c, ok := errors.AsType[Coder](err); ok {
		return c.ErrorCode()
	}
	return Internal
}

// Is reports whether err has the code; nil has none.
func Is(err error, code Code) bool {
	return err != nil && Of(err) == code
}

// Message returns the message for the client, or "".
func Message(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return ""
}

// Fix returns the advice of err or of one of its causes, or "".
func Fix(err error) string {
	for err != nil {
		if e, ok := err.(*Error); ok && e.Fix != "" { //nolint:errorlint // the loop visits each cause
			return e.Fix
		}
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			for _, cause := range all.Unwrap() {
				if fix := Fix(cause); fix != "" {
					return fix
				}
			}
			return ""
		}
		err = errors.Unwrap(err)
	}
	return ""
}

// ForOperator returns the message for the client with the advice for an operator, or "".
func ForOperator(err error) string {
	text, fix := Message(err), Fix(err)
	if text == "" || fix == "" || strings.Contains(text, fix) {
		return text
	}
	return text + "; " + fix
}

// Explain gives an error without a code the code Unavailable, if message says what is wrong outside of the server, and fix
// what an operator can do. Otherwise it returns err.
func Explain(err error, message, fix string) error {
	if _, coded := errors.AsType[Coder](err); err == nil || coded || message == "" {
		return err
	}
	return &Error{Code: Unavailable, Message: message, Cause: err, Fix: fix}
}

// Unreachable returns an Unavailable error for something that the server reaches over the network. Its fix is NetworkFix.
func Unreachable(message string, cause error) *Error {
	return &Error{Code: Unavailable, Message: message, Cause: cause, Fix: NetworkFix(cause)}
}
