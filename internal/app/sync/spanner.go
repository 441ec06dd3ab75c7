package sync

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

// fitSpanner fits the limits on Spanner to what one commit there holds, and
// reports those of the operator's limits that do not fit. Settings without effect
// are noted. On other engines it leaves the limits alone.
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
		note("limits.max_total_bytes", fmt.Sprintf("lowered to %d, the maximum of a batch on Spanner", budget.LoadSize))
		l.MaxTotalBytes = budget.LoadSize
	}
	return problems
}

// databaseFix says how to fix a database that cannot be used.
func (s *Storage) databaseFix() string {
	const correct = ", or correct " + Name + ".database_url"
	switch {
	case !s.onSpanner():
		return "start the database" + correct
	case s.cfg.EmulatorHost != "":
		return "start the emulator on " + s.cfg.EmulatorHost + " and run: holdfast migrate"
	}
	return "check that the database exists and that the account may use it (gcloud auth application-default login, or a key named by GOOGLE_APPLICATION_CREDENTIALS)" + correct
}

// spannerOptions completes the options of Spanner's client.
func (s *Storage) spannerOptions(o *spannerdb.Options) {
	m := s.deps.Metrics
	predicted := m.Counter("holdfast_sync_spanner_predicted_mutations_total", "Predicted mutations of Spanner commits.", "statement")
	counted := m.Counter("holdfast_sync_spanner_mutations_total", "Mutations of commits as counted by Spanner. The emulator counts none.", "statement")
	o.EmulatorHost, o.RouteToLeader = s.cfg.EmulatorHost, s.cfg.RouteToLeader
	o.Mutations = func(step string, foretold, count int) {
		predicted.WithLabelValues(step).Add(float64(foretold))
		counted.WithLabelValues(step).Add(float64(count))
		if count != 0 && count != foretold {
			s.deps.Log.Warn("mutation count of a Spanner commit differs from the prediction", "statement", step, "predicted", foretold, "counted", count)
		}
	}
}

// warnOfEmulator is called when the server starts on Spanner.
func (s *Storage) warnOfEmulator(context.Context) (stop func() error, err error) {
	if host := s.cfg.EmulatorHost; host != "" {
		s.deps.Log.Warn("using the Spanner emulator: data is not durable and writes are serialized", "service", Name, "emulator", host)
	}
	return func() error { return nil }, nil
}

// inspectEmulator reports that the database is in an emulator.
func (s *Storage) inspectEmulator(context.Context) ([]service.Finding, error) {
	if s.cfg.EmulatorHost == "" {
		return nil, nil
	}
	return []service.Finding{{
		State: service.Warning, What: Name + " database", Says: "in the Spanner emulator on " + s.cfg.EmulatorHost + ", which keeps no data",
		Fix: "for anything but tests, unset syncstorage.spanner_emulator_host",
	}}, nil
}

// fitRecords checks the numbers of records against the mutations of a commit.
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
			n := int(min(v.records, math.MaxInt32)) // an int has no more on some machines
			problems.Addf("limits."+v.key, "too large for one commit on Spanner: %s", v.plan.Explain(n, budget.Limit))
		}
	}
	if len(problems) == 0 && l.MaxPostRecords > l.MaxTotalRecords {
		problems.Addf("limits.max_post_records", "must be at most limits.max_total_records, which is %d on Spanner; set that too", l.MaxTotalRecords)
	}
	return problems
}

// fitBytes checks the sizes of requests and records against the limits of a commit
// and a column, those of single collections too.
func fitBytes(l *syncstorage.Limits) (problems conf.Problems) {
	fit := func(section string, post, record int64) {
		if post > budget.LoadSize {
			problems.Addf(section+".max_post_bytes", "must be at most %d on Spanner", budget.LoadSize)
		}
		if record > budget.FieldLength {
			problems.Addf(section+".max_record_payload_bytes", "must be at most %d on Spanner, the size of a column", budget.FieldLength)
		}
	}
	fit("limits", l.MaxPostBytes, l.MaxRecordPayloadBytes)
	for _, name := range slices.Sorted(maps.Keys(l.Collections)) {
		fit("limits.collections."+name, l.Collections[name].MaxPostBytes, l.Collections[name].MaxRecordPayloadBytes)
	}
	return problems
}
