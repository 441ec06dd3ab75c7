package postgres

import (
	"context"

	ss "holdfast/internal/syncstorage"
)

// Sweep runs a transaction per user: it never blocks writers for long or holds two locks.
func (s *Store) Sweep(ctx context.Context, now ss.Timestamp, limit int) (swept int, err error) {
	var (
		users []int64
		user  int64
	)
	err = s.db.ForEach(ctx, sqlDue, []any{moment(now), limit}, func() { users = users[:0] }, func() error {
		users = append(users, user)
		return nil
	}, &user)
	if err != nil {
		return 0, err
	}
	for _, user := range users {
		if swept >= limit {
			break
		}
		var n int
		if _, err := s.db.QueryRow(ctx, sqlSweep, []any{user, moment(now), int64(limit - swept)}, &n); err != nil {
			return swept, err
		}
		swept += n
	}
	return swept, nil
}

// EndBatches implements syncstorage.AdminStore.
func (s *Store) EndBatches(ctx context.Context) error {
	_, err := s.db.Exec(ctx, sqlEndBatches)
	return err
}
