package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"holdfast/internal/fault"
	"holdfast/internal/web"
)

// Media types.
const (
	typeJSON       = "application/json"
	typeMergePatch = "application/merge-patch+json"
	typeLines      = "application/x-ndjson"
)

// hasMedia refuses a body of another type than the resource takes, or an encoded
// one.
func (x *exchange) hasMedia(want string) error {
	media, params, err := mime.ParseMediaType(x.in.Header.Get("Content-Type"))
	charset := params["charset"] // JSON has none; many send the only one that it could be
	encoding := x.in.Header.Get("Content-Encoding")
	var reason string
	switch {
	case err != nil || media != want:
		reason = "unsupported content type: send the header Content-Type: " + want
	case charset != "" && !strings.EqualFold(charset, "utf-8"):
		reason = "unsupported charset: send the body in UTF-8"
	case encoding != "" && encoding != "identity":
		reason = "unsupported content encoding: send the body without Content-Encoding"
	default:
		return nil
	}
	return &refusal{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "", reason, fault.Invalid}
}

// readBody reads a body of at most limit bytes, and charges the request for the work
// on it. One that is longer is refused before it is looked at.
func (x *exchange) readBody(limit int64) ([]byte, error) {
	body, err := web.ReadBody(x.out, x.in, limit, &bodyErrors)
	switch {
	case err == error(errLength): //nolint:errorlint // as bodyErrors has it
		err = &tooLong{limit, x.in.ContentLength}
	case err == nil && len(body) > smallBytes:
		err = web.ChargeMemory(x.out, x.in, workCopies*int64(len(body)))
	}
	return body, err
}

// bodiless refuses a deletion that has a body: who sends one believes that what
// is in it guards the record.
func (x *exchange) bodiless() error {
	if x.in.Method != http.MethodDelete {
		return nil
	}
	switch n, err := x.in.Body.Read(make([]byte, 1)); {
	case n > 0:
		return invalid("", "must be empty: send ifRevision in the query of a DELETE")
	case err != nil && !errors.Is(err, io.EOF):
		return bodyErrors.Of(err)
	}
	return nil
}
