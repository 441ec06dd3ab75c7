package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
)

const keyColumns = `id, secret, state, not_before, not_after, retired_at`

var (
	sqlKeys = pgdb.Statement{Name: "guest.handoff_keys", SQL: `
		SELECT ` + keyColumns + ` FROM bff_consumer.handoff_keys ORDER BY not_before, id`}
	// A rotation waits for mints, so that a key has no new tokens once it is replaced.
	sqlSigningKey = pgdb.Statement{Name: "guest.signing_key", SQL: `
		SELECT ` + restored + `, ` + keyColumns + ` FROM bff_consumer.handoff_keys WHERE state = 'active' FOR SHARE`}
	sqlPutKey = pgdb.Statement{Name: "guest.put_handoff_key", SQL: `
		INSERT INTO bff_consumer.handoff_keys (` + keyColumns + `) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET secret = excluded.secret, state = excluded.state, not_after = excluded.not_after, retired_at = excluded.retired_at`}
	sqlHasTokens = pgdb.Statement{Name: "guest.has_tokens", SQL: `
		SELECT EXISTS (SELECT FROM bff_consumer.handoff_replay_log WHERE hmac_key_id = $1 AND minted_at > $2 AND expires_at > $3)`}
	// It excludes others of its kind, and not the locks of mints.
	sqlLockKeys = pgdb.Statement{Name: "guest.lock_handoff_keys", SQL: `LOCK TABLE bff_consumer.handoff_keys IN SHARE ROW EXCLUSIVE MODE`}
	// It excludes sqlLockKeys.
	sqlKeepKeys = pgdb.Statement{Name: "guest.keep_handoff_keys", SQL: `LOCK TABLE bff_consumer.handoff_keys IN ROW EXCLUSIVE MODE`}
	sqlNow      = pgdb.Statement{Name: "guest.now", SQL: `SELECT clock_timestamp()`}
	sqlEpoch    = pgdb.Statement{Name: "guest.handoff_epoch", SQL: `
		SELECT epoch, incarnation, bff_consumer.handoff_incarnation() FROM bff_consumer.handoff_epoch`}
	sqlPutEpoch = pgdb.Statement{Name: "guest.put_handoff_epoch", SQL: `UPDATE bff_consumer.handoff_epoch SET epoch = $1, incarnation = $2`}
)

// scanKey scans rows of keyColumns.
type scanKey struct {
	guest.HandoffKey
	state             string
	notAfter, retired pgtype.Timestamptz
}

func (s *scanKey) dest() []any {
	return []any{&s.ID, &s.Secret, &s.state, &s.NotBefore, &s.notAfter, &s.retired}
}

func (s *scanKey) key() guest.HandoffKey {
	k := s.HandoffKey
	k.State, k.NotBefore = guest.KeyState(s.state), k.NotBefore.UTC()
	if s.notAfter.Valid {
		k.NotAfter = s.notAfter.Time.UTC()
	}
	if s.retired.Valid {
		k.Retired = s.retired.Time.UTC()
	}
	return k
}

func orNull(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// HandoffKeys implements guest.Store.
func (s *Store) HandoffKeys(ctx context.Context) (all []guest.HandoffKey, err error) {
	var row scanKey
	err = s.db.ForEach(ctx, sqlKeys, nil, func() { all = nil }, func() error {
		all = append(all, row.key())
		return nil
	}, row.dest()...)
	return all, err
}

// SigningKey implements guest.Tx. A statement that waited for a rotation does not see the
// new key, but the next one does.
func (t *tx) SigningKey() (guest.HandoffKey, error) {
	for first := true; ; first = false {
		if !first { // the key was replaced meanwhile, if there is one: now it cannot be
			if _, err := t.t.Exec(sqlKeepKeys); err != nil {
				return guest.HandoffKey{}, err
			}
		}
		var row scanKey
		var isRestored bool
		found, err := t.t.QueryRow(sqlSigningKey, nil, append([]any{&isRestored}, row.dest()...)...)
		switch {
		case err != nil:
			return guest.HandoffKey{}, err
		case found && isRestored:
			return guest.HandoffKey{}, guest.ErrRestored
		case found:
			return row.key(), nil
		case !first:
			return guest.HandoffKey{}, guest.ErrNoKey
		}
	}
}

// ChangeHandoffKeys implements guest.Store.
func (s *Store) ChangeHandoffKeys(ctx context.Context, fn func(guest.HandoffKeyTx) error) error {
	return s.db.Tx(ctx, "guest.change_handoff_keys", func(t *pgdb.Tx) error {
		if _, err := t.Exec(sqlLockKeys); err != nil {
			return err
		}
		var now time.Time
		if _, err := t.QueryRow(sqlNow, nil, &now); err != nil {
			return err
		}
		return fn(&keyTx{t, now.UTC()})
	})
}

// keyTx implements guest.HandoffKeyTx.
type keyTx struct {
	t   *pgdb.Tx
	now time.Time
}

// Now implements guest.HandoffKeyTx.
func (t *keyTx) Now() time.Time { return t.now }

// Keys implements guest.HandoffKeyTx.
func (t *keyTx) Keys() (all []guest.HandoffKey, err error) {
	var row scanKey
	err = t.t.ForEach(sqlKeys, nil, func() error {
		all = append(all, row.key())
		return nil
	}, row.dest()...)
	return all, err
}

// Put implements guest.HandoffKeyTx.
func (t *keyTx) Put(k guest.HandoffKey) error {
	secret := k.Secret
	if secret == nil {
		secret = []byte{}
	}
	_, err := t.t.Exec(sqlPutKey, k.ID, secret, string(k.State), k.NotBefore, orNull(k.NotAfter), orNull(k.Retired))
	return err
}

// HasTokens implements guest.HandoffKeyTx.
func (t *keyTx) HasTokens(key string, after time.Time) (has bool, err error) {
	_, err = t.t.QueryRow(sqlHasTokens, []any{key, after.Add(-time.Hour), after}, &has)
	return has, err
}

// Epoch implements guest.HandoffKeyTx.
func (t *keyTx) Epoch() (e guest.Epoch, err error) {
	_, err = t.t.QueryRow(sqlEpoch, nil, &e.Number, &e.Incarnation, &e.Current)
	return e, err
}

// PutEpoch implements guest.HandoffKeyTx.
func (t *keyTx) PutEpoch(e guest.Epoch) error {
	_, err := t.t.Exec(sqlPutEpoch, e.Number, e.Incarnation)
	return err
}
