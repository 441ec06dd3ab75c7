package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// precondition reads X-If-Modified-Since and X-If-Unmodified-Since, of which a
// request may have one.
func precondition(h http.Header) (p ss.Precondition, err error) {
	if p.ModifiedSince, err = moment(h, "X-If-Modified-Since"); err != nil {
		return p, err
	}
	if p.UnmodifiedSince, err = moment(h, "X-If-Unmodified-Since"); err != nil {
		return p, err
	}
	if p.ModifiedSince.Set && p.UnmodifiedSince.Set {
		return p, fault.New(fault.Invalid, "X-If-Modified-Since and X-If-Unmodified-Since exclude each other")
	}
	return p, nil
}

func moment(h http.Header, name string) (ts ss.Optional[ss.Timestamp], err error) {
	values := h.Values(name)
	if len(values) == 0 {
		return ts, nil
	}
	v, ok := ss.ParseTimestamp(strings.TrimSpace(values[0]))
	if !ok || len(values) > 1 {
		return ts, fault.Newf(fault.Invalid, "%s is not one number of seconds", name)
	}
	return ss.Some(v), nil
}

// declared reads the X-Weave headers with which a client says what it sends.
func declared(h http.Header) (d ss.Declared, err error) {
	for _, f := range []struct {
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
			return d, fault.Newf(fault.Invalid, "%s is not one whole number", f.name)
		}
		*f.into = ss.Some(int64(n))
	}
	return d, nil
}

// Media types of bodies.
const (
	typeJSON     = "application/json"
	typeNewlines = "application/newlines"
	typeText     = "text/plain" // of old clients, who mean JSON
)

// mediaType is the Content-Type without parameters, in lower case.
func mediaType(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// negotiate chooses the media type of a listing by Accept: the one with the
// greater quality, JSON when they are equal or nothing is said. ok is false
// when neither is acceptable.
func negotiate(h http.Header) (media string, ok bool) {
	accept := strings.Join(h.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return typeJSON, true
	}
	asJSON, asLines := quality(accept, typeJSON), quality(accept, typeNewlines)
	switch {
	case asJSON <= 0 && asLines <= 0:
		return "", false
	case asLines > asJSON:
		return typeNewlines, true
	}
	return typeJSON, true
}

// quality is what Accept gives a media type: that of its most specific range,
// 0 when none matches.
func quality(accept, media string) float64 {
	q, best := 0.0, 0
	for part := range strings.SplitSeq(accept, ",") {
		params := strings.Split(part, ";")
		specific := 0
		switch strings.ToLower(strings.TrimSpace(params[0])) {
		case media:
			specific = 3
		case "application/*":
			specific = 2
		case "*/*":
			specific = 1
		}
		if specific > best {
			q, best = qvalue(params[1:]), specific
		}
	}
	return q
}

// qvalue is the q parameter of a media range; one that is malformed counts as
// not acceptable.
func qvalue(params []string) float64 {
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}
