package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest/handoffs"
)

const (
	keyColumns = `id, secret, state, not_before, not_after, retired_at`

	sqlKeys       = `SELECT ` + keyColumns + ` FROM bff_consumer_handoff_keys ORDER BY not_before, id`
	sqlSigningKey = `SELECT ` + keyColumns + ` FROM bff_consumer_handoff_keys WHERE state = 'active'`
	sqlPutKey     = `INSERT OR REPLACE INTO bff_consumer_handoff_keys (` + keyColumns + `) VALUES (?, ?, ?, ?, ?, ?)`
	sqlHasTokens  = `SELECT 1 FROM bff_consumer_handoff_replay_log WHERE hmac_key_id = ? AND minted_at > ? AND expires_at > ? LIMIT 1`
	sqlEpoch      = `SELECT epoch, incarnation FROM bff_consumer_handoff_epoch`
	sqlPutEpoch   = `UPDATE bff_consumer_handoff_epoch SET epoch = ?, incarnation = ?`
	sqlEraseKeys  = `UPDATE bff_consumer_handoff_keys SET secret = x'', state = 'retired', retired_at = ? WHERE state <> 'retired'`
)

func scanKey(r *sqlite.Stmt) handoffs.Key {
	return handoffs.Key{
		ID: r.ColumnText(0), Secret: blob(r, 1), State: handoffs.KeyState(r.ColumnText(2)),
		NotBefore: orZero(r, 3), NotAfter: orZero(r, 4), Retired: orZero(r, 5),
	}
}

// HandoffKeys implements backend.Store.
func (s *Store) HandoffKeys(ctx context.Context) (all []handoffs.Key, err error) {
	err = s.db.Read(ctx, "handoff_keys", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlKeys, scanKey)
		return err
	})
	return all, err
}

// ChangeHandoffKeys implements backend.Store.
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

func readKeyRing(c *sqlite.Conn, change *handoffs.ChangeKeys, now time.Time) (r handoffs.KeyRing, err error) {
	r.Now = now
	if r.All, err = sqlitedb.QueryAll(c, sqlKeys, scanKey); err != nil {
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

func putKey(c *sqlite.Conn, k handoffs.Key) error {
	secret := k.Secret
	if secret == nil {
		secret = []byte{}
	}
	return sqlitedb.Exec(c, sqlPutKey, k.ID, secret, string(k.State), k.NotBefore.UnixMicro(), orNullTime(k.NotAfter), orNullTime(k.Retired))
}

// EraseKeys retires all keys in a copy of a file: handoffs that are open in the copy may be
// consumed in the file before the copy is restored.
func EraseKeys(ctx context.Context, db *sqlitedb.DB, now time.Time) error {
	return db.Write(ctx, "erase_keys", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlEraseKeys, now.UnixMicro()) })
}
