package web

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holdfast/internal/canonjson"
)

// Fingerprint identifies a request that is sent again with the same idempotency key, for all services. Two requests have the
// same fingerprint if these are equal:
//
//   - the method, and the path, whatever its percent-encoding;
//   - the parameters of the query, whatever their order and percent-encoding;
//   - the body as JSON: white space, the order of members, escapes in strings and the spelling of numbers do not matter, so
//     1, 1.0 and 10e-1 are equal, and 1 and "1" are not. body is canonical, and "" without a body;
//   - the values of the named condition headers, whose lines are joined as in RFC 9110, section 5.3.
//
// Other headers, such as Content-Type and credentials, do not count. The caller stores the fingerprint with the owner of the
// key, so requests of different owners are never compared.
func Fingerprint(r *http.Request, path string, body canonjson.Value, conditions ...string) [sha256.Size]byte {
	parts := []string{r.Method, decodedPath(path), orderedQuery(r.URL.RawQuery), string(body)}
	for _, name := range conditions {
		if lines := r.Header.Values(name); len(lines) > 0 {
			parts = append(parts, name+": "+strings.Join(lines, ", "))
		}
	}
	h := sha256.New()
	for i, part := range parts {
		if i > 0 {
			_, _ = io.WriteString(h, "\n") // no part contains a line break
		}
		_, _ = io.WriteString(h, part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

var escapeSegment = strings.NewReplacer("%", "%25", "/", "%2F", "\n", "%0A")

// decodedPath decodes a raw path as far as it stays unambiguous.
func decodedPath(raw string) string {
	segments, err := Segments(raw)
	if err != nil {
		return raw
	}
	for i, s := range segments {
		segments[i] = escapeSegment.Replace(s)
	}
	return "/" + strings.Join(segments, "/")
}

// orderedQuery sorts and encodes the parameters in one way. A malformed query stays as it is.
func orderedQuery(raw string) string {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return raw
	}
	for _, values := range query {
		slices.Sort(values)
	}
	return query.Encode()
}
