package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
)

// SkipChanges implements extstorage.Store.
func (s *Store) SkipChanges(ctx context.Context, n int64) error {
	return s.db.Write(ctx, "ext.skip_changes", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlRaiseFirst, n); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlSkipChanges, n, ext.SkippedVersions(n))
	})
}
