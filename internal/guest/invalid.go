package guest

import (
	"strings"

	"holdfast/internal/fault"
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

// FieldErrors are what is wrong with a request, at most maxFieldErrors.
type FieldErrors []FieldError

const maxFieldErrors = 20

func (e FieldErrors) Error() string {
	if len(e) == 0 {
		return "no errors"
	}
	return e[0].Pointer + e[0].Parameter + e[0].Header + ": " + e[0].Detail
}

// codeInvalid is the code of most field errors.
const codeInvalid = "invalid"

// refusal makes the error of parts of a request that are wrong together.
type refusal func(detail string, names ...string) error

// badMember is the refusal of members of a body.
func badMember(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError {
		return FieldError{Pointer: "/" + name, Code: codeInvalid, Detail: detail}
	})
}

// badParameter is the refusal of parameters of a URL.
func badParameter(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError { return FieldError{Parameter: name, Code: codeInvalid, Detail: detail} })
}

// badHeader is the refusal of headers.
func badHeader(detail string, names ...string) error {
	return bad(detail, names, func(name string) FieldError { return FieldError{Header: name, Code: codeInvalid, Detail: detail} })
}

func bad(detail string, names []string, field func(name string) FieldError) error {
	wrong := make(FieldErrors, len(names))
	for i, name := range names {
		wrong[i] = field(name)
	}
	return fault.Wrap(fault.Invalid, strings.Join(names, ", ")+": "+detail, wrong)
}
