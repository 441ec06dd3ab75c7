package web

import (
	"net/url"
	"strings"

	"holdfast/internal/errcode"
)

// errPath refuses an invalid escape, which has no unambiguous meaning.
var errPath = errcode.New(errcode.Invalid, "malformed path: check the percent-encoding")

// Segments splits a raw path and decodes its segments: "/a%2Fb//.." yields "a/b", "" and "..". It returns
// errcode.Invalid for a missing leading slash or an invalid escape.
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
