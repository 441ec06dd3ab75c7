package sigv4

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Limits of what a stranger can make the server process. S3 allows 8 KiB of headers
// and keys of 1,024 bytes, which are 3 KiB when every byte is escaped.
const (
	maxTarget        = 16 << 10 // bytes of the request target
	maxAuthorization = 12 << 10 // bytes of the Authorization header
	maxSignedHeaders = 256
	maxHeaderBytes   = 64 << 10 // of all signed headers
	maxKeyID         = 128
	maxRegion        = 64
)

// Request is the part of an HTTP request that a signature covers.
type Request struct {
	Method string
	// Target is path and query, byte for byte as they were in the request line.
	Target string
	// Host is the Host header as the client sent it, with its port.
	Host   string
	Header http.Header
	// ContentLength is that of the framed body, or -1 if it is not known
	// (Transfer-Encoding: chunked).
	ContentLength int64
}

// FromHTTP returns the Request of a request that net/http has read.
func FromHTTP(r *http.Request) Request {
	target := r.RequestURI
	// A request may name its host in the target: http://host/path.
	if _, rest, ok := strings.Cut(target, "://"); ok && !strings.HasPrefix(target, "/") {
		target = "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			target += strings.TrimPrefix(rest[i:], "/")
		}
	}
	return Request{Method: r.Method, Target: target, Host: r.Host, Header: r.Header, ContentLength: r.ContentLength}
}

// HasCredentials reports whether the request is signed in any way, also
// in one that Verify refuses. A request without credentials is anonymous.
func (r Request) HasCredentials() bool {
	_, query, _ := strings.Cut(r.Target, "?")
	return len(r.Header["Authorization"]) > 0 || isPresigned(query) || isVersion2(query)
}

// ClaimedKeyID returns the access key with which the request claims to be signed, or "".
// Nothing is verified.
func (r Request) ClaimedKeyID() string {
	_, _, c, _ := r.parse() //nolint:dogsled // the claim has what could be parsed
	return c.keyID
}

// header returns the value of a header as it is signed: without space at the
// ends, sequences of spaces as one space, several values joined by a comma.
func (r Request) header(name string) (string, bool) {
	values := r.Header[http.CanonicalHeaderKey(name)]
	switch {
	case name == "host":
		return collapse(r.Host), true
	case len(values) > 1:
		all := make([]string, len(values))
		for i, v := range values {
			all[i] = collapse(v)
		}
		return strings.Join(all, ","), true
	case len(values) == 1:
		return collapse(values[0]), true
	// net/http removes these two from the header of some requests.
	case name == "content-length" && r.ContentLength >= 0:
		return strconv.FormatInt(r.ContentLength, 10), true
	case name == "transfer-encoding" && r.ContentLength < 0:
		return "chunked", true
	}
	return "", false
}

func collapse(value string) string {
	value = strings.Trim(value, " \t")
	if !strings.Contains(value, "  ") {
		return value
	}
	return string(slices.CompactFunc([]byte(value), func(a, b byte) bool { return a == ' ' && b == ' ' }))
}

// single returns a header that may be there once.
func single(h http.Header, name string) (value string, present, ok bool) {
	values := h[http.CanonicalHeaderKey(name)]
	switch len(values) {
	case 0:
		return "", false, true
	case 1:
		return strings.Trim(values[0], " \t"), true, true
	}
	return "", true, false
}
