package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// Leap makes a copy of a database leave out the next thousand million numbers of
// every install's changes. The original gives some of them out after the copy was
// made, as ETags and to those who follow the changes. When the copy takes its
// place, what they hold must match nothing, and they must be told to begin anew.
func Leap(ctx context.Context, db *sqlitedb.DB) error {
	return db.Write(ctx, "ext.leap", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlLeap) })
}
