package web

import (
	"net/url"
	"strings"

	"holdfast/internal/fault"
)

// errPath answers a path that cannot be split.
var errPath = fault.New(fault.Invalid, "malformed path: check the percent-encoding")

// Segments splits a raw path at its slashes and decodes what is between them:
// "/a%2Fb//.." is "a/b", "" and "..". Nothing is cleaned; a slash at the end
// makes a last segment that is empty. fault.Invalid when the path does not
// begin with a slash or has a broken escape.
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
