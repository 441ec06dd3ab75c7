package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest/handoffs"
)

const keyColumns = `id, secret, state, not_before, not_after, retired_at`

var (
	sqlKeys = pgdb.Statement{Name: "guest.handoff_keys", SQL: `
		SELECT ` + keyColumns + ` FROM bff_consumer.handoff_keys ORDER BY not_before, id`}
	// A rotation waits for mints, so that a key has no new tokens once it is replaced.
	sqlSigningKey = pgdb.Statement{Name: "guest.signing_key", SQL: `
		SELECT ` + restored + `, ` + keyColumns + ` FROM bff_consumer.handoff_keys WHERE state = 'active' FOR SHARE`}
	sqlPutKey = pgdb.NewNamed(pgdb.Statement{Name: "guest.put_handoff_key", SQL: `
		INSERT INTO bff_consumer.handoff_keys (` + keyColumns + `) VALUES (@id, @secret, @state, @not_before, @not_after, @retired_at)
		ON CONFLICT (id) DO UPDATE SET secret = excluded.secret, state = excluded.state, not_after = excluded.not_after, retired_at = excluded.retired_at`}, keyArgs)
	sqlHasTokens = pgdb.Statement{Name: "guest.has_tokens", SQL: `
		SELECT EXISTS (SELECT FROM bff_consumer.handoff_replay_log WHERE hmac_key_id = $1 AND minted_at > $2 AND expires_at > $3)`}
	// It excludes others of its kind, and not the locks of mints.
	sqlLockKeys = pgdb.Statement{Name: "guest.lock_handoff_keys", SQL: `LOCK TABLE bff_consumer.handoff_keys IN SHARE ROW EXCLUSIVE MODE`}
	// It excludes sqlLockKeys.
	sqlKeepKeys = pgdb.Statement{Name: "guest.keep_handoff_keys", SQL: `LOCK TABLE bff_consumer.handoff_keys IN ROW EXCLUSIVE MODE`}
	sqlEpoch    = pgdb.Statement{Name: "guest.handoff_epoch", SQL: `
		SELECT clock_timestamp(), epoch, incarnation, bff_consumer.handoff_incarnation() FROM bff_consumer.handoff_epoch`}
	sqlPutEpoch = pgdb.Statement{Name: "guest.put_handoff_epoch", SQL: `UPDATE bff_consumer.handoff_epoch SET epoch = $1, incarnation = $2`}
)

// scanKey scans rows of keyColumns.
type scanKey struct {
	handoffs.Key
	state             string
	notAfter, retired pgtype.Timestamptz
}

func (s *scanKey) dest() []any {
	return []any{&s.ID, &s.Secret, &s.state, &s.NotBefore, &s.notAfter, &s.retired}
}

func (s *scanKey) key() handoffs.Key {
	k := s.Key
	k.State, k.NotBefore = handoffs.KeyState(s.state), k.NotBefore.UTC()
	if s.notAfter.Valid {
		k.NotAfter = s.notAfter.Time.UTC()
	}
	if s.retired.Valid {
		k.Retired = s.retired.Time.UTC()
	}
	return k
}

func orNull(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// HandoffKeys implements backend.Store.
func (s *Store) HandoffKeys(ctx context.Context) (all []handoffs.Key, err error) {
	var row scanKey
	err = s.db.ForEach(ctx, sqlKeys, nil, func() { all = nil }, func() error {
		all = append(all, row.key())
		return nil
	}, row.dest()...)
	return all, err
}

// signingKey returns the active key, which no one changes until the end of the transaction. A statement that waited for a rotation does not see the
// new key, but the next one does.
func (t *tx) signingKey() (handoffs.Key, error) {
	for first := true; ; first = false {
		if !first { // the key was replaced meanwhile, if there is one: now it cannot be
			if _, err := t.t.Exec(sqlKeepKeys); err != nil {
				return handoffs.Key{}, err
			}
		}
		var row scanKey
		var isRestored bool
		found, err := t.t.QueryRow(sqlSigningKey, nil, append([]any{&isRestored}, row.dest()...)...)
		switch {
		case err != nil:
			return handoffs.Key{}, err
		case found && isRestored:
			return handoffs.Key{}, handoffs.ErrRestored
		case found:
			return row.key(), nil
		case !first:
			return handoffs.Key{}, handoffs.ErrNoKey
		}
	}
}

// ChangeHandoffKeys implements backend.Store.
func (s *Store) ChangeHandoffKeys(ctx context.Context, c handoffs.ChangeKeys) (r handoffs.ChangedKeys, err error) {
	err = s.db.Tx(ctx, "guest.change_handoff_keys", func(t *pgdb.Tx) error {
		ring, err := readKeyRing(t, &c)
		if err != nil {
			return err
		}
		if r, err = c.Decide(ring); err != nil {
			return err
		}
		for _, k := range r.Put {
			if err := putKey(t, k); err != nil {
				return err
			}
		}
		if r.Epoch == nil {
			return nil
		}
		return t.Queue(sqlPutEpoch, r.Epoch.Number, r.Epoch.Incarnation)
	})
	return r, err
}

// readKeyRing reads the keys. It excludes other changes until the end of the transaction.
func readKeyRing(t *pgdb.Tx, c *handoffs.ChangeKeys) (r handoffs.KeyRing, err error) {
	if err := t.Queue(sqlLockKeys); err != nil {
		return r, err
	}
	if _, err := t.QueryRow(sqlEpoch, nil, &r.Now, &r.Epoch.Number, &r.Epoch.Incarnation, &r.Epoch.Current); err != nil {
		return r, err
	}
	r.Now = r.Now.UTC()
	var row scanKey
	err = t.ForEach(sqlKeys, nil, func() error {
		r.All = append(r.All, row.key())
		return nil
	}, row.dest()...)
	key := c.TokensOf()
	if err != nil || key == "" {
		return r, err
	}
	after := c.TokensAfter(r.Now)
	_, err = t.QueryRow(sqlHasTokens, []any{key, after.Add(-time.Hour), after}, &r.HasTokens)
	return r, err
}

func putKey(t *pgdb.Tx, k handoffs.Key) error {
	return t.Queue(sqlPutKey.Statement, sqlPutKey.Args(k)...)
}

// keyArgs returns the arguments of sqlPutKey.
func keyArgs(k handoffs.Key) []pgdb.Arg {
	secret := k.Secret
	if secret == nil {
		secret = []byte{}
	}
	return []pgdb.Arg{
		{Param: "id", Value: k.ID},
		{Param: "secret", Value: secret},
		{Param: "state", Value: string(k.State)},
		{Param: "not_before", Value: k.NotBefore},
		{Param: "not_after", Value: orNull(k.NotAfter)},
		{Param: "retired_at", Value: orNull(k.Retired)},
	}
}
