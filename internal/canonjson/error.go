package canonjson

import "holdfast/internal/fault"

// Error is something in a JSON text, or in a request that carries one, that is
// not as it must be. Reason is half a sentence for the client ("must be a UUID").
// It quotes nothing of what the client sent, because it goes to the log; the
// pointer does, and is for the client only.
type Error struct {
	Pointer string // RFC 6901, to the place in the text that was read; "" is all of it
	Reason  string
}

func (e *Error) Error() string { return e.Reason }

// FaultCode implements fault.Coder.
func (*Error) FaultCode() fault.Code { return fault.Invalid }

// Under is the error with its place in a text around the one that was read,
// such as a request that has the value under "/value".
func (e *Error) Under(pointer string) *Error {
	return &Error{Pointer: pointer + e.Pointer, Reason: e.Reason}
}

func refuse(reason string) *Error { return &Error{Reason: reason} }

// ErrTooLarge refuses a text or a result whose canonical form is over its limit.
var ErrTooLarge error = fault.New(fault.TooLarge, "the JSON value is larger than its limit")
