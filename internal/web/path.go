package web

import (
	"net/url"
	"strings"

	"holdfast/internal/errcode"
)

// errPath is the error of Segments.
var errPath = errcode.New(errcode.Invalid, "malformed path: check the percent-encoding")

// Segments splits a raw path at its slashes and decodes the segments: "/a%2Fb//.." has the
// segments "a/b", "" and "..". The path is not cleaned, and after a trailing slash the
// last segment is empty. It returns errcode.Invalid for a path that does not begin with a
// slash or has an invalid escape.
func Segments(path string) ([]string, error) {
	if path == "" || path[0] != '/' {
		return nil, errPath
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return nil, errPath
		}
		segments[i] = plain
	}
	return segments, nil
}
