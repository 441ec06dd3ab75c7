package ext

import (
	"fmt"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	ext "holdfast/internal/extstorage"
)

func TestReload(t *testing.T) {
	t.Parallel()
	x := New()
	opened := servicetest.Open(t, x.Service(), nil, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=true").Opened
	rate := func(text string, see func(ext.Rates) int) servicetest.Effect {
		return servicetest.Effect{Text: text, See: func() string {
			of, _ := x.rates.Limits()
			return fmt.Sprint(see(of))
		}}
	}
	quota := func(text, tier string, see func(ext.Quota) int64) servicetest.Effect {
		return servicetest.Effect{Text: text, See: func() string { return fmt.Sprint(see(x.opened.QuotaOf(tier))) }}
	}
	servicetest.Reloads(t, opened, func() service.Service { return New().Service() }, map[string]servicetest.Effect{
		"extstorage.rate_limits": {Text: "false", See: func() string {
			_, limited := x.rates.Limits()
			return fmt.Sprint(limited)
		}},
		"extstorage.rates.reads_per_minute":  rate("7", func(r ext.Rates) int { return r.Reads }),
		"extstorage.rates.read_burst":        rate("8", func(r ext.Rates) int { return r.ReadBurst }),
		"extstorage.rates.writes_per_minute": rate("9", func(r ext.Rates) int { return r.Writes }),
		"extstorage.rates.write_burst":       rate("10", func(r ext.Rates) int { return r.WriteBurst }),
		"extstorage.rates.tenant_per_second": rate("11", func(r ext.Rates) int { return r.Tenant }),
		"extstorage.rates.tenant_burst":      rate("12", func(r ext.Rates) int { return r.TenantBurst }),
		"extstorage.quota.bytes":             quota("1000", "", func(q ext.Quota) int64 { return q.Bytes }),
		"extstorage.quota.namespaces":        quota("13", "", func(q ext.Quota) int64 { return q.Namespaces }),
		"extstorage.quota.keys":              quota("14", "", func(q ext.Quota) int64 { return q.Keys }),
		"extstorage.tiers.gold.bytes":        quota("15", "gold", func(q ext.Quota) int64 { return q.Bytes }),
		"extstorage.dry_run_time":            {Text: "7s", See: func() string { return x.opened.DryRunTime().String() }},
	})
}
