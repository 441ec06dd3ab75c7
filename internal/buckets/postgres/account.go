package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

// accounts reads all accounts that a statement returns.
func (s *Store) accounts(ctx context.Context, st pgdb.Statement, args ...any) (all []buckets.Account, err error) {
	var id string
	var a buckets.Account
	var created pgtype.Timestamptz
	err = s.db.ForEach(ctx, st, args, func() { all = nil }, func() error {
		a.ID, a.Created = buckets.AccountID(id), momentOf(created)
		all = append(all, a)
		return nil
	}, &id, &a.Name, &created, &a.Quota.Objects, &a.Quota.Bytes)
	return all, err
}

// oneAccount returns ErrNoAccount if the statement returns nothing.
func (s *Store) oneAccount(ctx context.Context, st pgdb.Statement, arg string) (buckets.Account, error) {
	all, err := s.accounts(ctx, st, arg)
	if err != nil {
		return buckets.Account{}, err
	}
	if len(all) == 0 {
		return buckets.Account{}, buckets.ErrNoAccount
	}
	return all[0], nil
}

// CreateAccount implements buckets.Accounts.
func (s *Store) CreateAccount(ctx context.Context, a buckets.Account, keys ...buckets.Key) error {
	if err := a.ID.Check(); err != nil {
		return err
	}
	return s.db.Tx(ctx, "buckets.create_account", func(tx *pgdb.Tx) error {
		n, err := tx.Exec(sqlCreateAccount, string(a.ID), a.Name, at(a.Created), a.Quota.Objects, a.Quota.Bytes)
		if err == nil && n == 0 {
			err = buckets.ErrAccountExists
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := createKey(tx, k); err != nil {
				return err
			}
		}
		return setAccountQuota(tx, a.ID, a.Quota)
	})
}

// Account implements buckets.Accounts.
func (s *Store) Account(ctx context.Context, name string) (buckets.Account, error) {
	return s.oneAccount(ctx, sqlAccount, name)
}

// AccountByID implements buckets.Accounts.
func (s *Store) AccountByID(ctx context.Context, id buckets.AccountID) (buckets.Account, error) {
	return s.oneAccount(ctx, sqlAccountByID, string(id))
}

// ListAccounts implements buckets.Accounts.
func (s *Store) ListAccounts(ctx context.Context, after string, limit int) ([]buckets.Account, error) {
	return s.accounts(ctx, sqlListAccounts, after, limit)
}

// DeleteAccount keeps the usage counters, because deleted buckets may still have uploads.
func (s *Store) DeleteAccount(ctx context.Context, id buckets.AccountID) error {
	if err := id.Check(); err != nil {
		return err
	}
	return s.db.Tx(ctx, "buckets.delete_account", func(tx *pgdb.Tx) error {
		if _, err := tx.Exec(sqlLockAccount, string(id)); err != nil {
			return err
		}
		n, err := tx.Exec(sqlDeleteAccount, string(id))
		if err != nil {
			return err
		}
		if n == 0 {
			return buckets.ErrNoAccount
		}
		found, err := tx.QueryRow(sqlHasBucket, []any{string(id)}, new(int))
		if err != nil {
			return err
		}
		if found {
			return buckets.ErrAccountHasBucket
		}
		_, err = tx.Exec(sqlDeleteKeys, string(id))
		return err
	})
}

// shareAccount locks the account against deletion until the commit, or returns ErrNoAccount.
func shareAccount(tx *pgdb.Tx, id buckets.AccountID) error {
	var found bool
	_, err := tx.QueryRow(sqlShareAccount, []any{string(id)}, &found)
	if err == nil && !found {
		err = buckets.ErrNoAccount
	}
	return err
}

// CreateKey implements buckets.Accounts.
func (s *Store) CreateKey(ctx context.Context, k buckets.Key) error {
	if err := k.Account.Check(); err != nil {
		return err
	}
	return s.db.Tx(ctx, "buckets.create_access_key", func(tx *pgdb.Tx) error {
		if err := shareAccount(tx, k.Account); err != nil {
			return err
		}
		return createKey(tx, k)
	})
}

// createKey returns ErrKeyExists if the key ID is taken, also by a revoked key.
func createKey(tx *pgdb.Tx, k buckets.Key) error {
	n, err := tx.Exec(sqlCreateKey, k.ID, string(k.Account), k.Secret, at(k.Created), atOrNull(k.Revoked), k.Name, atOrNull(k.Expires), k.Limits.Text())
	if err == nil && n == 0 {
		err = buckets.ErrKeyExists
	}
	return err
}

// keys reads all keys that a statement returns.
func (s *Store) keys(ctx context.Context, st pgdb.Statement, args ...any) (all []buckets.Key, err error) {
	var id, account, name, limits string
	var secret []byte
	var created, revoked, expires pgtype.Timestamptz
	err = s.db.ForEach(ctx, st, args, func() { all = nil }, func() error {
		all = append(all, buckets.Key{
			ID: id, Account: buckets.AccountID(account), Secret: secret, Created: momentOf(created), Revoked: momentOf(revoked),
			KeyTerms: buckets.KeyTerms{Name: name, Expires: momentOf(expires), Limits: buckets.ParseKeyLimits(limits)},
		})
		secret = nil
		return nil
	}, &id, &account, &secret, &created, &revoked, &name, &expires, &limits)
	return all, err
}

// Key implements buckets.Accounts.
func (s *Store) Key(ctx context.Context, id string) (buckets.Key, error) {
	all, err := s.keys(ctx, sqlKey, id)
	if err != nil {
		return buckets.Key{}, err
	}
	if len(all) == 0 {
		return buckets.Key{}, buckets.ErrNoKey
	}
	return all[0], nil
}

// Keys implements buckets.Accounts.
func (s *Store) Keys(ctx context.Context, id buckets.AccountID, after string, limit int) ([]buckets.Key, error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	if _, err := s.AccountByID(ctx, id); err != nil {
		return nil, err
	}
	return s.keys(ctx, sqlKeys, string(id), after, limit)
}

// ListKeys implements buckets.Accounts.
func (s *Store) ListKeys(ctx context.Context, after string, limit int) ([]buckets.Key, error) {
	return s.keys(ctx, sqlListKeys, after, limit)
}

// ChangeKey implements buckets.Accounts.
func (s *Store) ChangeKey(ctx context.Context, id string, from, to buckets.KeyTerms) error {
	n, err := s.db.Exec(ctx, sqlChangeKey, id, to.Name, atOrNull(to.Expires), to.Limits.Text(), from.Name, atOrNull(from.Expires), from.Limits.Text())
	if err != nil || n > 0 {
		return err
	}
	k, err := s.Key(ctx, id)
	switch {
	case err != nil:
		return err
	case k.Revoked != 0:
		return buckets.ErrNoKey
	case k.Equal(&to): // an earlier attempt succeeded
		return nil
	}
	return buckets.ErrKeyChanged
}

// RevokeKey implements buckets.Accounts.
func (s *Store) RevokeKey(ctx context.Context, id string, now buckets.Moment) error {
	n, err := s.db.Exec(ctx, sqlRevokeKey, id, at(now))
	if err == nil && n == 0 {
		err = buckets.ErrNoKey
	}
	return err
}
