package postgres

import (
	"context"

	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
)

// part is a share of a sweep for an install.
type part struct {
	expired int64
	changes []int64
	names   []string
}

// sweeping holds the parameters for a sweep of an install.
type sweeping struct {
	owner ext.Owner
	part
	at, due ext.Moment
}

// args names and orders the parameters for pgdb.
func (s sweeping) args() []pgdb.Arg {
	return []pgdb.Arg{
		tenant(s.owner), install(s.owner),
		{Param: "p_now timestamptz", Value: now(s.at)},
		{Param: "p_due timestamptz", Value: now(s.due)},
		{Param: "p_expired bigint", Value: s.expired},
		{Param: "p_changes bigint[]", Value: s.changes},
		{Param: "p_answers text[]", Value: s.names},
		{Param: "p_answers_before timestamptz", Value: before(s.due, ext.AnswersKept)},
	}
}

// sweep is a kind of old rows: find returns the installs that have some.
type sweep struct {
	find pgdb.Statement
	due  func(ext.Moment) ext.Moment
}

var sweeps = [ext.SweptKinds]sweep{
	ext.SweptRecords: {sqlDueRecords, func(m ext.Moment) ext.Moment { return m }},
	ext.SweptChanges: {sqlDueChanges, func(m ext.Moment) ext.Moment { return m - ext.Moment(ext.ChangesKept.Milliseconds()) }},
	ext.SweptAnswers: {sqlDueAnswers, func(m ext.Moment) ext.Moment { return m - ext.Moment(ext.AnswersKept.Milliseconds()) }},
	ext.SweptTokens:  {sqlDueTokens, func(m ext.Moment) ext.Moment { return m }},

	ext.SweptTombstones: {sqlDueTombstones, func(m ext.Moment) ext.Moment { return m }},
}

// Sweep runs a transaction per install, so it never blocks writers for long or holds two locks.
func (s *Store) Sweep(ctx context.Context, kind ext.Swept, at, due ext.Moment, limit int) (swept int, err error) {
	var (
		all    map[ext.Owner]*part
		o      ext.Owner
		change int64
		name   string
		until  = now(sweeps[kind].due(due))
	)
	err = s.db.ForEach(ctx, sweeps[kind].find, []any{until, int64(limit)},
		func() { all = map[ext.Owner]*part{} },
		func() error {
			p := all[o]
			if p == nil {
				p = &part{changes: []int64{}, names: []string{}}
				all[o] = p
			}
			switch kind {
			case ext.SweptRecords:
				p.expired++
			case ext.SweptChanges:
				p.changes = append(p.changes, change)
			default:
				p.names = append(p.names, name)
			}
			return nil
		}, &o.Tenant, &o.Install, &change, &name)
	if err != nil {
		return 0, err
	}
	for o, p := range all {
		if kind == ext.SweptTokens {
			n, err := s.db.Exec(ctx, sqlSweepTokens, string(o.Tenant), string(o.Install), p.names, until)
			if err != nil {
				return swept, err
			}
			swept += int(n)
			continue
		}
		var n int
		if kind == ext.SweptTombstones {
			if _, err := s.db.QueryRow(ctx, sqlForget, []any{string(o.Tenant), string(o.Install), until}, &n); err != nil {
				return swept, err
			}
			swept += n
			continue
		}
		if _, err := s.db.QueryRow(ctx, sqlSweep.Statement, sqlSweep.Args(sweeping{o, *p, at, due}), &n); err != nil {
			return swept, err
		}
		swept += n
	}
	return swept, nil
}
