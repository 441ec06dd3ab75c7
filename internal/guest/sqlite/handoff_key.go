package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
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

func scanKey(r *sqlite.Stmt) guest.HandoffKey {
	return guest.HandoffKey{
		ID: r.ColumnText(0), Secret: blob(r, 1), State: guest.KeyState(r.ColumnText(2)),
		NotBefore: orZero(r, 3), NotAfter: orZero(r, 4), Retired: orZero(r, 5),
	}
}

// HandoffKeys implements guest.Store.
func (s *Store) HandoffKeys(ctx context.Context) (all []guest.HandoffKey, err error) {
	err = s.db.Read(ctx, "handoff_keys", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlKeys, scanKey)
		return err
	})
	return all, err
}

// SigningKey implements guest.Tx. Whether the file was restored is checked before it is
// served.
func (t *tx) SigningKey() (guest.HandoffKey, error) {
	key, found, err := sqlitedb.QueryRow(t.c, sqlSigningKey, scanKey)
	if err == nil && !found {
		err = guest.ErrNoKey
	}
	return key, err
}

// ChangeHandoffKeys implements guest.Store.
func (s *Store) ChangeHandoffKeys(ctx context.Context, fn func(guest.HandoffKeyTx) error) error {
	return s.db.Write(ctx, "change_handoff_keys", func(c *sqlite.Conn) error { return fn(&keyTx{c, s.time()}) })
}

// keyTx implements guest.HandoffKeyTx.
type keyTx struct {
	c   *sqlite.Conn
	now time.Time
}

// Now implements guest.HandoffKeyTx.
func (t *keyTx) Now() time.Time { return t.now }

// Keys implements guest.HandoffKeyTx.
func (t *keyTx) Keys() ([]guest.HandoffKey, error) { return sqlitedb.QueryAll(t.c, sqlKeys, scanKey) }

// Put implements guest.HandoffKeyTx.
func (t *keyTx) Put(k guest.HandoffKey) error {
	secret := k.Secret
	if secret == nil {
		secret = []byte{}
	}
	return sqlitedb.Exec(t.c, sqlPutKey, k.ID, secret, string(k.State), k.NotBefore.UnixMicro(), orNullTime(k.NotAfter), orNullTime(k.Retired))
}

// HasTokens implements guest.HandoffKeyTx.
func (t *keyTx) HasTokens(key string, after time.Time) (bool, error) {
	_, found, err := sqlitedb.QueryRow(t.c, sqlHasTokens, func(*sqlite.Stmt) bool { return true },
		key, after.Add(-time.Hour).UnixMicro(), after.UnixMicro())
	return found, err
}

// Epoch implements guest.HandoffKeyTx.
func (t *keyTx) Epoch() (guest.Epoch, error) {
	e, _, err := sqlitedb.QueryRow(t.c, sqlEpoch, func(r *sqlite.Stmt) guest.Epoch {
		return guest.Epoch{Number: r.ColumnInt64(0), Incarnation: r.ColumnText(1)}
	})
	return e, err
}

// PutEpoch implements guest.HandoffKeyTx.
func (t *keyTx) PutEpoch(e guest.Epoch) error {
	return sqlitedb.Exec(t.c, sqlPutEpoch, e.Number, e.Incarnation)
}

// EraseKeys retires all keys in a copy of a file: handoffs that are open in the copy may be
// consumed in the file before the copy is restored.
func EraseKeys(ctx context.Context, db *sqlitedb.DB, now time.Time) error {
	return db.Write(ctx, "erase_keys", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sqlEraseKeys, now.UnixMicro()) })
}
