package console

import (
	"errors"
	"mime"
	"net/http"
	"strings"

	"holdfast/internal/fault"
)

// maxForm is the maximum size of a form without a file, in bytes.
const maxForm = 8 << 20

// errForm means that the body is not that of a form of the console.
var errForm = fault.New(fault.Invalid, "the form is malformed")

// readForm reads the body of a form without a file.
func (x *exchange) readForm() error {
	if kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return errForm
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxForm)
	err := x.r.ParseForm()
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return fault.Newf(fault.TooLarge, "the form has more than %d bytes", maxForm)
	} else if err != nil {
		return errForm
	}
	for name, values := range x.r.PostForm { // browsers send lines with CR LF
		for i, v := range values {
			x.r.PostForm[name][i] = strings.ReplaceAll(v, "\r\n", "\n")
		}
	}
	return nil
}

// readPost reads the body of a form and checks its CSRF token.
func (x *exchange) readPost() error {
	if err := x.readForm(); err != nil {
		return err
	}
	if !same(x.r.PostForm.Get("csrf"), x.session.csrf) {
		return errCSRF
	}
	return nil
}
