package buckets

import (
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// UserPrefix begins the names of user metadata in Object.Headers.
const UserPrefix = "m-"

// S3's limits in bytes.
const (
	MaxUserMetadata = 2048 // names and values of user metadata
	MaxHeaders      = 8192 // names and values of all headers
)

var (
	ErrMetadataSize = errcode.New(errcode.Invalid, "the user metadata has more than 2,048 bytes")
	ErrHeadersSize  = errcode.New(errcode.Invalid, "the headers have more than 8,192 bytes")
	ErrMetadataName = errcode.New(errcode.Invalid, "the name of user metadata is not the name of a header")
)

// CheckMetadata applies the rules for an object that an S3 client writes to the content type and the headers.
func CheckMetadata(contentType string, headers map[string]string) error {
	user, all := 0, len(contentType)
	for name, value := range headers {
		all += len(name) + len(value)
		if own, ok := strings.CutPrefix(name, UserPrefix); ok {
			if !IsHeaderName(own) {
				return ErrMetadataName
			}
			user += len(own) + len(value)
		}
	}
	switch {
	case all > MaxHeaders:
		return ErrHeadersSize
	case user > MaxUserMetadata:
		return ErrMetadataSize
	}
	return nil
}

// WithoutFraming removes aws-chunked from a Content-Encoding. It describes a body in chunks, not the object.
func WithoutFraming(encoding string) string {
	codings := slices.DeleteFunc(strings.Split(encoding, ","), func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "aws-chunked") })
	return strings.TrimSpace(strings.Join(codings, ","))
}
