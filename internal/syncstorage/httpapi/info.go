package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	ss "holdfast/internal/syncstorage"
)

func (h *Handler) collections(q *request) error {
	cs, err := h.Service.Collections(q.Context(), q.owner, q.target.If)
	if err != nil {
		return err
	}
	b := []byte{'{'}
	for i, c := range cs.Stamps {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, c.Name)
		b = append(b, ':')
		b = c.Modified.Append(b)
	}
	read(q, cs.Modified, len(cs.Stamps))
	return send(q, http.StatusOK, append(b, '}'))
}

// perCollection answers with a number for each collection.
func (h *Handler) perCollection(q *request, number func([]byte, ss.CollectionUsage) []byte) error {
	u, err := h.Service.Usage(q.Context(), q.owner, q.target.If, q.target.Now)
	if err != nil {
		return err
	}
	b, n := []byte{'{'}, 0
	for _, c := range u.Collections {
		if c.Records == 0 {
			continue
		}
		if n > 0 {
			b = append(b, ',')
		}
		b = appendString(b, c.Name)
		b = append(b, ':')
		b = number(b, c)
		n++
	}
	read(q, u.Modified, n)
	return send(q, http.StatusOK, append(b, '}'))
}

func (h *Handler) counts(q *request) error {
	return h.perCollection(q, func(b []byte, c ss.CollectionUsage) []byte {
		return strconv.AppendInt(b, c.Records, 10)
	})
}

func (h *Handler) usage(q *request) error {
	return h.perCollection(q, func(b []byte, c ss.CollectionUsage) []byte {
		return appendKB(b, c.Bytes)
	})
}

// quota answers [used, limit] in kilobytes; the limit is null unless it is
// enforced.
func (h *Handler) quota(q *request) error {
	u, err := h.Service.Usage(q.Context(), q.owner, q.target.If, q.target.Now)
	if err != nil {
		return err
	}
	b := appendKB([]byte{'['}, u.Bytes())
	if limit := h.Service.Quota(); limit.Enforce {
		b = append(b, ',')
		b = appendKB(b, limit.Limit)
		b = append(b, ']')
	} else {
		b = append(b, ",null]"...)
	}
	read(q, u.Modified, -1)
	return send(q, http.StatusOK, b)
}

// configuration answers the limits; it needs no credentials.
func (h *Handler) configuration(q *request) error {
	l := h.Service.Limits("")
	b := []byte{'{'}
	for i, f := range []struct {
		name  string
		value int64
	}{
		{"max_post_bytes", l.MaxPostBytes},
		{"max_post_records", l.MaxPostRecords},
		{"max_record_payload_bytes", l.MaxRecordPayloadBytes},
		{"max_request_bytes", l.MaxRequestBytes},
		{"max_total_bytes", l.MaxTotalBytes},
		{"max_total_records", l.MaxTotalRecords},
		{"max_quota_limit", l.MaxQuotaLimit},
	} {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLimit(b, f.name, f.value)
	}
	b = appendOverrides(b, l)
	read(q, 0, -1)
	return send(q, http.StatusOK, append(b, '}'))
}

func appendLimit(b []byte, name string, value int64) []byte {
	b = appendString(b, name)
	b = append(b, ':')
	return strconv.AppendInt(b, value, 10)
}

// appendOverrides appends the limits of single collections, those that differ.
func appendOverrides(b []byte, l ss.Limits) []byte {
	if len(l.Collections) == 0 {
		return b
	}
	b = append(b, `,"collections":{`...)
	for i, name := range slices.Sorted(maps.Keys(l.Collections)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
		b = append(b, ":{"...)
		of := l.For(name)
		b = appendLimit(b, "max_post_bytes", of.MaxPostBytes)
		b = append(b, ',')
		b = appendLimit(b, "max_record_payload_bytes", of.MaxRecordPayloadBytes)
		b = append(b, ',')
		b = appendLimit(b, "max_request_bytes", of.MaxRequestBytes)
		b = append(b, '}')
	}
	return append(b, '}')
}
