package postgres

import (
	"context"

	ext "holdfast/internal/extstorage"
)

// Reclaim implements extstorage.Store.
func (s *Store) Reclaim(ctx context.Context, o ext.Owner, at ext.Moment, limit int) (n int, err error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	_, err = s.db.One(ctx, sqlReclaim, []any{string(o.Tenant), string(o.Install), now(at), int64(limit)}, &n)
	return n, err
}

// due is what is over of one install.
type due struct {
	expired int64    // records
	changes []int64  // by number
	answers []string // by key
}

// What the rows of sqlDue are of.
const (
	dueRecord = iota + 1
	dueChange
	dueAnswer
)

// Sweep implements extstorage.Store. Every install is a transaction of its own,
// under the install's lock, so a sweep stands in nobody's way for long and never
// holds two locks.
func (s *Store) Sweep(ctx context.Context, at ext.Moment, limit int) (swept int, err error) {
	var (
		all           map[ext.Owner]*due
		o             ext.Owner
		kind          int
		change        int64
		answer        string
		answersBefore = before(at, ext.AnswersKept)
	)
	err = s.db.Each(ctx, sqlDue, []any{now(at), before(at, ext.ChangesKept), answersBefore, int64(limit)},
		func() { all = map[ext.Owner]*due{} },
		func() error {
			d := all[o]
			if d == nil {
				d = &due{changes: []int64{}, answers: []string{}}
				all[o] = d
			}
			switch kind {
			case dueRecord:
				d.expired++
			case dueChange:
				d.changes = append(d.changes, change)
			case dueAnswer:
				d.answers = append(d.answers, answer)
			}
			return nil
		}, &kind, &o.Tenant, &o.Install, &change, &answer)
	if err != nil {
		return 0, err
	}
	for o, d := range all {
		var n int
		if _, err := s.db.One(ctx, sqlSweep,
			[]any{string(o.Tenant), string(o.Install), now(at), d.expired, d.changes, d.answers, answersBefore}, &n); err != nil {
			return swept, err
		}
		swept += n
	}
	return swept, nil
}
