package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	sqlAccounts      = `SELECT id, name, created, max_objects, max_bytes FROM manta_bucket_account`
	sqlAccountByName = sqlAccounts + ` WHERE name = ?`
	sqlAccountByID   = sqlAccounts + ` WHERE id = ?`
	sqlListAccounts  = sqlAccounts + ` WHERE name > ? ORDER BY name LIMIT +?`

	sqlAddAccount    = `INSERT INTO manta_bucket_account (id, name, created, max_objects, max_bytes) VALUES (?, ?, ?, ?, ?)`
	sqlDeleteAccount = `DELETE FROM manta_bucket_account WHERE id = ?`
	sqlAnyBucket     = `SELECT 1 FROM manta_bucket WHERE owner = ? LIMIT 1`
	sqlDeleteKeys    = `DELETE FROM manta_bucket_key WHERE account = ?`

	keyColumns   = `id, account, secret, created, revoked, name, expires, limits`
	sqlKey       = `SELECT ` + keyColumns + ` FROM manta_bucket_key WHERE id = ?`
	sqlKeys      = `SELECT ` + keyColumns + ` FROM manta_bucket_key WHERE account = ? AND id > ? ORDER BY id LIMIT +?`
	sqlListKeys  = `SELECT ` + keyColumns + ` FROM manta_bucket_key WHERE id > ? ORDER BY id LIMIT +?`
	sqlAddKey    = `INSERT INTO manta_bucket_key (` + keyColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlChangeKey = `UPDATE manta_bucket_key SET name = ?2, expires = ?3, limits = ?4 WHERE id = ?1`
	sqlRevokeKey = `UPDATE manta_bucket_key SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL`
)

// scanAccount reads the columns in sqlAccounts.
func scanAccount(r *sqlite.Stmt) buckets.Account {
	return buckets.Account{
		ID: buckets.AccountID(r.ColumnText(0)), Name: r.ColumnText(1), Created: buckets.Moment(r.ColumnInt64(2)),
		Quota: buckets.Quota{Objects: r.ColumnInt64(3), Bytes: r.ColumnInt64(4)},
	}
}

// scanKey reads keyColumns.
func scanKey(r *sqlite.Stmt) buckets.Key {
	return buckets.Key{
		ID: r.ColumnText(0), Account: buckets.AccountID(r.ColumnText(1)), Secret: blob(r, 2),
		Created: buckets.Moment(r.ColumnInt64(3)), Revoked: buckets.Moment(r.ColumnInt64(4)),
		KeyTerms: buckets.KeyTerms{
			Name: r.ColumnText(5), Expires: buckets.Moment(r.ColumnInt64(6)), Limits: buckets.ParseKeyLimits(r.ColumnText(7)),
		},
	}
}

// exists reports whether a query returns a row.
func exists(c *sqlite.Conn, sql string, args ...any) (bool, error) {
	_, found, err := sqlitedb.QueryRow(c, sql, func(*sqlite.Stmt) bool { return true }, args...)
	return found, err
}

// hasAccount returns ErrNoAccount, so that a key or bucket never belongs to a missing account.
func hasAccount(c *sqlite.Conn, id buckets.AccountID) error {
	found, err := exists(c, sqlAccountByID, id)
	if err == nil && !found {
		return buckets.ErrNoAccount
	}
	return err
}

// CreateAccount implements buckets.Accounts.
func (s *Store) CreateAccount(ctx context.Context, a buckets.Account, keys ...buckets.Key) error {
	if err := a.ID.Check(); err != nil {
		return err
	}
	return s.db.WriteChecked(ctx, "create_account", func(c *sqlite.Conn) error {
		for sql, arg := range map[string]string{sqlAccountByName: a.Name, sqlAccountByID: string(a.ID)} {
			if found, err := exists(c, sql, arg); err != nil || found {
				if err == nil {
					err = buckets.ErrAccountExists
				}
				return err
			}
		}
		for _, k := range keys {
			if err := isNewKey(c, k.ID); err != nil {
				return err
			}
		}
		return nil
	}, func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlAddAccount, a.ID, a.Name, a.Created, a.Quota.Objects, a.Quota.Bytes); err != nil {
			return err
		}
		for _, k := range keys {
			if err := addKey(c, k); err != nil {
				return err
			}
		}
		return sqlitedb.Exec(c, sqlSetQuota, a.ID, account, a.Quota.Objects, a.Quota.Bytes)
	})
}

// readAccount returns ErrNoAccount if the query finds nothing.
func (s *Store) readAccount(ctx context.Context, sql, arg string) (a buckets.Account, err error) {
	err = s.db.Read(ctx, "account", func(c *sqlite.Conn) error {
		var found bool
		if a, found, err = sqlitedb.QueryRow(c, sql, scanAccount, arg); err == nil && !found {
			err = buckets.ErrNoAccount
		}
		return err
	})
	return a, err
}

// Account implements buckets.Accounts.
func (s *Store) Account(ctx context.Context, name string) (buckets.Account, error) {
	return s.readAccount(ctx, sqlAccountByName, name)
}

// AccountByID implements buckets.Accounts.
func (s *Store) AccountByID(ctx context.Context, id buckets.AccountID) (buckets.Account, error) {
	return s.readAccount(ctx, sqlAccountByID, string(id))
}

// ListAccounts implements buckets.Accounts.
func (s *Store) ListAccounts(ctx context.Context, after string, limit int) (all []buckets.Account, err error) {
	err = s.db.Read(ctx, "list_accounts", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlListAccounts, scanAccount, after, limit)
		return err
	})
	return all, err
}

// DeleteAccount implements buckets.Accounts.
func (s *Store) DeleteAccount(ctx context.Context, id buckets.AccountID) error {
	if err := id.Check(); err != nil {
		return err
	}
	return s.db.WriteChecked(ctx, "delete_account", func(c *sqlite.Conn) error {
		if err := hasAccount(c, id); err != nil {
			return err
		}
		found, err := exists(c, sqlAnyBucket, id)
		if err == nil && found {
			err = buckets.ErrAccountHasBucket
		}
		return err
	}, func(c *sqlite.Conn) error {
		// Keep the counters, because deleted buckets may still have uploads.
		if err := sqlitedb.Exec(c, sqlDeleteKeys, id); err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlDeleteAccount, id)
	})
}

// CreateKey implements buckets.Accounts.
func (s *Store) CreateKey(ctx context.Context, k buckets.Key) error {
	if err := k.Account.Check(); err != nil {
		return err
	}
	return s.db.WriteChecked(ctx, "create_key", func(c *sqlite.Conn) error {
		if err := hasAccount(c, k.Account); err != nil {
			return err
		}
		return isNewKey(c, k.ID)
	}, func(c *sqlite.Conn) error { return addKey(c, k) })
}

// isNewKey returns ErrKeyExists if the key ID is taken, also by a revoked key.
func isNewKey(c *sqlite.Conn, id string) error {
	found, err := exists(c, sqlKey, id)
	if err == nil && found {
		err = buckets.ErrKeyExists
	}
	return err
}

// addKey inserts a key that isNewKey accepted.
func addKey(c *sqlite.Conn, k buckets.Key) error {
	return sqlitedb.Exec(c, sqlAddKey, k.ID, k.Account, k.Secret, k.Created, orNull(k.Revoked), k.Name, orNull(k.Expires), k.Limits.Text())
}

// Key implements buckets.Accounts.
func (s *Store) Key(ctx context.Context, id string) (k buckets.Key, err error) {
	err = s.db.Read(ctx, "key", func(c *sqlite.Conn) error {
		var found bool
		if k, found, err = sqlitedb.QueryRow(c, sqlKey, scanKey, id); err == nil && !found {
			err = buckets.ErrNoKey
		}
		return err
	})
	return k, err
}

// Keys implements buckets.Accounts.
func (s *Store) Keys(ctx context.Context, id buckets.AccountID, after string, limit int) (all []buckets.Key, err error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "keys", func(c *sqlite.Conn) error {
		if err := hasAccount(c, id); err != nil {
			return err
		}
		all, err = sqlitedb.QueryAll(c, sqlKeys, scanKey, id, after, limit)
		return err
	})
	return all, err
}

// ListKeys implements buckets.Accounts.
func (s *Store) ListKeys(ctx context.Context, after string, limit int) (all []buckets.Key, err error) {
	err = s.db.Read(ctx, "list_keys", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlListKeys, scanKey, after, limit)
		return err
	})
	return all, err
}

// ChangeKey implements buckets.Accounts.
func (s *Store) ChangeKey(ctx context.Context, id string, from, to buckets.KeyTerms) error {
	return s.db.WriteChecked(ctx, "change_key", func(c *sqlite.Conn) error {
		k, found, err := sqlitedb.QueryRow(c, sqlKey, scanKey, id)
		switch {
		case err != nil:
			return err
		case !found || k.Revoked != 0:
			return buckets.ErrNoKey
		case !k.Equal(&from):
			return buckets.ErrKeyChanged
		}
		return nil
	}, func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlChangeKey, id, to.Name, orNull(to.Expires), to.Limits.Text())
	})
}

// RevokeKey implements buckets.Accounts.
func (s *Store) RevokeKey(ctx context.Context, id string, now buckets.Moment) error {
	return s.db.WriteChecked(ctx, "revoke_key", func(c *sqlite.Conn) error {
		found, err := exists(c, sqlKey, id)
		if err == nil && !found {
			err = buckets.ErrNoKey
		}
		return err
	}, func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlRevokeKey, id, now) })
}
