package sync

import (
	"fmt"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/syncstorage"
)

func TestReload(t *testing.T) {
	t.Parallel()
	s := New()
	opened := servicetest.Open(t, s.Service(), nil).Opened
	limit := func(text string, see func(syncstorage.Limits) int64) servicetest.Effect {
		return servicetest.Effect{Text: text, See: func() string { return fmt.Sprint(see(s.opened.Limits("tabs"))) }}
	}
	servicetest.Reloads(t, opened, func() service.Service { return New().Service() }, map[string]servicetest.Effect{
		"syncstorage.max_collection_names":            {Text: "7", See: func() string { return fmt.Sprint(s.opened.MaxNames()) }},
		"syncstorage.compare_rate":                    {Text: "7", See: func() string { return fmt.Sprint(s.opened.CompareRate()) }},
		"syncstorage.limits.max_post_bytes":           limit("300000", func(l syncstorage.Limits) int64 { return l.MaxPostBytes }),
		"syncstorage.limits.max_post_records":         limit("50", func(l syncstorage.Limits) int64 { return l.MaxPostRecords }),
		"syncstorage.limits.max_record_payload_bytes": limit("300000", func(l syncstorage.Limits) int64 { return l.MaxRecordPayloadBytes }),
		"syncstorage.limits.max_request_bytes":        limit("3000000", func(l syncstorage.Limits) int64 { return l.MaxRequestBytes }),
		"syncstorage.limits.max_total_bytes":          limit("3000000", func(l syncstorage.Limits) int64 { return l.MaxTotalBytes }),
		"syncstorage.limits.max_total_records":        limit("2000", func(l syncstorage.Limits) int64 { return l.MaxTotalRecords }),
		"syncstorage.limits.max_quota_limit":          limit("4000", func(l syncstorage.Limits) int64 { return l.MaxQuotaLimit }),
		"syncstorage.limits.max_user_quota":           limit("5000", func(l syncstorage.Limits) int64 { return l.MaxUserQuota }),

		"syncstorage.limits.collections.tabs.max_post_bytes": limit("270000", func(l syncstorage.Limits) int64 { return l.MaxPostBytes }),
	})
}
