package ext

import (
	"maps"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	ext "holdfast/internal/extstorage"
)

// rules reports combinations of settings that take no effect, or that refuse every record.
func (s *Extensions) rules(in service.Settings) (all []conf.Rule) {
	c := &s.cfg
	all = []conf.Rule{
		{
			Settings: []string{"extstorage.audit", "log.level"}, When: "extstorage.audit in a log without messages", Refuses: true,
			Says: conf.Says(c.Audit == "log" && (in.LogLevel == "warn" || in.LogLevel == "error"), "log requires log.level info or debug"),
		},
		{
			Settings: []string{"extstorage.metadata_index", "extstorage.database_url"}, When: "extstorage.metadata_index without PostgreSQL",
			Says: conf.Says(c.MetadataIndex && !s.onPostgres(), "has no effect without a database_url for PostgreSQL"), Fix: "unset it",
		},
	}
	for _, rate := range []string{"reads_per_minute", "read_burst", "writes_per_minute", "write_burst", "tenant_per_second", "tenant_burst"} {
		all = append(all, conf.Rule{
			Settings: []string{"extstorage.rates." + rate, "extstorage.rate_limits"}, When: "extstorage.rates." + rate + " without extstorage.rate_limits",
			Says: conf.Says(!c.RateLimits && in.Origin("rates."+rate) != "default", "has no effect without rate_limits"), Fix: "set extstorage.rate_limits, or unset it",
		})
	}
	quotas := map[string]int64{"extstorage.quota.bytes": c.Quota.Bytes}
	for name := range c.Tiers {
		quotas["extstorage.tiers."+name+".bytes"] = c.QuotaOf(name).Bytes
	}
	for _, at := range slices.Sorted(maps.Keys(quotas)) {
		all = append(all, conf.Rule{
			Settings: []string{at}, When: at + " below one record",
			Says: conf.Says(quotas[at] > 0 && quotas[at] < ext.MaxValueBytes, "is smaller than the largest record, 65536 bytes: an empty install cannot store it"), Fix: "raise it",
		})
	}
	return all
}

// onPostgres returns false if the database_url is not valid.
func (s *Extensions) onPostgres() bool {
	t, err := engine.Parse(s.cfg.DatabaseURL, "", engine.SQLite, engine.Postgres)
	return err == nil && t.Kind == engine.Postgres
}
