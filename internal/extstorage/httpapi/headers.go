package httpapi

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"

	ext "holdfast/internal/extstorage"
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

// idempotencyKey returns nil without the header. The hash over the request lets a store detect a reused key.
func (x *exchange) idempotencyKey() (*ext.IdempotencyKey, error) {
	values := x.in.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return nil, nil
	}
	outside := func(r rune) bool { return r < 0x21 || r > 0x7e }
	if key := values[0]; len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, outside) {
		return nil, invalid("/idempotency-key", "must be a single key with 1 to 255 printable ASCII characters without spaces")
	}
	hash := sha256.New()
	for _, part := range []string{
		x.route.resource.String(), string(x.route.namespace), string(x.route.key),
		strings.Join(x.in.Header.Values("If-Match"), ","), strings.Join(x.in.Header.Values("If-None-Match"), ","), string(x.body),
	} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		hash.Write(size[:]) // length prefix: parts cannot run into each other
		hash.Write([]byte(part))
	}
	return &ext.IdempotencyKey{Key: values[0], Request: [32]byte(hash.Sum(nil))}, nil
}
