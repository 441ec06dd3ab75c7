package httpapi

import (
	"net/http"
	"strconv"

	ss "holdfast/internal/syncstorage"
)

// collections answers GET info/collections: the stamps.
func (h *Handler) collections(x *exchange) error {
	cs, err := h.Service.Collections(x.in.Context(), x.owner, x.ask.If)
	if err != nil {
		return err
	}
	b := []byte{'{'}
	for i, c := range cs.Stamps {
		b = c.Modified.Append(appendKey(b, i, c.Name))
	}
	x.modified(cs.Modified)
	x.records(len(cs.Stamps))
	return x.answer(http.StatusOK, append(b, '}'))
}

// counts answers GET info/collection_counts: the numbers of records.
func (h *Handler) counts(x *exchange) error {
	return h.perCollection(x, func(b []byte, c ss.CollectionUsage) []byte {
		return strconv.AppendInt(b, c.Records, 10)
	})
}

// usage answers GET info/collection_usage: KB.
func (h *Handler) usage(x *exchange) error {
	return h.perCollection(x, func(b []byte, c ss.CollectionUsage) []byte {
		return appendKB(b, c.Bytes)
	})
}

// perCollection leaves out empty collections.
func (h *Handler) perCollection(x *exchange, number func([]byte, ss.CollectionUsage) []byte) error {
	u, err := h.Service.Usage(x.in.Context(), x.owner, x.ask.If, x.ask.Now)
	if err != nil {
		return err
	}
	b, n := []byte{'{'}, 0
	for _, c := range u.Collections {
		if c.Records > 0 {
			b = number(appendKey(b, n, c.Name), c)
			n++
		}
	}
	x.modified(u.Modified)
	x.records(n)
	return x.answer(http.StatusOK, append(b, '}'))
}

// quota answers GET info/quota: used KB and the quota, null unless a quota is enforced.
func (h *Handler) quota(x *exchange) error {
	u, err := h.Service.Usage(x.in.Context(), x.owner, x.ask.If, x.ask.Now)
	if err != nil {
		return err
	}
	b := appendKB([]byte{'['}, u.Bytes())
	if q := h.Service.Quota().For(u.Quota); q.Enforce && q.User > 0 {
		b = append(appendKB(append(b, ','), q.User), ']')
	} else {
		b = append(b, ",null]"...)
	}
	x.modified(u.Modified)
	return x.answer(http.StatusOK, b)
}
