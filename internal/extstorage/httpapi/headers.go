package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

// precondition reads the condition headers. revision comes from the body, query or header.
func (x *exchange) precondition(revision ext.Optional[int64]) (g ext.Precondition, err error) {
	g.Revision = ext.Optional[ext.Revision]{Value: ext.Revision(revision.Value), Set: revision.Set}
	if values := x.in.Header.Values("If-Match"); len(values) > 0 {
		if g.Match, err = ext.ParseIfMatch(strings.Join(values, ",")); err != nil {
			return g, under("/if-match", err)
		}
	}
	if values := x.in.Header.Values("If-None-Match"); len(values) > 0 {
		if g.NoneMatch, err = ext.ParseIfNoneMatch(strings.Join(values, ",")); err != nil {
			return g, under("/if-none-match", err)
		}
	}
	return g, nil
}

// revisionHeader reads If-Revision-Match.
func revisionHeader(h http.Header) (n ext.Optional[int64], err error) {
	values := h.Values("If-Revision-Match")
	if len(values) == 0 {
		return n, nil
	}
	i, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || len(values) > 1 || i < 0 || strconv.FormatInt(i, 10) != values[0] {
		return n, invalid("/if-revision-match", "must be a single revision in digits, e.g. 3")
	}
	return ext.Some(i), nil
}

const maxIdempotencyKey = 255

// envelopeLevels is how deep a value is in the body of a batch: {"ops": [{"value": …}]}.
const envelopeLevels = 3

// idempotencyKey returns nil without the header. The caller has read all members of the body, so the values in it are within
// their limits.
func (x *exchange) idempotencyKey() (*ext.IdempotencyKey, error) {
	values := x.in.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return nil, nil
	}
	outside := func(r rune) bool { return r < 0x21 || r > 0x7e }
	if key := values[0]; len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, outside) {
		return nil, invalid("/idempotency-key", "must be a single key with 1 to 255 printable ASCII characters without spaces")
	}
	body, err := canonjson.ParseAround(x.body, envelopeLevels)
	if err != nil {
		return nil, err
	}
	return &ext.IdempotencyKey{Key: values[0], Request: web.Fingerprint(x.in, x.path, body, recordConditions.Applied...)}, nil
}
