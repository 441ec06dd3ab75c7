package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/buckets"
)

func parseQuery(raw string, params []string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("the query string is malformed: percent-encode special characters and separate parameters by &")
	}
	for name, list := range values {
		switch {
		case !slices.Contains(params, name):
			return nil, unknownParameter(params)
		case len(list) > 1:
			return nil, invalid(name + " occurs more than once in the query")
		case !utf8.ValidString(list[0]) || strings.IndexByte(list[0], 0) >= 0:
			return nil, invalid(name + " is not UTF-8 or contains the character U+0000")
		}
	}
	return values, nil
}

func unknownParameter(params []string) error {
	if len(params) == 0 {
		return invalid("unknown parameter in the query: this request takes none")
	}
	return invalid("unknown parameter in the query: expected " + strings.Join(params, ", "))
}

func (x *exchange) limit() (int, error) {
	if !x.query.Has("limit") {
		return buckets.MaxPage, nil
	}
	n, err := strconv.Atoi(x.query.Get("limit"))
	if err != nil || n < 1 || n > buckets.MaxPage {
		return 0, errLimit
	}
	return n, nil
}

var conditional = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}

// noCondition rejects conditional headers on a write that ignores them, because the client relies on them.
func noCondition(h http.Header) error {
	for _, name := range conditional {
		if len(h.Values(name)) > 0 {
			return invalid(name + " is not supported here")
		}
	}
	return nil
}

func parseCondition(h http.Header) (c buckets.Condition, err error) {
	if c.Match, err = buckets.ParseTags(h.Values("If-Match")); err != nil {
		return c, err
	}
	if c.NoneMatch, err = buckets.ParseTags(h.Values("If-None-Match")); err != nil {
		return c, err
	}
	if c.ModifiedSince, err = date(h, "If-Modified-Since"); err != nil {
		return c, err
	}
	c.UnmodifiedSince, err = date(h, "If-Unmodified-Since")
	return c, err
}

// date parses a date in an HTTP format or the JSON format. It returns 0 if the header is absent. Unlike HTTP, it
// rejects a malformed date, because ignoring it would make the write unconditional.
func date(h http.Header, name string) (buckets.Moment, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return 0, nil
	}
	t, err := http.ParseTime(values[0])
	if err != nil {
		t, err = time.Parse(time.RFC3339, values[0])
	}
	if err != nil || len(values) > 1 || t.Year() < 1970 {
		return 0, invalid(name + " must be a date, e.g. Sun, 22 Nov 2026 20:15:00 GMT")
	}
	return max(buckets.At(t), 1), nil // 0 means no date
}
