package canonjson

import (
	"strconv"

	"holdfast/internal/errcode"
)

// Error reports an invalid part of a JSON text, or of a request that contains one.
// Reason completes a sentence for the client ("must be a UUID"). It never quotes
// what the client sent, because it is logged. Pointer does, and goes to the client
// only.
type Error struct {
	Pointer string // RFC 6901, relative to the parsed text; "" means the whole text
	Reason  string
}

func (e *Error) Error() string { return e.Reason }

// ErrorCode implements errcode.Coder.
func (*Error) ErrorCode() errcode.Code { return errcode.Invalid }

// Under returns the error with its pointer relative to an enclosing text, such as
// a request that has the value under "/value".
func (e *Error) Under(pointer string) *Error {
	return &Error{Pointer: pointer + e.Pointer, Reason: e.Reason}
}

func refuse(reason string) *Error { return &Error{Reason: reason} }

// ErrTooLarge matches every LimitError with errors.Is.
var ErrTooLarge error = errcode.New(errcode.TooLarge, "the JSON value is too large")

// LimitError reports something that exceeds its limit: a text, a value, or a list
// in a request.
type LimitError struct {
	Pointer string // as in Error
	Limit   int64  // the maximum allowed
	Size    int64  // actual size; 0: unknown, because the input was not read to its end
	Unit    string // unit of both, in the plural: "bytes", "items"
}

func (e *LimitError) Error() string {
	limit := strconv.FormatInt(e.Limit, 10)
	if e.Size == 0 {
		return "is too large: the limit is " + limit + " " + e.Unit
	}
	return "has " + strconv.FormatInt(e.Size, 10) + " " + e.Unit + ": the limit is " + limit
}

// ErrorCode implements errcode.Coder.
func (*LimitError) ErrorCode() errcode.Code { return errcode.TooLarge }

// Is reports true for ErrTooLarge.
func (*LimitError) Is(target error) bool { return target == ErrTooLarge }

// Under returns the error with its pointer relative to an enclosing text, like
// Error.Under.
func (e *LimitError) Under(pointer string) *LimitError {
	under := *e
	under.Pointer = pointer + e.Pointer
	return &under
}

func tooLarge(size, limit int) *LimitError {
	return &LimitError{Limit: int64(limit), Size: int64(size), Unit: "bytes"}
}
