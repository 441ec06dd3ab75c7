package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// Leap makes a copy of a database leave out the next million uids. Who signs in
// after the copy was made gets one of them, and keeps records under it on the
// nodes, and a token for it; the copy knows nothing of that when it takes the
// original's place, and must not make it somebody else's.
func Leap(ctx context.Context, db *sqlitedb.DB) error {
	return db.Write(ctx, "token.leap", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlFirstUID); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlLeap)
	})
}
