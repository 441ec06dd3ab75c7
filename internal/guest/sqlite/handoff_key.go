package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest/handoffs"
)

const (
	keyColumns = `id, tenant_id, secret, state, not_before, not_after, retired_at`
	selectKeys = `SELECT ` + keyColumns + ` FROM bff_consumer_handoff_keys `

	sqlKeys       = selectKeys + `WHERE tenant_id = ? ORDER BY not_before, id`
	sqlKeysOfKey  = selectKeys + `WHERE tenant_id = (SELECT tenant_id FROM bff_consumer_handoff_keys WHERE id = ?) ORDER BY not_before, id`
	sqlAllKeys    = selectKeys + `ORDER BY not_before, id`
	sqlTenantKeys = selectKeys + `WHERE tenant_id <> '' AND (tenant_id, id) > (?, ?) ORDER BY tenant_id, id LIMIT ?`
	sqlKey        = selectKeys + `WHERE id = ?`
	sqlSigningKey = selectKeys + `WHERE state = 'active' AND tenant_id = ?`
	sqlPutKey     = `INSERT OR REPLACE INTO bff_consumer_handoff_keys (` + keyColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlHasTokens  = `SELECT 1 FROM bff_consumer_handoff_replay_log WHERE hmac_key_id = ? AND minted_at > ? AND expires_at > ? LIMIT 1`
	sqlEpoch      = `SELECT epoch, incarnation FROM bff_consumer_handoff_epoch`
	sqlPutEpoch   = `UPDATE bff_consumer_handoff_epoch SET epoch = ?, incarnation = ?`
	sqlEraseKeys  = `UPDATE bff_consumer_handoff_keys SET secret = x'', state = 'retired', retired_at = ? WHERE state <> 'retired'`
)

// scanKey reads a key.
func scanKey(r *sqlite.Stmt) handoffs.Key { return scanKeyAt(r, 0) }

// scanKeyAt reads a key whose columns begin at i.
func scanKeyAt(r *sqlite.Stmt, i int) handoffs.Key {
	return handoffs.Key{
		ID: r.ColumnText(i), Tenant: r.ColumnText(i + 1), Secret: blob(r, i+2), State: handoffs.KeyState(r.ColumnText(i + 3)),
		NotBefore: orZero(r, i+4), NotAfter: orZero(r, i+5), Retired: orZero(r, i+6),
	}
}

// HandoffKeys implements handoffs.Store.
func (s *Store) HandoffKeys(ctx context.Context, tenant string) (all []handoffs.Key, err error) {
	err = s.db.Read(ctx, "handoff_keys", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlKeys, scanKey, tenant)
		return err
	})
	return all, err
}

// HandoffKey implements handoffs.Store.
func (s *Store) HandoffKey(ctx context.Context, id string) (key handoffs.Key, err error) {
	err = s.db.Read(ctx, "handoff_key", func(c *sqlite.Conn) error {
		stored, found, err := sqlitedb.QueryRow(c, sqlKey, scanKey, id)
		if err == nil && !found {
			err = handoffs.ErrNoSuchKey
		}
		key = stored
		return err
	})
	return key, err
}

// TenantKeys implements handoffs.Store.
func (s *Store) TenantKeys(ctx context.Context, after handoffs.Key, limit int) (all []handoffs.Key, err error) {
	err = s.db.Read(ctx, "tenant_keys", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlTenantKeys, scanKey, after.Tenant, after.ID, limit)
		return err
	})
	return all, err
}

// ChangeHandoffKeys implements handoffs.Store.
func (s *Store) ChangeHandoffKeys(ctx context.Context, change handoffs.ChangeKeys) (r handoffs.ChangedKeys, err error) {
	err = s.db.Write(ctx, "change_handoff_keys", func(c *sqlite.Conn) error {
		ring, err := readKeyRing(c, &change, s.time())
		if err != nil {
			return err
		}
		if r, err = change.Decide(ring); err != nil {
			return err
		}
		for _, k := range r.Put {
			if err := putKey(c, k); err != nil {
				return err
			}
		}
		if r.Epoch == nil {
			return nil
		}
		return sqlitedb.Exec(c, sqlPutEpoch, r.Epoch.Number, r.Epoch.Incarnation)
	})
	return r, err
}

// readKeyRing reads the keys that a change concerns.
func readKeyRing(c *sqlite.Conn, change *handoffs.ChangeKeys, now time.Time) (r handoffs.KeyRing, err error) {
	r.Now = now
	switch every, key, tenant := change.Scope(); {
	case every:
		r.All, err = sqlitedb.QueryAll(c, sqlAllKeys, scanKey)
	case key != "":
		r.All, err = sqlitedb.QueryAll(c, sqlKeysOfKey, scanKey, key)
	default:
		r.All, err = sqlitedb.QueryAll(c, sqlKeys, scanKey, tenant)
	}
	if err != nil {
		return r, err
	}
	r.Epoch, _, err = sqlitedb.QueryRow(c, sqlEpoch, func(r *sqlite.Stmt) handoffs.Epoch {
		return handoffs.Epoch{Number: r.ColumnInt64(0), Incarnation: r.ColumnText(1)}
	})
	key := change.TokensOf()
	if err != nil || key == "" {
		return r, err
	}
	after := change.TokensAfter(now)
	_, r.HasTokens, err = sqlitedb.QueryRow(c, sqlHasTokens, func(*sqlite.Stmt) bool { return true }, key, after.Add(-time.Hour).UnixMicro(), after.UnixMicro())
	return r, err
}

// putKey inserts or replaces a key.
func putKey(c *sqlite.Conn, k handoffs.Key) error {
	secret := k.Secret
	if secret == nil {
		secret = []byte{}
	}
	return sqlitedb.Exec(c, sqlPutKey, k.ID, k.Tenant, secret, string(k.State), k.NotBefore.UnixMicro(), orNullTime(k.NotAfter), orNullTime(k.Retired))
}

// EraseKeys retires all keys in a copy of a file: handoffs that are open in the copy may be consumed in the file
// before the copy is restored.
func EraseKeys(ctx context.Context, db *sqlitedb.DB, now time.Time) error {
	return db.Write(ctx, "erase_keys", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlEraseKeys, now.UnixMicro()) })
}
