package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/tokenserver"
)

// SetAccess implements tokenserver.Admission.
func (s *Store) SetAccess(ctx context.Context, a tokenserver.Account, r tokenserver.Rule, now time.Time) error {
	if err := a.Check(); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	return s.db.Write(ctx, "token.set_access", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlClearRefused, a.FxAUID); err != nil {
			return err
		}
		if r.Access == tokenserver.Unlisted {
			if err := sqlitedb.Exec(c, sqlClearAccess, a.FxAUID); err != nil {
				return err
			}
			return forgetProfileLabel(c, a)
		}
		return sqlitedb.Exec(c, sqlSetAccess, a.FxAUID, r.Access.String(), r.Note, now.UnixMilli())
	})
}

// forgetProfileLabel deletes a profile's label, unless the account has rows or a rule.
func forgetProfileLabel(c *sqlite.Conn, a tokenserver.Account) error {
	return sqlitedb.Exec(c, sqlForgetProfileLabel, a.FxAUID, a.Email())
}

// FindAccounts implements tokenserver.Admission.
func (s *Store) FindAccounts(ctx context.Context, prefix string, limit int) (ids []string, err error) {
	first, end, err := tokenserver.PrefixRange(prefix)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "token.find_accounts", func(c *sqlite.Conn) error {
		ids, err = sqlitedb.QueryAll(c, sqlFindAccounts, func(stmt *sqlite.Stmt) string { return stmt.ColumnText(0) }, first, end, limit)
		return err
	})
	return ids, err
}

// ListAccess implements tokenserver.Admission.
func (s *Store) ListAccess(ctx context.Context, after string, limit int) (rules []tokenserver.Rule, err error) {
	err = s.db.Read(ctx, "token.list_access", func(c *sqlite.Conn) error {
		rules, err = sqlitedb.QueryAll(c, sqlListAccess, func(stmt *sqlite.Stmt) tokenserver.Rule {
			return tokenserver.Rule{
				FxAUID:    stmt.ColumnText(0),
				Access:    tokenserver.ParseAccess(stmt.ColumnText(1)),
				Note:      stmt.ColumnText(2),
				CreatedAt: stmt.ColumnInt64(3),
			}
		}, after, limit)
		return err
	})
	return rules, err
}

// Refused implements tokenserver.Admission.
func (s *Store) Refused(ctx context.Context, limit int) (refused []tokenserver.Refused, err error) {
	err = s.db.Read(ctx, "token.refused", func(c *sqlite.Conn) error {
		refused, err = sqlitedb.QueryAll(c, sqlRefused, func(stmt *sqlite.Stmt) tokenserver.Refused {
			return tokenserver.Refused{
				FxAUID:   stmt.ColumnText(0),
				FirstAt:  stmt.ColumnInt64(1),
				LastAt:   stmt.ColumnInt64(2),
				Attempts: stmt.ColumnInt64(3),
			}
		}, limit)
		return err
	})
	return refused, err
}
