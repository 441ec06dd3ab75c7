package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	ss "holdfast/internal/syncstorage"
)

// configuration answers GET info/configuration: the limits that clients obey.
func (h *Handler) configuration(x *exchange) error {
	l := h.Service.Limits("")
	b := appendLimits([]byte{'{'}, []limit{
		{"max_post_bytes", l.MaxPostBytes},
		{"max_post_records", l.MaxPostRecords},
		{"max_record_payload_bytes", l.MaxRecordPayloadBytes},
		{"max_request_bytes", l.MaxRequestBytes},
		{"max_total_bytes", l.MaxTotalBytes},
		{"max_total_records", l.MaxTotalRecords},
		{"max_quota_limit", l.MaxQuotaLimit},
		{"max_user_quota", l.MaxUserQuota},
	})
	if len(l.Collections) > 0 {
		b = append(b, `,"collections":{`...)
		b = append(appendOverrides(b, l), '}')
	}
	x.modified(0)
	return x.answer(http.StatusOK, append(b, '}'))
}

// appendOverrides appends the limits of collections that differ.
func appendOverrides(b []byte, l ss.Limits) []byte {
	for i, name := range slices.Sorted(maps.Keys(l.Collections)) {
		of := l.For(name)
		b = append(appendKey(b, i, name), '{')
		b = appendLimits(b, []limit{
			{"max_post_bytes", of.MaxPostBytes},
			{"max_record_payload_bytes", of.MaxRecordPayloadBytes},
			{"max_request_bytes", of.MaxRequestBytes},
		})
		b = append(b, '}')
	}
	return b
}

type limit struct {
	name  string
	value int64
}

// appendLimits appends members of a JSON object, without braces.
func appendLimits(b []byte, limits []limit) []byte {
	for i, l := range limits {
		b = strconv.AppendInt(appendKey(b, i, l.name), l.value, 10)
	}
	return b
}
