package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// Leap makes a copy of a database skip the next 1,000,000,000 change numbers of
// every install. After the copy was made, the original may have issued some of
// them, as ETags and to clients that follow the changes. If the copy replaces the
// original, those ETags must not match, and those clients must get ErrChangesGone
// and read everything again.
func Leap(ctx context.Context, db *sqlitedb.DB) error {
	return db.Write(ctx, "ext.leap", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlLeap) })
}
