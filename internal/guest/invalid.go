package guest

import (
	"errors"
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// FieldError is an error in a body member, a URL parameter or a header.
type FieldError struct {
	Pointer   string `json:"pointer"` // RFC 6901; "" for the whole body, or if Parameter or Header is set
	Parameter string `json:"parameter,omitempty"`
	Header    string `json:"header,omitempty"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// FieldErrors lists a request's errors.
type FieldErrors []FieldError

// MaxFieldErrors is per request.
const MaxFieldErrors = 20

// Error describes the first error.
func (e FieldErrors) Error() string {
	if len(e) == 0 {
		return "no errors"
	}
	return e[0].Pointer + e[0].Parameter + e[0].Header + ": " + e[0].Detail
}

// CodeInvalid is the code of most field errors.
const CodeInvalid = "invalid"

// Bad makes an error for fields that are invalid together.
type Bad func(detail string, names ...string) error

// BadMember makes an error for body members.
func BadMember(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError {
		return FieldError{Pointer: "/" + name, Code: CodeInvalid, Detail: detail}
	})
}

// Under prepends the member that contains the value to an error's pointers.
func Under(member string, err error) error {
	fields, ok := errors.AsType[FieldErrors](err)
	if !ok {
		return err
	}
	moved := slices.Clone(fields)
	for i := range moved {
		moved[i].Pointer = "/" + member + moved[i].Pointer
	}
	return errcode.Wrap(errcode.Invalid, strings.TrimPrefix(moved[0].Pointer, "/")+": "+moved[0].Detail, moved)
}

// BadParameter makes an error for URL parameters.
func BadParameter(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError { return FieldError{Parameter: name, Code: CodeInvalid, Detail: detail} })
}

// BadHeader makes an error for headers.
func BadHeader(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError { return FieldError{Header: name, Code: CodeInvalid, Detail: detail} })
}

// bad makes an error with an entry per name. Its code is errcode.Invalid.
func bad(detail string, names []string, field func(name string) FieldError) error {
	fields := make(FieldErrors, len(names))
	for i, name := range names {
		fields[i] = field(name)
	}
	return errcode.Wrap(errcode.Invalid, strings.Join(names, ", ")+": "+detail, fields)
}
