package s3api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// sourcePrefix begins conditional headers that concern a copy's source.
const sourcePrefix = "X-Amz-Copy-Source-"

// These are the conditional headers that operations apply. The table of operations names the list of each operation.
var (
	allConditions    = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}
	putConditions    = []string{"If-Match", "If-None-Match"} // S3 supports no dates, and no entity tag in If-None-Match
	sourceConditions = []string{sourcePrefix + "If-Match", sourcePrefix + "If-None-Match", sourcePrefix + "If-Modified-Since", sourcePrefix + "If-Unmodified-Since"}
)

// isRead reports whether the method cannot change anything.
func (x *request) isRead() bool {
	return x.in.Method == http.MethodGet || x.in.Method == http.MethodHead
}

// isCopy reports whether the body comes from another object. A form with this field is no copy.
func (x *request) isCopy() bool { return x.op.copies && len(x.in.Header["X-Amz-Copy-Source"]) > 0 }

// parseConditions refuses a write with a conditional header that the operation does not apply, because the client
// relies on the condition. Reads ignore such headers, as RFC 9110 allows.
func (x *request) parseConditions() (err error) {
	copies := x.isCopy()
	if !x.isRead() {
		applied := web.Conditions{Applied: x.op.conditions}
		if copies {
			applied.Applied = slices.Concat(x.op.conditions, sourceConditions)
		}
		if failed, ok := errors.AsType[*web.ConditionError](applied.Check(x.in.Header)); ok {
			return errHeader(cmp.Or(strings.ToLower(failed.Header), "a conditional header"), "")
		}
	}
	if x.op.conditions != nil {
		if x.parsed.condition, err = x.condition(""); err != nil {
			return err
		}
	}
	if x.op.puts && len(x.parsed.condition.NoneMatch.Tags) > 0 {
		return errHeader("if-none-match", " with an entity tag on a write; use *")
	}
	if copies {
		x.parsed.sourceCondition, err = x.condition(sourcePrefix)
	}
	return err
}

// condition parses the conditional headers with a prefix, "" or sourcePrefix.
func (x *request) condition(prefix string) (c buckets.Condition, err error) {
	h := x.in.Header
	tags := func(name string) (t buckets.Tags, err error) {
		if t, err = buckets.ParseTags(h[prefix+name]); err != nil {
			err = invalidArgument(prefix+name, err.Error())
		}
		return t, err
	}
	date := func(name string) (buckets.Moment, error) {
		values := h[prefix+name]
		m := date(values)
		if m == 0 && len(values) > 0 && !x.isRead() {
			return 0, invalidArgument(prefix+name, "The date is malformed: expected e.g. Sun, 22 Nov 2026 20:15:00 GMT")
		}
		return m, nil // RFC 9110 (13.1.3 and 13.1.4) requires that reads ignore an invalid date
	}
	if c.Match, err = tags("If-Match"); err != nil {
		return c, err
	}
	if c.NoneMatch, err = tags("If-None-Match"); err != nil {
		return c, err
	}
	if c.ModifiedSince, err = date("If-Modified-Since"); err != nil {
		return c, err
	}
	c.UnmodifiedSince, err = date("If-Unmodified-Since")
	return c, err
}

// date parses a header with one date. 0 means that the header is absent or invalid.
func date(values []string) buckets.Moment {
	if len(values) != 1 || values[0] == "" { // formatting an error is slow
		return 0
	}
	t, err := http.ParseTime(values[0])
	if err != nil {
		if t, err = time.Parse(time.RFC3339, values[0]); err != nil {
			return 0
		}
	}
	if m := buckets.At(t); m != 0 {
		return m
	}
	return 1
}
