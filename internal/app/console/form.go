package console

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"

	"holdfast/internal/app/service"
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

// Limits of a form with files.
const (
	maxFields = 50
	maxField  = 64 << 10 // bytes of a field that is not a file
)

// readUpload reads the fields of a form before its first file, and checks its CSRF token. The
// action reads the files.
func (x *exchange) readUpload(r *service.PageRequest) error {
	parts, err := x.r.MultipartReader()
	if err != nil {
		return errForm
	}
	r.Values = url.Values{}
	next := func() (part *multipart.Part, file *service.Upload, err error) {
		if part, err = parts.NextPart(); errors.Is(err, io.EOF) {
			return nil, nil, io.EOF
		} else if err != nil {
			return nil, nil, errForm
		}
		if name := part.FileName(); name != "" {
			return part, &service.Upload{Name: fileName(name), Type: part.Header.Get("Content-Type"), Body: part}, nil
		}
		return part, nil, nil
	}
	var first *service.Upload
	for n := 0; first == nil; n++ {
		part, file, err := next()
		if errors.Is(err, io.EOF) {
			break // the operator chose no file
		} else if err != nil || n == maxFields {
			return errForm
		}
		if first = file; first != nil {
			break
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if err != nil || len(text) > maxField {
			return errForm
		}
		r.Values.Set(part.FormName(), string(text))
	}
	if !same(r.Values.Get("csrf"), x.session.csrf) {
		return errCSRF
	}
	r.NextFile = func() (file *service.Upload, err error) {
		if file, first = first, nil; file != nil {
			return file, nil
		}
		if _, file, err = next(); err == nil && file == nil {
			err = errForm // a field after the files
		}
		return file, err
	}
	return nil
}

// fileName returns the name of an uploaded file without the folders that some browsers send.
func fileName(name string) string { return path.Base(strings.ReplaceAll(name, `\`, "/")) }
