package postgres

import (
	"context"

	ext "holdfast/internal/extstorage"
)

// part is what a sweep removes of one install.
type part struct {
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
func (s *Store) Sweep(ctx context.Context, at, due ext.Moment, limit int) (swept int, err error) {
	var (
		all           map[ext.Owner]*part
		o             ext.Owner
		kind          int
		change        int64
		answer        string
		answersBefore = before(due, ext.AnswersKept)
	)
	err = s.db.ForEach(ctx, sqlDue, []any{now(due), before(due, ext.ChangesKept), answersBefore, int64(limit)},
		func() { all = map[ext.Owner]*part{} },
		func() error {
			p := all[o]
			if p == nil {
				p = &part{changes: []int64{}, answers: []string{}}
				all[o] = p
			}
			switch kind {
			case dueRecord:
				p.expired++
			case dueChange:
				p.changes = append(p.changes, change)
			case dueAnswer:
				p.answers = append(p.answers, answer)
			}
			return nil
		}, &kind, &o.Tenant, &o.Install, &change, &answer)
	if err != nil {
		return 0, err
	}
	for o, p := range all {
		var n int
		if _, err := s.db.QueryRow(ctx, sqlSweep,
			[]any{string(o.Tenant), string(o.Install), now(at), now(due), p.expired, p.changes, p.answers, answersBefore}, &n); err != nil {
			return swept, err
		}
		swept += n
	}
	return swept, nil
}
