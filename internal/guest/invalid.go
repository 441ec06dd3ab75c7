package guest

import (
	"errors"
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// FieldError says what is wrong with one part of a request: a member of the body, a parameter
// of the URL, or a header.
type FieldError struct {
	Pointer   string `json:"pointer"`             // RFC 6901; "" for the whole body, and with Parameter and Header
	Parameter string `json:"parameter,omitempty"` // of the path or the query
	Header    string `json:"header,omitempty"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// FieldErrors are the errors in a request, at most MaxFieldErrors.
type FieldErrors []FieldError

// MaxFieldErrors is how many errors of a request are reported.
const MaxFieldErrors = 20

func (e FieldErrors) Error() string {
	if len(e) == 0 {
		return "no errors"
	}
	return e[0].Pointer + e[0].Parameter + e[0].Header + ": " + e[0].Detail
}

// CodeInvalid is the code of most field errors.
const CodeInvalid = "invalid"

// Bad makes the error of parts of a request that are wrong together.
type Bad func(detail string, names ...string) error

// BadMember is the error of members of a body.
func BadMember(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError {
		return FieldError{Pointer: "/" + name, Code: CodeInvalid, Detail: detail}
	})
}

// Under returns an error of a value as that of the member that has the value.
func Under(member string, err error) error {
	wrong, ok := errors.AsType[FieldErrors](err)
	if !ok {
		return err
	}
	moved := slices.Clone(wrong)
	for i := range moved {
		moved[i].Pointer = "/" + member + moved[i].Pointer
	}
	return errcode.Wrap(errcode.Invalid, strings.TrimPrefix(moved[0].Pointer, "/")+": "+moved[0].Detail, moved)
}

// BadParameter is the error of parameters of a URL.
func BadParameter(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError { return FieldError{Parameter: name, Code: CodeInvalid, Detail: detail} })
}

// BadHeader is the error of headers.
func BadHeader(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError { return FieldError{Header: name, Code: CodeInvalid, Detail: detail} })
}

func bad(detail string, names []string, field func(name string) FieldError) error {
	wrong := make(FieldErrors, len(names))
	for i, name := range names {
		wrong[i] = field(name)
	}
	return errcode.Wrap(errcode.Invalid, strings.Join(names, ", ")+": "+detail, wrong)
}
