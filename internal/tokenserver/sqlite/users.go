package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/tokenserver"
)

// AccountState implements tokenserver.Users.
func (s *Store) AccountState(ctx context.Context, a tokenserver.Account) (st tokenserver.AccountState, err error) {
	if err := a.Check(); err != nil {
		return st, err
	}
	err = s.db.Read(ctx, "token.account_state", func(c *sqlite.Conn) error {
		st, err = stateOf(c, a)
		return err
	})
	return st, err
}

// stateOf reads the account's access and users, newest first.
func stateOf(c *sqlite.Conn, a tokenserver.Account) (st tokenserver.AccountState, err error) {
	listed, err := sqlitedb.QueryAll(c, sqlAccess, func(stmt *sqlite.Stmt) string { return stmt.ColumnText(0) }, a.FxAUID)
	if err != nil {
		return st, err
	}
	if len(listed) > 0 {
		st.Access = tokenserver.ParseAccess(listed[0])
	}
	st.Users, err = sqlitedb.QueryAll(c, sqlAccount, scanUser, a.Email(), tokenserver.MaxUsers)
	return st, err
}

// scanUser reads userColumns.
func scanUser(stmt *sqlite.Stmt) tokenserver.User {
	u := tokenserver.User{
		UID:         stmt.ColumnInt64(0),
		Email:       stmt.ColumnText(1),
		Generation:  stmt.ColumnInt64(2),
		ClientState: stmt.ColumnText(3),
		CreatedAt:   stmt.ColumnInt64(4),
		Replaced:    !stmt.ColumnIsNull(5),
		ReplacedAt:  stmt.ColumnInt64(5),
		NodeID:      stmt.ColumnInt64(6),
		Node:        stmt.ColumnText(8),
	}
	if !stmt.ColumnIsNull(7) {
		u.KeysChangedAt = tokenserver.Mark{Value: stmt.ColumnInt64(7), Known: true}
	}
	return u
}

// FindUsers implements tokenserver.Users.
func (s *Store) FindUsers(ctx context.Context, prefix, after string, limit int) (users []tokenserver.User, err error) {
	first, end, err := tokenserver.PrefixRange(prefix)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "token.find_users", func(c *sqlite.Conn) error {
		users, err = sqlitedb.QueryAll(c, sqlFindUsers, scanUser, max(first, after), end, limit)
		return err
	})
	return users, err
}

// ListUsers implements tokenserver.Users.
func (s *Store) ListUsers(ctx context.Context, after int64, limit int, replaced bool) (users []tokenserver.User, err error) {
	err = s.db.Read(ctx, "token.list_users", func(c *sqlite.Conn) error {
		users, err = sqlitedb.QueryAll(c, sqlListUsers, scanUser, after, replaced, limit)
		return err
	})
	return users, err
}

// Replace implements tokenserver.Users.
func (s *Store) Replace(ctx context.Context, a tokenserver.Account, now time.Time, retire bool) (int, error) {
	if !retire {
		return s.change(ctx, "token.replace", a, sqlReplace, now.UnixMilli(), a.Email())
	}
	return s.changed(ctx, "token.replace", a, func(c *sqlite.Conn) (int, error) {
		if err := sqlitedb.Exec(c, sqlRetire, now.UnixMilli(), a.Email()); err != nil {
			return 0, err
		}
		return c.Changes(), sqlitedb.Exec(c, sqlClearLabel, a.FxAUID)
	})
}

// Delete implements tokenserver.Users.
func (s *Store) Delete(ctx context.Context, a tokenserver.Account, now time.Time) (users []tokenserver.User, err error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	err = s.db.Write(ctx, "token.delete", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlDelete, now.UnixMilli(), a.Email()); err != nil {
			return err
		}
		if err := sqlitedb.Exec(c, sqlClearLabel, a.FxAUID); err != nil {
			return err
		}
		users, err = sqlitedb.QueryAll(c, sqlAllOfAccount, scanUser, a.Email())
		return err
	})
	return users, err
}

// Revoked implements tokenserver.Users.
func (s *Store) Revoked(ctx context.Context, since time.Time) (r tokenserver.Revoked, err error) {
	err = s.db.Read(ctx, "token.revoked", func(c *sqlite.Conn) error {
		denied, err := sqlitedb.QueryAll(c, sqlDenied, func(stmt *sqlite.Stmt) string { return stmt.ColumnText(0) })
		if err != nil {
			return err
		}
		gone, err := sqlitedb.QueryAll(c, sqlGone, scanUser, since.UnixMilli())
		if err != nil {
			return err
		}
		for _, fxaUID := range denied {
			r.RevokeAccount(fxaUID)
		}
		for i := range gone {
			r.RevokeUser(&gone[i])
		}
		return nil
	})
	return r, err
}

// ChangePassword implements tokenserver.Users.
func (s *Store) ChangePassword(ctx context.Context, a tokenserver.Account, generation int64) (int, error) {
	return s.change(ctx, "token.change_password", a, sqlChangePassword, generation, a.Email())
}

// change runs a statement on an account and returns the number of changed rows.
func (s *Store) change(ctx context.Context, name string, a tokenserver.Account, sql string, args ...any) (int, error) {
	return s.changed(ctx, name, a, func(c *sqlite.Conn) (int, error) {
		err := sqlitedb.Exec(c, sql, args...)
		return c.Changes(), err
	})
}

// changed is change for several statements.
func (s *Store) changed(ctx context.Context, name string, a tokenserver.Account, fn func(*sqlite.Conn) (int, error)) (changed int, err error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	err = s.db.Write(ctx, name, func(c *sqlite.Conn) error {
		changed, err = fn(c)
		return err
	})
	return changed, err
}

// Due implements tokenserver.Users.
func (s *Store) Due(
	ctx context.Context, d tokenserver.Deadlines, after tokenserver.DueUser, limit int,
) (due []tokenserver.DueUser, err error) {
	err = s.db.Read(ctx, "token.due", func(c *sqlite.Conn) error {
		due, err = sqlitedb.QueryAll(c, sqlDue, func(stmt *sqlite.Stmt) tokenserver.DueUser {
			return tokenserver.DueUser{User: scanUser(stmt), KeysLive: stmt.ColumnBool(9)}
		}, d.Replaced.UnixMilli(), d.Deleted.UnixMilli(), after.ReplacedAt, after.UID, limit)
		return err
	})
	return due, err
}

// Forget implements tokenserver.Users.
func (s *Store) Forget(ctx context.Context, uid int64) error {
	return s.db.Write(ctx, "token.forget", func(c *sqlite.Conn) error {
		emails, err := sqlitedb.QueryAll(c, sqlForget, func(stmt *sqlite.Stmt) string { return stmt.ColumnText(0) }, uid)
		if err != nil || len(emails) == 0 {
			return err
		}
		u := tokenserver.User{Email: emails[0]}
		return sqlitedb.Exec(c, sqlForgetLabel, u.Account().FxAUID, u.Email)
	})
}
