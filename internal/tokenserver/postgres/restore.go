package postgres

import "context"

// SkipUIDs implements tokenserver.Users.
func (s *Store) SkipUIDs(ctx context.Context, n int64) error {
	_, err := s.db.Exec(ctx, sqlSkipUIDs, n)
	return err
}
