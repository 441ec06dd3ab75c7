package console

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/web"
	"holdfast/internal/web/rate"
)

// Maximum form size without files, in bytes.
const (
	maxForm   = 8 << 20
	maxSignIn = 16 << 10 // unauthenticated
)

var errForm = errcode.New(errcode.Invalid, "the form is malformed")

// readForm parses a URL-encoded form and charges memory for the raw and the decoded body.
func (x *exchange) readForm(limit int64) error {
	if kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return errForm
	}
	if x.r.ContentLength > limit {
		return errcode.Newf(errcode.TooLarge, "the form is larger than %d bytes", limit)
	}
	if err := web.ChargeMemory(x.r, 4*max(x.r.ContentLength, 0)); err != nil {
		return err
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, max(x.r.ContentLength, 0))
	if x.r.ParseForm() != nil {
		return errForm
	}
	for name, values := range x.r.PostForm { // browsers send lines with CR LF
		for i, v := range values {
			x.r.PostForm[name][i] = strings.ReplaceAll(v, "\r\n", "\n")
		}
	}
	return restoreExact(x.r.PostForm)
}

// readPost reads a signed-in operator's form and checks its CSRF token.
func (x *exchange) readPost() error {
	if err := x.readForm(maxForm); err != nil {
		return err
	}
	if !rate.Same(x.r.PostForm.Get("csrf"), x.session.csrf) {
		return errCSRF
	}
	return nil
}

const (
	maxFields = 50       // of an upload form, without its files
	maxField  = 64 << 10 // bytes per non-file field

	maxUploadFields = 512 << 10 // total of all non-file fields; also the charge for a file buffer
)

// readUpload reads an upload form's fields up to the first file and checks the CSRF token among them; so the fields
// must come before the files. The action reads the files with r.NextFile, one after the other, without a temporary
// copy. memory is the action's need in bytes (service.Action.Memory), charged besides the fields.
func (x *exchange) readUpload(r *service.PageRequest, memory int64) error {
	parts, err := x.r.MultipartReader()
	if err != nil {
		return errForm
	}
	web.StreamBody(x.r)
	if err := web.ChargeMemory(x.r, 2*maxUploadFields+memory); err != nil {
		return err
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
	for n, size := 0, 0; first == nil; n++ {
		part, file, err := next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil || n == maxFields {
			return errForm
		}
		if first = file; first != nil {
			break
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if size += len(text); err != nil || len(text) > maxField || size > maxUploadFields {
			return errForm
		}
		r.Values.Set(part.FormName(), string(text))
	}
	if err := restoreExact(r.Values); err != nil {
		return err
	}
	if !rate.Same(r.Values.Get("csrf"), x.session.csrf) {
		return errCSRF
	}
	r.NextFile = func() (file *service.Upload, err error) {
		if file, first = first, nil; file != nil {
			return file, nil
		}
		if _, file, err = next(); err == nil && file == nil {
			err = errForm
		}
		return file, err
	}
	return nil
}

// fileName drops folders from a client's file name, with Unix or Windows separators.
func fileName(name string) string { return path.Base(strings.ReplaceAll(name, `\`, "/")) }

// sendCheck answers an action that validates a form while the operator types: a sentence for the form, and messages
// that console.js moves to their fields.
func (x *exchange) sendCheck(notice string, err error) {
	p, state := &page{}, service.OK
	if err != nil {
		notice, state = Message(err), service.Wrong
	}
	problems := fieldErrors(err)
	p.notice(state, upper(cmp.Or(count(problems), notice))+".")
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		p.element("p", upper(problems[name])+".", "class", "error", "data-field", name)
	}
	send(x.w, http.StatusOK, "text/html; charset=utf-8", p.String())
}

// fieldErrors returns an error's messages by field name, or nil.
func fieldErrors(err error) map[string]string {
	if e, ok := errors.AsType[*service.FieldErrors](err); ok {
		return e.By
	}
	if e, ok := errors.AsType[*operate.InputError](err); ok {
		return map[string]string{e.Input: e.Reason}
	}
	return nil
}

// count returns e.g. "2 fields to correct", or "" without errors.
func count(problems map[string]string) string {
	if len(problems) == 0 {
		return ""
	}
	return service.Count(int64(len(problems)), "field") + " to correct"
}
