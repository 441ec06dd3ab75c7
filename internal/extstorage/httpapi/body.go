package httpapi

import (
	"bytes"
	"mime"
	"net/http"

	"holdfast/internal/fault"
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
	media, _, err := mime.ParseMediaType(x.in.Header.Get("Content-Type"))
	encoding := x.in.Header.Get("Content-Encoding")
	if err != nil || media != want || encoding != "" && encoding != "identity" {
		return &refusal{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "", "the body must be " + want + ", not encoded", fault.Invalid}
	}
	return nil
}

// readBody reads a body of at most limit bytes. One that is longer is refused
// before it is looked at.
func (x *exchange) readBody(limit int64) ([]byte, error) {
	if x.in.ContentLength > limit {
		return nil, errLength
	}
	var b bytes.Buffer
	// ReadFrom wants MinRead to spare, or it grows the buffer to meet the end.
	b.Grow(int(max(x.in.ContentLength, 0)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(x.out, x.in.Body, limit)); err != nil {
		return nil, bodyError(err)
	}
	return b.Bytes(), nil
}
