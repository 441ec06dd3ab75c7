package sigv4

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// These are limits for unauthenticated input. S3 allows 8 KiB of headers and 1,024-byte keys, which take 3 KiB fully
// escaped.
const (
	maxTarget        = 16 << 10 // bytes
	maxAuthorization = 12 << 10 // bytes
	maxSignedHeaders = 256
	maxHeaderBytes   = 64 << 10
	maxKeyID         = 128
	maxRegion        = 64
)

// Request is the part of an HTTP request that a signature covers.
type Request struct {
	Method string
	Target string // raw path and query
	Host   string // as the client sent it
	// HostBucket is the bucket in the host, for Signature Version 2; "" if the path contains the bucket.
	HostBucket string
	Header     http.Header
	// ContentLength is the length of the framed body, or -1 (Transfer-Encoding: chunked).
	ContentLength int64
}

// FromHTTP returns the request as net/http read it. Call it before anything changes the request.
func FromHTTP(r *http.Request) Request {
	target := r.RequestURI
	// The target may include the host: http://host/path.
	if _, rest, ok := strings.Cut(target, "://"); ok && !strings.HasPrefix(target, "/") {
		target = "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			target += strings.TrimPrefix(rest[i:], "/")
		}
	}
	return Request{Method: r.Method, Target: target, Host: r.Host, Header: r.Header, ContentLength: r.ContentLength}
}

// HasCredentials reports whether the request is signed in any way, supported or not. Otherwise it is anonymous.
func (r Request) HasCredentials() bool {
	_, query, _ := strings.Cut(r.Target, "?")
	return len(r.Header["Authorization"]) > 0 || isPresigned(query) || isVersion2(query)
}

// ClaimedKeyID returns the unverified access key, or "".
func (r Request) ClaimedKeyID() string {
	_, _, c, _ := r.parse() //nolint:dogsled // the claim has what could be parsed
	return c.keyID
}

// header returns a header as signed: trimmed, with single spaces, values joined by commas.
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
	// net/http removes content-length and transfer-encoding from some requests.
	case name == "content-length" && r.ContentLength >= 0:
		return strconv.FormatInt(r.ContentLength, 10), true
	case name == "transfer-encoding" && r.ContentLength < 0:
		return "chunked", true
	}
	return "", false
}

// collapse trims a header and joins its spaces, as the specification's Trimall does.
func collapse(value string) string {
	value = strings.Trim(value, " \t")
	if !strings.Contains(value, "  ") {
		return value
	}
	return string(slices.CompactFunc([]byte(value), func(a, b byte) bool { return a == ' ' && b == ' ' }))
}

// single returns a header's only value; ok is false if it occurs several times.
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
