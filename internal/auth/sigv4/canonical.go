package sigv4

import (
	"slices"
	"strings"
)

// canonicalPaths returns a path as received and, if that differs, as S3 would encode its key. Amazon signs the second
// form: its PUT example sends /test$file.text and signs /test%24file.text. Both forms name the same key, so accepting
// either is safe.
func canonicalPaths(path string) ([]string, error) {
	decoded, ok := unescape(path, false)
	if !ok {
		return nil, refuse(MalformedURI, "the path of the request has an invalid percent-encoding")
	}
	encoded := string(appendEscaped(make([]byte, 0, len(path)+16), decoded, true))
	if encoded == path {
		return []string{path}, nil
	}
	return []string{encoded, path}, nil
}

type parameter struct{ name, value string }

// parseQuery treats a plus sign as a space, like S3.
func parseQuery(query string) ([]parameter, error) {
	if query == "" {
		return nil, nil
	}
	params := make([]parameter, 0, 1+strings.Count(query, "&"))
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		var p parameter
		var ok1, ok2 bool
		p.name, ok1 = unescape(name, true)
		p.value, ok2 = unescape(value, true)
		if !ok1 || !ok2 {
			return nil, refuse(MalformedURI, "the query of the request has an invalid percent-encoding")
		}
		params = append(params, p)
	}
	return params, nil
}

// canonicalQuery encodes parameters and sorts them by encoded name and value. It omits a presigned URL's signature.
func canonicalQuery(params []parameter, presigned bool) string {
	if len(params) == 0 {
		return ""
	}
	encoded := make([]parameter, 0, len(params))
	size := 0
	for _, p := range params {
		if presigned && p.name == "X-Amz-Signature" {
			continue
		}
		p = parameter{string(appendEscaped(nil, p.name, false)), string(appendEscaped(nil, p.value, false))}
		encoded = append(encoded, p)
		size += len(p.name) + len(p.value) + 2
	}
	slices.SortFunc(encoded, func(a, b parameter) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	text := make([]byte, 0, size)
	for i, p := range encoded {
		if i > 0 {
			text = append(text, '&')
		}
		text = append(text, p.name...)
		text = append(text, '=')
		text = append(text, p.value...)
	}
	return string(text)
}

// canonicalHeaders treats a signed header that was not sent as a mismatch, like S3. The usual cause is a presigned
// URL used without its Content-Type.
func (r Request) canonicalHeaders(c claim) (string, error) {
	var text []byte
	for _, name := range c.signed {
		value, ok := r.header(name)
		if !ok {
			e := mismatched(c, "")
			e.Message, e.Headers = "the request does not have all the headers that are signed", []string{name}
			return "", e
		}
		text = append(text, name...)
		text = append(text, ':')
		text = append(text, value...)
		text = append(text, '\n')
		if len(text) > maxHeaderBytes {
			return "", refuse(MalformedHeader, "the signed headers are longer than %d bytes", maxHeaderBytes)
		}
	}
	return string(text), nil
}

// unescape decodes percent encoding; ok is false if it is malformed.
func unescape(s string, plusIsSpace bool) (string, bool) {
	if !strings.Contains(s, "%") && !(plusIsSpace && strings.Contains(s, "+")) {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%':
			if i+2 >= len(s) {
				return "", false
			}
			high, low := unhex(s[i+1]), unhex(s[i+2])
			if high > 15 || low > 15 {
				return "", false
			}
			b = append(b, high<<4|low)
			i += 2
		case c == '+' && plusIsSpace:
			b = append(b, ' ')
		default:
			b = append(b, c)
		}
	}
	return string(b), true
}

// unhex returns a digit's value, or 255.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// appendEscaped encodes all bytes except RFC 3986's unreserved characters, like the specification's UriEncode.
func appendEscaped(b []byte, s string, keepSlash bool) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '.', c == '_', c == '~', c == '/' && keepSlash:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}
