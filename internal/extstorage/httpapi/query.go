package httpapi

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// arguments are a request's parameters: a query, or members of an envelope.
type arguments interface {
	has(name string) bool
	text(name string) string // "" if absent
	integer(name string, minimum, maximum int64) ext.Optional[int64]
	flag(name string) bool
	fault() error
}

// query holds a URL query and its first error.
type query struct {
	values url.Values
	err    error
}

// parseQuery refuses unknown and repeated parameters.
func parseQuery(raw string, known []string) (*query, error) {
	if raw == "" {
		return &query{}, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, errQuery
	}
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, errParameter(name, known)
		case len(list) > 1:
			return nil, invalid(pointerTo(name), "occurs more than once in the query")
		}
	}
	return &query{values: values}, nil
}

var errQuery = &refusal{http.StatusBadRequest, codeInvalid, "", "the query string is malformed: percent-encode special characters and separate parameters by &", errcode.Invalid}

// errParameter names the parameters that the request takes.
func errParameter(name string, known []string) error {
	expected := ": this request takes none"
	if len(known) > 0 {
		expected = ": expected " + strings.Join(known, ", ")
	}
	if len(name) > maxEcho {
		return &refusal{http.StatusBadRequest, codeInvalid, "", "unknown query parameter" + expected, errcode.Invalid}
	}
	return invalid(pointerTo(name), "is not a query parameter of this request"+expected)
}

// Longest name to repeat in an error, in bytes.
const maxEcho = 128

// pointerTo returns "" for a name that is too long to repeat.
func pointerTo(name string) string {
	if len(name) > maxEcho {
		return ""
	}
	return canonjson.Pointer{name}.String()
}

// fault returns the first error.
func (q *query) fault() error { return q.err }

// fail notes an error for a parameter.
func (q *query) fail(name, reason string) {
	if q.err == nil {
		q.err = invalid(pointerTo(name), reason)
	}
}

func (q *query) has(name string) bool { return q.values.Has(name) }

func (q *query) text(name string) string { return q.values.Get(name) }

// integer accepts digits only, without leading zeros.
func (q *query) integer(name string, minimum, maximum int64) (n ext.Optional[int64]) {
	if !q.has(name) {
		return n
	}
	text := q.text(name)
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil || i < minimum || i > maximum || strconv.FormatInt(i, 10) != text {
		q.fail(name, notInteger(minimum, maximum))
	}
	return ext.Some(i)
}

// notInteger words the allowed range.
func notInteger(minimum, maximum int64) string {
	if maximum == math.MaxInt64 {
		return "must be a whole number of at least " + strconv.FormatInt(minimum, 10)
	}
	return "must be a whole number from " + strconv.FormatInt(minimum, 10) + " to " + strconv.FormatInt(maximum, 10)
}

// flag returns false for a missing parameter.
func (q *query) flag(name string) bool {
	text := q.text(name)
	if q.has(name) && text != "true" && text != "false" {
		q.fail(name, "must be true or false")
	}
	return text == "true"
}
