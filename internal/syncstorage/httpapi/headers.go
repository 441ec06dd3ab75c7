package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/web"
)

// Conditions declares the condition headers, which all paths with data apply.
func Conditions(_ *http.Request, at web.Address) web.Conditions {
	if parseRoute(at.Path).resource == infoConfiguration {
		return web.Conditions{}
	}
	return web.Conditions{Applied: []string{"X-If-Modified-Since", "X-If-Unmodified-Since"}}
}

// precondition reads the condition headers. At most one may be set.
func precondition(h http.Header) (p ss.Precondition, err error) {
	if p.ModifiedSince, err = moment(h, "X-If-Modified-Since"); err != nil {
		return p, err
	}
	if p.UnmodifiedSince, err = moment(h, "X-If-Unmodified-Since"); err != nil {
		return p, err
	}
	if p.ModifiedSince.Set && p.UnmodifiedSince.Set {
		return p, errcode.New(errcode.Invalid, "X-If-Modified-Since and X-If-Unmodified-Since are mutually exclusive")
	}
	return p, nil
}

// moment reads a header in seconds, with two decimals.
func moment(h http.Header, name string) (ts ss.Optional[ss.Timestamp], err error) {
	values := h.Values(name)
	if len(values) == 0 {
		return ts, nil
	}
	v, ok := ss.ParseTimestamp(strings.TrimSpace(values[0]))
	if !ok || len(values) > 1 {
		return ts, errcode.Newf(errcode.Invalid, "%s must be a single decimal number of seconds", name)
	}
	return ss.Some(v), nil
}

// declared reads the sizes that a client announces before it sends a batch.
func declared(h http.Header) (d ss.Declared, err error) {
	for _, f := range [...]struct {
		name string
		into *ss.Optional[int64]
	}{
		{"X-Weave-Records", &d.Records},
		{"X-Weave-Bytes", &d.Bytes},
		{"X-Weave-Total-Records", &d.TotalRecords},
		{"X-Weave-Total-Bytes", &d.TotalBytes},
	} {
		values := h.Values(f.name)
		if len(values) == 0 {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(values[0]), 10, 32)
		if err != nil || len(values) > 1 {
			return d, errcode.Newf(errcode.Invalid, "%s must be a single whole number", f.name)
		}
		*f.into = ss.Some(int64(n))
	}
	return d, nil
}

const (
	typeJSON     = "application/json"
	typeNewlines = "application/newlines"
	typeText     = "text/plain" // sent by old clients with JSON
)

// mediaType ignores parameters such as charset.
func mediaType(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
