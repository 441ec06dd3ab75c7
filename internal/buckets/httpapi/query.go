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
	"holdfast/internal/optional"
)

// parseQuery rejects unknown and repeated parameters.
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

// unknownParameter lists the known parameters.
func unknownParameter(params []string) error {
	if len(params) == 0 {
		return invalid("unknown parameter in the query: this request takes none")
	}
	return invalid("unknown parameter in the query: expected " + strings.Join(params, ", "))
}

// limit returns the page size.
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

// isRead reports whether the method changes nothing.
func (x *exchange) isRead() bool {
	return x.in.Method == http.MethodGet || x.in.Method == http.MethodHead
}

// parseConditions parses the headers that Conditions declares.
func (x *exchange) parseConditions() (err error) {
	c := &x.parsed.condition
	if !x.act.conditions {
		return nil
	}
	if c.Match, err = x.tags("If-Match"); err != nil {
		return err
	}
	if c.NoneMatch, err = x.tags("If-None-Match"); err != nil {
		return err
	}
	if c.ModifiedSince, err = x.date("If-Modified-Since"); err != nil {
		return err
	}
	c.UnmodifiedSince, err = x.date("If-Unmodified-Since")
	return err
}

// date parses a date in an HTTP format or the JSON format. It returns 0 if the header is absent. A write with a
// malformed date is rejected, because it would be unconditional. Reads ignore such a date (RFC 9110, 13.1.3 and 13.1.4).
func (x *exchange) date(name string) (buckets.Moment, error) {
	values := x.in.Header[name]
	if len(values) == 0 {
		return 0, nil
	}
	t, err := http.ParseTime(values[0])
	if err != nil {
		t, err = time.Parse(time.RFC3339, values[0])
	}
	switch {
	case err == nil && len(values) == 1 && t.Year() >= 1970:
		return max(buckets.At(t), 1), nil // 0 means no date
	case x.isRead():
		return 0, nil
	}
	return 0, invalid(name + " must be a date, e.g. Sun, 22 Nov 2026 20:15:00 GMT")
}

// parseValues parses the parameters and headers on which a bucket policy may depend.
func (x *exchange) parseValues() (err error) {
	p := &x.parsed
	p.version = x.query.Get("version")
	p.prefix, p.delimiter = x.parameter("prefix"), x.parameter("delimiter")
	if x.query.Has("limit") {
		n, err := x.limit()
		p.limit = optional.Of[int]{Value: n, Set: err == nil}
	}
	if x.act.creates {
		p.headers, err = storedHeaders(x.in.Header)
	}
	return err
}

// parameter tells an empty parameter from a missing parameter.
func (x *exchange) parameter(name string) optional.Of[string] {
	return optional.Of[string]{Value: x.query.Get(name), Set: x.query.Has(name)}
}
