package postgres

import (
	"context"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/tokenserver"
)

// userRow holds the destinations for a user. All are nil if the account has no user.
type userRow struct {
	uid, generation, createdAt, nodeID *int64
	email, clientState, nodeURL        *string
	replacedAt, keysChangedAt          *int64
}

// dest returns the destinations in order.
func (r *userRow) dest() []any {
	return []any{&r.uid, &r.email, &r.generation, &r.clientState, &r.createdAt, &r.replacedAt, &r.nodeID, &r.keysChangedAt, &r.nodeURL}
}

// user decodes the last row read.
func (r *userRow) user() tokenserver.User {
	u := tokenserver.User{
		UID: orZero(r.uid), Email: orZero(r.email), Generation: orZero(r.generation), ClientState: orZero(r.clientState),
		CreatedAt: orZero(r.createdAt), Replaced: r.replacedAt != nil, ReplacedAt: orZero(r.replacedAt),
		NodeID: orZero(r.nodeID), Node: orZero(r.nodeURL),
	}
	if r.keysChangedAt != nil {
		u.KeysChangedAt = tokenserver.Mark{Value: *r.keysChangedAt, Known: true}
	}
	return u
}

// orZero reads NULL as the zero value.
func orZero[T any](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}

// nullable stores an unknown mark as NULL.
func nullable(m tokenserver.Mark) *int64 {
	if !m.Known {
		return nil
	}
	return &m.Value
}

// stateRow collects an account's state from rows with the access and a user.
type stateRow struct {
	access *string
	userRow
	state tokenserver.AccountState
}

// stateArgs are the parameters for reading an account's state.
func stateArgs(a tokenserver.Account) []any {
	return []any{a.Email(), a.FxAUID, tokenserver.MaxUsers}
}

// dest returns the destinations in order.
func (r *stateRow) dest() []any { return append([]any{&r.access}, r.userRow.dest()...) }

// add takes the last row read.
func (r *stateRow) add() error {
	if r.access != nil {
		r.state.Access = tokenserver.ParseAccess(*r.access)
	}
	if r.uid != nil {
		r.state.Users = append(r.state.Users, r.user())
	}
	return nil
}

// AccountState implements tokenserver.Users.
func (s *Store) AccountState(ctx context.Context, a tokenserver.Account) (tokenserver.AccountState, error) {
	if err := a.Check(); err != nil {
		return tokenserver.AccountState{}, err
	}
	var r stateRow
	begin := func() { r.state = tokenserver.AccountState{} }
	err := s.db.ForEach(ctx, sqlAccountState, stateArgs(a), begin, r.add, r.dest()...)
	return r.state, err
}

// FindUsers implements tokenserver.Users.
func (s *Store) FindUsers(ctx context.Context, prefix, after string, limit int) ([]tokenserver.User, error) {
	first, end, err := tokenserver.PrefixRange(prefix)
	if err != nil {
		return nil, err
	}
	var r userRow
	return collect(ctx, s.db, sqlFindUsers, []any{max(first, after), end, limit}, r.user, r.dest()...)
}

// ListUsers implements tokenserver.Users.
func (s *Store) ListUsers(ctx context.Context, after int64, limit int, replaced bool) ([]tokenserver.User, error) {
	var r userRow
	return collect(ctx, s.db, sqlListUsers, []any{after, replaced, limit}, r.user, r.dest()...)
}

// Replace implements tokenserver.Users.
func (s *Store) Replace(ctx context.Context, a tokenserver.Account, now time.Time, retire bool) (int, error) {
	if !retire {
		return s.change(ctx, a, sqlReplace, now.UnixMilli(), a.Email())
	}
	return s.changed(ctx, sqlRetire.Name+"_tx", a, func(tx *pgdb.Tx) (int64, error) {
		n, err := tx.Exec(sqlRetire, now.UnixMilli(), a.Email())
		if err != nil {
			return 0, err
		}
		_, err = tx.Exec(sqlClearLabel, a.FxAUID)
		return n, err
	})
}

// Delete implements tokenserver.Users.
func (s *Store) Delete(ctx context.Context, a tokenserver.Account, now time.Time) (users []tokenserver.User, err error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	err = s.locked(ctx, "token.delete_tx", a, func(tx *pgdb.Tx) error {
		if _, err := tx.Exec(sqlDelete, now.UnixMilli(), a.Email()); err != nil {
			return err
		}
		if _, err := tx.Exec(sqlClearLabel, a.FxAUID); err != nil {
			return err
		}
		var r userRow
		users, err = collectTx(tx, sqlAllOfAccount, []any{a.Email()}, r.user, r.dest()...)
		return err
	})
	return users, err
}

// Revoked implements tokenserver.Users.
func (s *Store) Revoked(ctx context.Context, since time.Time) (revoked tokenserver.Revoked, err error) {
	var name string
	var uid *int64
	begin := func() { revoked = tokenserver.Revoked{} }
	add := func() error {
		if uid == nil {
			revoked.RevokeAccount(name)
		} else {
			revoked.RevokeUser(&tokenserver.User{UID: *uid, Email: name})
		}
		return nil
	}
	err = s.db.ForEach(ctx, sqlRevoked, []any{since.UnixMilli()}, begin, add, &name, &uid)
	return revoked, err
}

// ChangePassword implements tokenserver.Users.
func (s *Store) ChangePassword(ctx context.Context, a tokenserver.Account, generation int64) (int, error) {
	return s.change(ctx, a, sqlChangePassword, generation, a.Email())
}

// change runs a statement on an account, under its lock, and returns the number of changed rows.
func (s *Store) change(ctx context.Context, a tokenserver.Account, statement pgdb.Statement, args ...any) (int, error) {
	return s.changed(ctx, statement.Name+"_tx", a, func(tx *pgdb.Tx) (int64, error) { return tx.Exec(statement, args...) })
}

// changed is change for several statements.
func (s *Store) changed(ctx context.Context, name string, a tokenserver.Account, fn func(*pgdb.Tx) (int64, error)) (int, error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	var changed int64
	err := s.locked(ctx, name, a, func(tx *pgdb.Tx) (err error) {
		changed, err = fn(tx)
		return err
	})
	return int(changed), err
}

// Due implements tokenserver.Users.
func (s *Store) Due(ctx context.Context, d tokenserver.Deadlines, after tokenserver.DueUser, limit int) ([]tokenserver.DueUser, error) {
	var r userRow
	var keysLive bool
	return collect(ctx, s.db, sqlDue, []any{d.Replaced.UnixMilli(), d.Deleted.UnixMilli(), after.ReplacedAt, after.UID, limit}, func() tokenserver.DueUser {
		return tokenserver.DueUser{User: r.user(), KeysLive: keysLive}
	}, append(r.dest(), &keysLive)...)
}

// Forget implements tokenserver.Users.
func (s *Store) Forget(ctx context.Context, uid int64) error {
	var u tokenserver.User
	emails, err := collect(ctx, s.db, sqlReplacedEmail, []any{uid}, func() string { return u.Email }, &u.Email)
	if err != nil || len(emails) == 0 {
		return err
	}
	a := u.Account()
	return s.locked(ctx, "token.forget_tx", a, func(tx *pgdb.Tx) error {
		if _, err := tx.Exec(sqlForget, uid); err != nil {
			return err
		}
		_, err := tx.Exec(sqlForgetLabel, a.FxAUID, u.Email)
		return err
	})
}
