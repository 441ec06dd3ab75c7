package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// SkipUIDs implements tokenserver.Users.
func (s *Store) SkipUIDs(ctx context.Context, n int64) error {
	return s.db.Write(ctx, "token.skip_uids", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlFirstUID); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlSkipUIDs, n)
	})
}
