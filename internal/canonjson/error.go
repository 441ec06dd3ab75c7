package canonjson

import (
	"strconv"

	"holdfast/internal/errcode"
)

// Error reports an invalid part of a JSON text or request. Reason completes a sentence ("must be a UUID"). Reason is
// logged, so it never quotes client input. Pointer is sent only to the client.
type Error struct {
	Pointer string // RFC 6901; "" is the whole text
	Reason  string
}

func (e *Error) Error() string { return e.Reason }

func (*Error) ErrorCode() errcode.Code { return errcode.Invalid }

// Under prepends an enclosing location to the pointer, e.g. "/value".
func (e *Error) Under(pointer string) *Error {
	return &Error{Pointer: pointer + e.Pointer, Reason: e.Reason}
}

func refuse(reason string) *Error { return &Error{Reason: reason} }

// ErrTooLarge matches every LimitError.
var ErrTooLarge error = errcode.New(errcode.TooLarge, "the JSON value is too large")

// LimitError reports a text, value or list that exceeds its limit.
type LimitError struct {
	Pointer string
	Limit   int64
	Size    int64  // 0 if unknown
	Unit    string // plural: "bytes", "items"
}

func (e *LimitError) Error() string {
	limit := strconv.FormatInt(e.Limit, 10)
	if e.Size == 0 {
		return "is too large: the limit is " + limit + " " + e.Unit
	}
	return "has " + strconv.FormatInt(e.Size, 10) + " " + e.Unit + ": the limit is " + limit
}

func (*LimitError) ErrorCode() errcode.Code { return errcode.TooLarge }

func (*LimitError) Is(target error) bool { return target == ErrTooLarge }

// Under prepends an enclosing location to the pointer.
func (e *LimitError) Under(pointer string) *LimitError {
	under := *e
	under.Pointer = pointer + e.Pointer
	return &under
}

func tooLarge(size, limit int) *LimitError {
	return &LimitError{Limit: int64(limit), Size: int64(size), Unit: "bytes"}
}
