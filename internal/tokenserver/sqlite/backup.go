package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// SkipUIDs makes a copy of a database skip the next million UIDs. After the copy was made,
// the original assigns these UIDs to new users, who have tokens and data on the nodes. If
// the copy replaces the original, it must not assign them to other users.
func SkipUIDs(ctx context.Context, db *sqlitedb.DB) error {
	return db.Write(ctx, "token.leap", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlFirstUID); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlLeap)
	})
}
