package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

const (
	typeJSON       = "application/json"
	typeMergePatch = "application/merge-patch+json"
	typeLines      = "application/x-ndjson"
)

// hasMedia checks Content-Type. want is the media type without parameters.
func (x *exchange) hasMedia(want string) error {
	media, params, err := mime.ParseMediaType(x.in.Header.Get("Content-Type"))
	charset := params["charset"] // JSON defines no charset, but many clients send utf-8
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
	return &refusal{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "", reason, errcode.Invalid}
}

// readBody reads at most limit bytes and charges memory for processing them.
func (x *exchange) readBody(limit int64) ([]byte, error) {
	body, err := web.ReadBody(x.out, x.in, limit, &bodyErrors)
	switch {
	case err == error(errLength): //nolint:errorlint // as bodyErrors has it
		err = &tooLong{limit, x.in.ContentLength}
	case err == nil && len(body) > smallBytes:
		err = web.ChargeMemory(x.in, workCopies*int64(len(body)))
	}
	return body, err
}

// bodiless rejects a DELETE with a body, because its client believes that the body is a precondition.
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
