package sync

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

// checkLimits lets limits that are not set follow those that are, reports contradictions, and fits Spanner.
func (s *Storage) checkLimits(settings service.Settings) conf.Problems {
	isSet := func(key string) bool { return settings.Origin("limits."+key) != "default" }
	s.cfg.Limits.Follow(isSet)
	return append(s.cfg.Limits.CheckLimits(isSet), s.fitSpanner(settings)...)
}

// fitSpanner adjusts default limits to the mutation limit of a Spanner commit, and reports configured limits that
// exceed it. It notes settings without effect.
func (s *Storage) fitSpanner(settings service.Settings) (problems conf.Problems) {
	note := settings.Note
	note("database_pool_sweeper_task_interval", "ignored: the Spanner client has no session pool to sweep")
	if !s.onSpanner() {
		return nil
	}
	for _, key := range []string{"database_pool_connection_lifespan", "database_pool_connection_max_idle"} {
		note(key, "ignored: the Spanner client manages its connections itself")
	}
	for _, key := range []string{"sweep_interval", "sweep_after", "sweep_limit"} {
		note(key, "ignored: Spanner deletes expired data itself")
	}
	l := &s.cfg.Limits
	if settings.Origin("limits.max_total_records") == "default" {
		l.MaxTotalRecords = budget.Records
	}
	problems = append(fitRecords(l, s.cfg.Counts()), fitBytes(l)...)
	if l.MaxTotalBytes > budget.LoadSize {
		note("limits.max_total_bytes", fmt.Sprintf("lowered to %d, the maximum per batch on Spanner", budget.LoadSize))
		l.MaxTotalBytes = budget.LoadSize
	}
	return problems
}

// spannerSettings returns the service's own settings of Spanner, and counts the mutations of its commits.
func (s *Storage) spannerSettings() engine.SpannerSettings {
	count := countMutations(s.deps)
	mutations := func(step string, foretold, counted int) {
		count(step, foretold, counted)
		if counted != 0 && counted != foretold {
			s.deps.Log.Warn("the mutation count of a Spanner commit differs from the prediction", "statement", step, "predicted", foretold, "counted", counted)
		}
	}
	return engine.SpannerSettings{EmulatorHost: s.cfg.EmulatorHost, RouteToLeader: s.cfg.RouteToLeader, Mutations: mutations}
}

// warnOfEmulator warns at each start, because an emulator that is used by mistake loses all data.
func (s *Storage) warnOfEmulator(context.Context) (stop func() error, err error) {
	if host := s.cfg.EmulatorHost; host != "" {
		s.deps.Log.Warn("using the Spanner emulator: data is not durable and writes are serialized", "service", Name, "emulator", host)
	}
	return func() error { return nil }, nil
}

// inspectSpanner reports an emulator, and tables from older Mozilla server releases that differ from Holdfast's.
func (s *Storage) inspectSpanner(ctx context.Context, store syncstorage.Store) (findings []service.Finding, err error) {
	warn := func(says, fix string) {
		findings = append(findings, service.Finding{State: service.Warning, What: Name + " database", Says: says, Fix: fix})
	}
	if s.cfg.EmulatorHost != "" {
		warn("in the Spanner emulator on "+s.cfg.EmulatorHost+", which keeps data in memory only", "for anything but tests, unset syncstorage.spanner_emulator_host")
	}
	inspector, ok := store.(interface {
		Inspect(ctx context.Context) (syncstorage.Inspection, error)
	})
	if !ok {
		return findings, nil
	}
	in, err := inspector.Inspect(ctx)
	if err != nil {
		return findings, err
	}
	for _, name := range in.Indexes {
		warn("the index "+name+" adds mutations to each record: Spanner may refuse a batch that max_total_records allows", "run on the database: DROP INDEX "+name)
	}
	for _, name := range in.Unswept {
		warn("the table "+name+" has no row deletion policy: expired rows are never deleted",
			"run on the database: ALTER TABLE "+name+" ADD ROW DELETION POLICY (OLDER_THAN(expiry, INTERVAL 0 DAY))")
	}
	return findings, nil
}

// fitRecords reports limits that allow more records than a commit on Spanner can contain: a whole batch when it is
// committed, and a POST when it is staged. quota includes the quota's mutations.
func fitRecords(l *syncstorage.Limits, quota bool) (problems conf.Problems) {
	for _, v := range []struct {
		key     string
		records int64
		plan    budget.Plan
	}{
		{"max_total_records", l.MaxTotalRecords, budget.Current().Commit(quota)},
		{"max_post_records", l.MaxPostRecords, budget.Current().Open()},
	} {
		if v.records > int64(v.plan.MaxRecords(budget.Limit)) {
			n := int(min(v.records, math.MaxInt32)) // int may be 32 bits
			problems.Addf("limits."+v.key, "too large for one commit on Spanner: %s", v.plan.Explain(n, budget.Limit))
		}
	}
	if len(problems) == 0 && l.MaxPostRecords > l.MaxTotalRecords {
		problems.Addf("limits.max_post_records", "must be at most limits.max_total_records, which is %d on Spanner; set that too", l.MaxTotalRecords)
	}
	return problems
}

// fitBytes reports byte limits, also those for single collections, that Spanner cannot store.
func fitBytes(l *syncstorage.Limits) (problems conf.Problems) {
	fit := func(section string, post, record int64) {
		if post > budget.LoadSize {
			problems.Addf(section+".max_post_bytes", "must be at most %d on Spanner", budget.LoadSize)
		}
		if record > budget.FieldLength {
			problems.Addf(section+".max_record_payload_bytes", "must be at most %d on Spanner, the column size limit", budget.FieldLength)
		}
	}
	fit("limits", l.MaxPostBytes, l.MaxRecordPayloadBytes)
	for _, name := range slices.Sorted(maps.Keys(l.Collections)) {
		fit("limits.collections."+name, l.Collections[name].MaxPostBytes, l.Collections[name].MaxRecordPayloadBytes)
	}
	return problems
}
