package httpapi

import (
	"net/http"
	"strconv"
	"strings"
)

// layout is the format of a list.
type layout struct {
	media                     string
	open, between, after, end string
}

var (
	// asJSON is a JSON array.
	asJSON = layout{media: typeJSON, open: "[", between: ",", end: "]"}
	// asLines is a record per line, each ended by a newline.
	asLines = layout{media: typeNewlines, after: "\n"}
)

// negotiate chooses the list's format from Accept. ok is false if the client accepts neither.
func negotiate(h http.Header) (l layout, ok bool) {
	accept := strings.Join(h.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return asJSON, true
	}
	json, lines := quality(accept, typeJSON), quality(accept, typeNewlines)
	if lines > json {
		return asLines, true
	}
	return asJSON, json > 0
}

// quality returns the client's preference for a media type: that of the most specific range (RFC 9110, section 12.5.1).
func quality(accept, media string) float64 {
	q, best := 0.0, 0
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		specific := 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case media:
			specific = 3
		case "application/*":
			specific = 2
		case "*/*":
			specific = 1
		}
		if specific > best {
			q, best = qvalue(params), specific
		}
	}
	return q
}

// qvalue returns 1 if the parameter q is missing or malformed.
func qvalue(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err == nil && 0 <= q && q <= 1 {
			return q
		}
		return 0
	}
	return 1
}
