package canonjson

import (
	"strconv"

	"holdfast/internal/fault"
)

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

// ErrTooLarge is what every LimitError is.
var ErrTooLarge error = fault.New(fault.TooLarge, "the JSON value is too large")

// LimitError is something that is larger than its limit: a text, a value, a list in a request.
type LimitError struct {
	Pointer string // as that of Error
	Limit   int64  // the most that is allowed
	Size    int64  // of what was sent; 0: not known, because it was not read to its end
	Unit    string // of both, in the plural: "bytes", "items"
}

func (e *LimitError) Error() string {
	limit := strconv.FormatInt(e.Limit, 10)
	if e.Size == 0 {
		return "is too large: the limit is " + limit + " " + e.Unit
	}
	return "has " + strconv.FormatInt(e.Size, 10) + " " + e.Unit + ": the limit is " + limit
}

// FaultCode implements fault.Coder.
func (*LimitError) FaultCode() fault.Code { return fault.TooLarge }

// Is makes every LimitError ErrTooLarge.
func (*LimitError) Is(target error) bool { return target == ErrTooLarge }

// Under is the error with its place in a text around the one that was read, as
// Error.Under has it.
func (e *LimitError) Under(pointer string) *LimitError {
	under := *e
	under.Pointer = pointer + e.Pointer
	return &under
}

func tooLarge(size, limit int) *LimitError {
	return &LimitError{Limit: int64(limit), Size: int64(size), Unit: "bytes"}
}
