package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest/handoffs"
)

const (
	keyColumns = `id, tenant_id, secret, state, not_before, not_after, retired_at`
	selectKeys = `
		SELECT ` + keyColumns + ` FROM bff_consumer.handoff_keys `
)

var (
	sqlKeys      = pgdb.Statement{Name: "guest.handoff_keys", SQL: selectKeys + `WHERE tenant_id = $1 ORDER BY not_before, id`}
	sqlKeysOfKey = pgdb.Statement{Name: "guest.handoff_keys_of_key", SQL: selectKeys + `
		WHERE tenant_id = (SELECT tenant_id FROM bff_consumer.handoff_keys WHERE id = $1) ORDER BY not_before, id`}
	sqlAllKeys    = pgdb.Statement{Name: "guest.all_handoff_keys", SQL: selectKeys + `ORDER BY not_before, id`}
	sqlTenantKeys = pgdb.Statement{Name: "guest.tenant_keys", SQL: selectKeys + `
		WHERE tenant_id <> '' AND (tenant_id, id) > ($1, $2) ORDER BY tenant_id, id LIMIT $3`}
	sqlKey = pgdb.Statement{Name: "guest.handoff_key", SQL: selectKeys + `WHERE id = $1`}
	// sqlSigningKey locks the key. A rotation waits for mints, so that a replaced key signs no more tokens.
	sqlSigningKey = pgdb.Statement{Name: "guest.signing_key", SQL: `
		SELECT ` + restored + `, ` + keyColumns + ` FROM bff_consumer.handoff_keys WHERE state = 'active' AND tenant_id = $1 FOR SHARE`}
	sqlPutKey = pgdb.NewNamed(pgdb.Statement{Name: "guest.put_handoff_key", SQL: `
		INSERT INTO bff_consumer.handoff_keys (` + keyColumns + `) VALUES (@id, @tenant, @secret, @state, @not_before, @not_after, @retired_at)
		ON CONFLICT (id) DO UPDATE SET secret = excluded.secret, state = excluded.state, not_after = excluded.not_after, retired_at = excluded.retired_at`}, keyArgs)
	sqlHasTokens = pgdb.Statement{Name: "guest.has_tokens", SQL: `
		SELECT EXISTS (SELECT FROM bff_consumer.handoff_replay_log WHERE hmac_key_id = $1 AND minted_at > $2 AND expires_at > $3)`}
	// sqlLockKeys conflicts with itself, but not with the locks that mints hold.
	sqlLockKeys = pgdb.Statement{Name: "guest.lock_handoff_keys", SQL: `LOCK TABLE bff_consumer.handoff_keys IN SHARE ROW EXCLUSIVE MODE`}
	// sqlKeepKeys conflicts with sqlLockKeys.
	sqlKeepKeys = pgdb.Statement{Name: "guest.keep_handoff_keys", SQL: `LOCK TABLE bff_consumer.handoff_keys IN ROW EXCLUSIVE MODE`}
	sqlEpoch    = pgdb.Statement{Name: "guest.handoff_epoch", SQL: `
		SELECT clock_timestamp(), epoch, incarnation, bff_consumer.handoff_incarnation() FROM bff_consumer.handoff_epoch`}
	sqlPutEpoch = pgdb.Statement{Name: "guest.put_handoff_epoch", SQL: `UPDATE bff_consumer.handoff_epoch SET epoch = $1, incarnation = $2`}
)

// scanKey holds the destinations for a key.
type scanKey struct {
	handoffs.Key
	state             string
	notAfter, retired pgtype.Timestamptz
}

// dest returns the destinations in order.
func (s *scanKey) dest() []any {
	return []any{&s.ID, &s.Tenant, &s.Secret, &s.state, &s.NotBefore, &s.notAfter, &s.retired}
}

// key decodes the last row read.
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

// orNull stores the zero time as NULL.
func orNull(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// HandoffKeys implements handoffs.Store.
func (s *Store) HandoffKeys(ctx context.Context, tenant string) (all []handoffs.Key, err error) {
	return s.keys(ctx, sqlKeys, tenant)
}

// HandoffKey implements handoffs.Store.
func (s *Store) HandoffKey(ctx context.Context, id string) (handoffs.Key, error) {
	var row scanKey
	found, err := s.db.QueryRow(ctx, sqlKey, []any{id}, row.dest()...)
	if err == nil && !found {
		err = handoffs.ErrNoSuchKey
	}
	return row.key(), err
}

// TenantKeys implements handoffs.Store.
func (s *Store) TenantKeys(ctx context.Context, after handoffs.Key, limit int) ([]handoffs.Key, error) {
	return s.keys(ctx, sqlTenantKeys, after.Tenant, after.ID, limit)
}

// keys reads all keys that a statement returns.
func (s *Store) keys(ctx context.Context, statement pgdb.Statement, args ...any) (all []handoffs.Key, err error) {
	var row scanKey
	err = s.db.ForEach(ctx, statement, args, func() { all = nil }, func() error {
		all = append(all, row.key())
		return nil
	}, row.dest()...)
	return all, err
}

// signingKey locks a tenant's active key ("": HMAC) until the transaction ends. A statement that waited for a
// rotation does not see the new key; the next statement does.
func (t *tx) signingKey(tenant string) (handoffs.Key, error) {
	for first := true; ; first = false {
		if !first { // the key, if any, was replaced meanwhile, which this lock prevents in the second try
			if _, err := t.t.Exec(sqlKeepKeys); err != nil {
				return handoffs.Key{}, err
			}
		}
		var row scanKey
		var isRestored bool
		found, err := t.t.QueryRow(sqlSigningKey, []any{tenant}, append([]any{&isRestored}, row.dest()...)...)
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

// ChangeHandoffKeys implements handoffs.Store.
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

// readKeyRing excludes other changes until the transaction ends.
func readKeyRing(t *pgdb.Tx, c *handoffs.ChangeKeys) (r handoffs.KeyRing, err error) {
	if err := t.Queue(sqlLockKeys); err != nil {
		return r, err
	}
	if _, err := t.QueryRow(sqlEpoch, nil, &r.Now, &r.Epoch.Number, &r.Epoch.Incarnation, &r.Epoch.Current); err != nil {
		return r, err
	}
	r.Now = r.Now.UTC()
	statement, args := keysOf(c)
	var row scanKey
	err = t.ForEach(statement, args, func() error {
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

// keysOf returns the statement for the keys that a change concerns.
func keysOf(c *handoffs.ChangeKeys) (statement pgdb.Statement, args []any) {
	switch every, key, tenant := c.Scope(); {
	case every:
		return sqlAllKeys, nil
	case key != "":
		return sqlKeysOfKey, []any{key}
	default:
		return sqlKeys, []any{tenant}
	}
}

// putKey inserts or replaces a key.
func putKey(t *pgdb.Tx, k handoffs.Key) error {
	return t.Queue(sqlPutKey.Statement, sqlPutKey.Args(k)...)
}

// keyArgs are the parameters for putKey.
func keyArgs(k handoffs.Key) []pgdb.Arg {
	secret := k.Secret
	if secret == nil {
		secret = []byte{}
	}
	return []pgdb.Arg{
		{Param: "id", Value: k.ID},
		{Param: "tenant", Value: k.Tenant},
		{Param: "secret", Value: secret},
		{Param: "state", Value: string(k.State)},
		{Param: "not_before", Value: k.NotBefore},
		{Param: "not_after", Value: orNull(k.NotAfter)},
		{Param: "retired_at", Value: orNull(k.Retired)},
	}
}
