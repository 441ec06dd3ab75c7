package postgres

import (
	"context"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

// Usage implements buckets.Counters.
func (s *Store) Usage(ctx context.Context, owner buckets.AccountID) (a buckets.AccountUsage, err error) {
	if err := owner.Check(); err != nil {
		return a, err
	}
	var name, id string
	var u buckets.Usage
	var q buckets.Quota
	err = s.db.ForEach(ctx, sqlUsage, []any{string(owner)}, func() { a = buckets.AccountUsage{} }, func() error {
		if id == nilUUID {
			a.Total, a.Quota = u, q
		} else {
			a.Buckets = append(a.Buckets, buckets.BucketUsage{Bucket: buckets.BucketRef{Name: name, ID: buckets.BucketID(id)}, Usage: u, Quota: q})
		}
		return nil
	}, &name, &id, &u.Objects, &u.Bytes, &q.Objects, &q.Bytes)
	return a, err
}

// Totals implements buckets.Counters.
func (s *Store) Totals(ctx context.Context, owners []buckets.AccountID) ([]buckets.AccountUsage, error) {
	ids := make([]string, len(owners))
	for i, o := range owners {
		if err := o.Check(); err != nil {
			return nil, err
		}
		ids[i] = string(o)
	}
	all := make([]buckets.AccountUsage, len(owners))
	var id string
	var a buckets.AccountUsage
	err := s.db.ForEach(ctx, sqlTotals, []any{ids}, func() { clear(all) }, func() error {
		for i, o := range ids {
			if o == id {
				all[i] = a
			}
		}
		return nil
	}, &id, &a.Total.Objects, &a.Total.Bytes, &a.Quota.Objects, &a.Quota.Bytes)
	return all, err
}

// BucketTotals implements buckets.Counters.
func (s *Store) BucketTotals(ctx context.Context, owner buckets.AccountID, refs []buckets.BucketRef) ([]buckets.BucketUsage, error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	ids, all := make([]string, len(refs)), make([]buckets.BucketUsage, len(refs))
	for i, b := range refs {
		ids[i] = string(b.ID)
	}
	start := func() {
		for i, b := range refs {
			all[i] = buckets.BucketUsage{Bucket: b}
		}
	}
	start()
	var id string
	var u buckets.BucketUsage
	err := s.db.ForEach(ctx, sqlBucketTotals, []any{string(owner), ids}, start, func() error {
		for i := range refs {
			if ids[i] == id {
				all[i].Usage, all[i].Quota = u.Usage, u.Quota
			}
		}
		return nil
	}, &id, &u.Usage.Objects, &u.Usage.Bytes, &u.Quota.Objects, &u.Quota.Bytes)
	return all, err
}

// SetQuota implements buckets.Counters.
func (s *Store) SetQuota(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, q buckets.Quota) error {
	if err := owner.Check(); err != nil {
		return err
	}
	if b != (buckets.BucketRef{}) {
		_, err := s.run(ctx, sqlSetQuota, string(owner), b.Name, string(b.ID), q.Objects, q.Bytes)
		return err
	}
	return s.db.Tx(ctx, "buckets.set_quota_of_account", func(tx *pgdb.Tx) error {
		n, err := tx.Exec(sqlSetAccountQuota, string(owner), q.Objects, q.Bytes)
		if err == nil && n == 0 {
			err = buckets.ErrNoAccount
		}
		if err != nil {
			return err
		}
		return setAccountQuota(tx, owner, q)
	})
}

// setAccountQuota writes the quota next to the account's counters.
func setAccountQuota(tx *pgdb.Tx, owner buckets.AccountID, q buckets.Quota) error {
	_, err := tx.QueryRow(sqlSetQuota, []any{string(owner), nil, nilUUID, q.Objects, q.Bytes}, new(int64))
	return err
}

// Audit implements buckets.Counters.
func (s *Store) Audit(ctx context.Context, owner buckets.AccountID, repair bool) (miscounts []buckets.Miscount, err error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	if !repair {
		return s.compare(ctx, owner)
	}
	err = s.db.Patient(longestScan).Tx(ctx, "buckets.repair_usage", func(tx *pgdb.Tx) error {
		if _, err := tx.QueryRow(sqlLockUsage, []any{string(owner)}, new(int64)); err != nil {
			return err
		}
		var t tally
		if err := tx.ForEach(sqlCount, []any{string(owner)}, t.add, t.dest()...); err != nil {
			return err
		}
		miscounts = buckets.Miscounts(t.counted, t.stored)
		for _, m := range miscounts {
			id := string(m.Bucket)
			if id == "" {
				id = nilUUID
			}
			if _, err := tx.QueryRow(sqlSetUsage, []any{string(owner), id, m.Stored.Objects, m.Stored.Bytes}, new(int64)); err != nil {
				return err
			}
		}
		return nil
	})
	return miscounts, err
}

// compare counts an account's rows and compares them with its counters, in a snapshot.
func (s *Store) compare(ctx context.Context, owner buckets.AccountID) ([]buckets.Miscount, error) {
	var t tally
	dest := t.dest()
	if err := s.db.Patient(longestScan).ForEach(ctx, sqlCount, []any{string(owner)}, t.reset, t.add, dest...); err != nil {
		return nil, err
	}
	return buckets.Miscounts(t.counted, t.stored), nil
}

// tally collects an account's counters (counted) and the sums over its rows (stored), by bucket; "" is the account.
type tally struct {
	counted, stored map[buckets.BucketID]buckets.Usage

	isCounter bool
	id        string
	u         buckets.Usage
}

// reset forgets everything before a repeated statement.
func (t *tally) reset() {
	t.counted, t.stored = map[buckets.BucketID]buckets.Usage{}, map[buckets.BucketID]buckets.Usage{}
}

// dest returns the destinations and resets.
func (t *tally) dest() []any {
	t.reset()
	return []any{&t.isCounter, &t.id, &t.u.Objects, &t.u.Bytes}
}

// add takes the last row read.
func (t *tally) add() error {
	switch {
	case !t.isCounter:
		t.stored[buckets.BucketID(t.id)] = t.u
	case t.id == nilUUID:
		t.counted[""] = t.u
	default:
		t.counted[buckets.BucketID(t.id)] = t.u
	}
	return nil
}
