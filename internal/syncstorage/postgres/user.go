package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	ss "holdfast/internal/syncstorage"
)

// Totals implements syncstorage.AdminStore.
func (s *Store) Totals(ctx context.Context, owners []ss.Owner) ([]ss.Total, error) {
	users, err := ss.UIDs(owners)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]ss.Total, len(owners))
	var (
		user           int64
		modified       pgtype.Timestamp
		records, bytes int64
		quota          pgtype.Int8
	)
	err = s.db.ForEach(ctx, sqlTotals, []any{users}, func() { clear(found) }, func() error {
		found[user] = ss.Total{Modified: stamp(modified), Records: records, Bytes: bytes, Counted: true, Quota: index(quota)}
		return nil
	}, &user, &modified, &records, &bytes, &quota)
	if err != nil {
		return nil, err
	}
	totals := make([]ss.Total, len(owners))
	for i, uid := range users {
		totals[i] = found[uid]
		totals[i].Counted = true
	}
	return totals, nil
}

// Owners implements syncstorage.AdminStore.
func (s *Store) Owners(ctx context.Context, after ss.Owner, n int) (all []ss.Owner, err error) {
	var user int64
	err = s.db.ForEach(ctx, sqlOwners, []any{after.UID, n}, func() { all = all[:0] }, func() error {
		all = append(all, ss.Owner{UID: user})
		return nil
	}, &user)
	return all, err
}

// SetQuota implements syncstorage.AdminStore.
func (s *Store) SetQuota(ctx context.Context, o ss.Owner, bytes ss.Optional[int64]) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	if err := ss.CheckOwnQuota(bytes); err != nil {
		return err
	}
	if !bytes.Set {
		_, err := s.db.Exec(ctx, sqlDropQuota, o.UID)
		return err
	}
	_, err := s.db.Exec(ctx, sqlSetQuota, o.UID, bytes.Value)
	return err
}
