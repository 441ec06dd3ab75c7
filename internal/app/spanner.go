package app

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"holdfast/internal/conf"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

// OnSpanner reports whether the records of Sync are kept in Spanner.
func (c *Config) OnSpanner() bool {
	t, err := parseTarget(syncRoom, c.Syncstorage.DatabaseURL, "")
	return err == nil && t.engine == engineSpanner
}

// fitSpanner brings the limits of Sync storage on Spanner to what one commit
// there holds, and returns what is wrong with those that the operator set. What
// has no effect is noted in the report. On other engines it leaves the limits
// alone.
func (c *Config) fitSpanner(report *conf.Report) (errs []error) {
	note := func(key, what string) {
		path := syncRoom + "." + key
		if where := report.Where(path); where != "default" {
			report.Notes = append(report.Notes, conf.Problem{Where: where, What: path + " " + what})
		}
	}
	note("database_pool_sweeper_task_interval", "has no effect: there are no sessions to sweep")
	if !c.OnSpanner() {
		return nil
	}
	for _, key := range []string{"database_pool_connection_lifespan", "database_pool_connection_max_idle"} {
		note(key, "has no effect: Spanner's client looks after its connections itself")
	}
	for _, key := range []string{"sweep_interval", "sweep_after", "sweep_limit"} {
		note(key, "has no effect: Spanner removes what has expired by itself")
	}
	l := &c.Syncstorage.Limits
	if report.Where("syncstorage.limits.max_total_records") == "default" {
		l.MaxTotalRecords = budget.Records
	}
	errs = append(fitRecords(l, c.Syncstorage.Counts()), fitBytes(l)...)
	if l.MaxTotalBytes > budget.LoadSize {
		note("limits.max_total_bytes", fmt.Sprintf("is %d, and %d is used: a batch on Spanner has no more", l.MaxTotalBytes, budget.LoadSize))
		l.MaxTotalBytes = budget.LoadSize
	}
	return errs
}

// mend is what to do about a room's database that cannot be used.
func (c *Config) mend(room string, e engine) string {
	correct := ", or correct " + room + ".database_url"
	switch {
	case e != engineSpanner:
		return "start the database" + correct
	case c.Syncstorage.EmulatorHost != "":
		return "start the emulator on " + c.Syncstorage.EmulatorHost + " and run: holdfast migrate"
	default:
		return "see that the database is there and that the account may use it" + correct
	}
}

// fitRecords holds the numbers of records against the mutations of a commit.
func fitRecords(l *syncstorage.Limits, quota bool) (errs []error) {
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
			errs = append(errs, fmt.Errorf("limits.%s is %d, more than one commit on Spanner may have: %s", v.key, v.records, v.plan.Explain(n, budget.Limit)))
		}
	}
	if len(errs) == 0 && l.MaxPostRecords > l.MaxTotalRecords {
		errs = append(errs, fmt.Errorf("limits.max_post_records is %d, and a batch on Spanner has %d; set limits.max_total_records too", l.MaxPostRecords, l.MaxTotalRecords))
	}
	return errs
}

// fitBytes holds the sizes of requests and records against what a commit and a
// column may have, those of single collections too.
func fitBytes(l *syncstorage.Limits) (errs []error) {
	fit := func(section string, post, record int64) {
		if post > budget.LoadSize {
			errs = append(errs, fmt.Errorf("%s.max_post_bytes is %d; on Spanner it must be at most %d", section, post, budget.LoadSize))
		}
		if record > budget.FieldLength {
			errs = append(errs, fmt.Errorf("%s.max_record_payload_bytes is %d; on Spanner, whose columns hold no more characters, it must be at most %d", section, record, budget.FieldLength))
		}
	}
	fit("limits", l.MaxPostBytes, l.MaxRecordPayloadBytes)
	for _, name := range slices.Sorted(maps.Keys(l.Collections)) {
		fit("limits.collections."+name, l.Collections[name].MaxPostBytes, l.Collections[name].MaxRecordPayloadBytes)
	}
	return errs
}
