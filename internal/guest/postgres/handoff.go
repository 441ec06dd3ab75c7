package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
)

const (
	handoffColumns = `h.id, h.guest_session_id, h.tenant_id::text, coalesce(h.item_id, h.property_id::text), coalesce(to_char(h.check_in, 'YYYY-MM-DD'), ''),
		coalesce(to_char(h.check_out, 'YYYY-MM-DD'), ''), coalesce(h.adults, 0), coalesce(h.children, 0), coalesce(h.rooms, 0), h.payload::text, h.currency::text, h.locale, h.source_campaign::text, h.hmac_key_id, h.fingerprint_hash, h.ip_hash,
		h.minted_at, h.expires_at, h.consumed_at, coalesce(h.consumed_by, ''), coalesce(h.consume_key, ''), h.listed_at, h.voided_at`
	restored = `bff_consumer.handoff_incarnation() <> (SELECT e.incarnation FROM bff_consumer.handoff_epoch e)`
)

var (
	sqlHandoff = pgdb.Statement{Name: "guest.handoff", SQL: `
		SELECT clock_timestamp(),
			EXISTS (SELECT FROM bff_consumer.handoff_keys k WHERE k.id = h.hmac_key_id AND k.state <> 'retired'),
			EXISTS (SELECT FROM bff_consumer.tenant_suspended_cache s WHERE s.tenant_id = h.tenant_id AND s.suspended),
			` + restored + `, ` + handoffColumns + ` FROM bff_consumer.handoff_replay_log h WHERE h.id = $1`}
	sqlHandoffs = pgdb.Statement{Name: "guest.handoffs", SQL: `
		SELECT ` + handoffColumns + ` FROM bff_consumer.handoff_replay_log h
		WHERE h.guest_session_id = $1 AND h.erased_at IS NULL ORDER BY h.minted_at DESC, h.id LIMIT $2`}
	sqlHandoffsAfter = pgdb.Statement{Name: "guest.handoffs_after", SQL: `
		SELECT ` + handoffColumns + ` FROM bff_consumer.handoff_replay_log h
		WHERE h.guest_session_id = $1 AND h.erased_at IS NULL AND (h.minted_at < $2 OR h.minted_at = $2 AND h.id > $3)
		ORDER BY h.minted_at DESC, h.id LIMIT $4`}
	sqlMint = pgdb.NewNamed(pgdb.Statement{Name: "guest.mint", SQL: `
		INSERT INTO bff_consumer.handoff_replay_log (id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms,
			currency, locale, source_campaign, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, item_id, payload, listed_at)
		VALUES (@id, @session, @tenant, @property, nullif(@check_in, '')::date, nullif(@check_out, '')::date, @adults, @children, @rooms,
			@currency, @locale, nullif(@campaign, '')::jsonb, @key, @fingerprint, @ip, @minted, @expires, nullif(@item, ''), nullif(@payload, '')::json, @listed)`}, minted.args)
	// sqlNamed locks the handoffs: they are neither consumed nor voided until the transaction ends. A key is never deleted.
	sqlNamed = pgdb.Statement{Name: "guest.named_handoffs", SQL: `
		SELECT k.id, k.tenant_id, k.secret, k.state, k.not_before, k.not_after, k.retired_at, ` + handoffColumns + `
		FROM bff_consumer.handoff_replay_log h JOIN bff_consumer.handoff_keys k ON k.id = h.hmac_key_id
		WHERE h.guest_session_id = $1 AND h.property_id = $2 AND h.tenant_id = $3 AND h.payload IS NOT NULL AND h.voided_at IS NULL
			AND (h.consumed OR h.expires_at > $4)
		FOR UPDATE OF h`}
	sqlVoid = pgdb.Statement{Name: "guest.void_handoffs", SQL: `
		UPDATE bff_consumer.handoff_replay_log SET voided_at = $2 WHERE id = ANY ($1)`}
	// sqlVoidOpen voids a session's open handoffs with a payload.
	sqlVoidOpen = pgdb.Statement{Name: "guest.void_open_handoffs", SQL: `
		UPDATE bff_consumer.handoff_replay_log h SET voided_at = $2
		WHERE h.guest_session_id = $1 AND h.payload IS NOT NULL AND h.voided_at IS NULL AND NOT h.consumed AND h.expires_at > $2
		RETURNING ` + handoffColumns}
	sqlConsume = pgdb.Statement{Name: "guest.consume", SQL: `
		SELECT ` + handoffColumns + ` FROM bff_consumer.consume_handoff(in_id => $1, in_signed_by => $2, in_by => $3, in_key => $4) h`}
	sqlEraseHandoffs = pgdb.Statement{Name: "guest.erase_handoffs", SQL: `
		UPDATE bff_consumer.handoff_replay_log SET fingerprint_hash = '', ip_hash = '', source_campaign = NULL, erased_at = $2
		WHERE guest_session_id = $1 AND erased_at IS NULL`}
)

// scanHandoff holds the destinations for a handoff.
type scanHandoff struct {
	handoffs.Handoff
	id, session string
	campaign    pgtype.Text
	payload     pgtype.Text
	consumed    pgtype.Timestamptz
	listed      pgtype.Timestamptz
	voided      pgtype.Timestamptz
}

// dest returns the destinations in order.
func (s *scanHandoff) dest() []any {
	return []any{
		&s.id, &s.session, &s.Tenant, &s.Item, &s.CheckIn, &s.CheckOut, &s.Adults, &s.Children, &s.Rooms, &s.payload, &s.Currency, &s.Locale, &s.campaign,
		&s.Key, &s.Fingerprint, &s.IP, &s.Minted, &s.Expires, &s.consumed, &s.ConsumedBy, &s.ConsumeKey,
		&s.listed, &s.voided,
	}
}

// handoff decodes the last row read.
func (s *scanHandoff) handoff() handoffs.Handoff {
	h := s.Handoff
	h.ID, h.Session, h.Minted, h.Expires = guest.ID(s.id), guest.ID(s.session), h.Minted.UTC(), h.Expires.UTC()
	if s.campaign.Valid {
		h.Campaign = json.RawMessage(s.campaign.String)
	}
	if s.payload.Valid {
		h.Payload = json.RawMessage(s.payload.String)
	}
	h.Consumed, h.Listed, h.Voided = orZero(s.consumed), orZero(s.listed), orZero(s.voided)
	return h
}

// orZero reads NULL as the zero time.
func orZero(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// Handoff implements handoffs.Store.
func (s *Store) Handoff(ctx context.Context, id guest.ID) (handoffs.Handoff, handoffs.State, error) {
	var row scanHandoff
	var state handoffs.State
	found, err := s.db.QueryRow(ctx, sqlHandoff, []any{string(id)}, append([]any{&state.Now, &state.KeyValid, &state.Suspended, &state.Restored}, row.dest()...)...)
	if err == nil && !found {
		err = handoffs.ErrNoHandoff
	}
	state.Now = state.Now.UTC()
	return row.handoff(), state, err
}

// Handoffs implements handoffs.Store.
func (s *Store) Handoffs(ctx context.Context, session guest.ID, after *handoffs.Handoff, limit int) (all []handoffs.Handoff, err error) {
	statement, args := sqlHandoffs, []any{string(session), limit}
	if after != nil {
		statement, args = sqlHandoffsAfter, []any{string(session), after.Minted, string(after.ID), limit}
	}
	var row scanHandoff
	err = s.db.ForEach(ctx, statement, args, func() { all = nil }, func() error {
		all = append(all, row.handoff())
		return nil
	}, row.dest()...)
	return all, err
}

// Consume reads before it consumes, so that a refused attempt waits for no lock, and a token that differs from the
// row consumes nothing.
func (s *Store) Consume(ctx context.Context, a handoffs.Consumption) (handoffs.Handoff, bool, error) {
	for range 3 {
		h, state, err := s.Handoff(ctx, a.ID)
		repeated := false
		if err == nil {
			repeated, err = h.CheckConsume(a, state)
		}
		switch {
		case err != nil:
			return handoffs.Handoff{}, false, err
		case repeated:
			return h, true, nil
		}
		var row scanHandoff
		won, err := s.db.QueryRow(ctx, sqlConsume, []any{string(a.ID), a.SignedBy, a.By, a.Key}, row.dest()...)
		switch {
		case err != nil:
			return handoffs.Handoff{}, false, err
		case won:
			return row.handoff(), false, nil
		}
	}
	return handoffs.Handoff{}, false, errcode.New(errcode.Unavailable, "the state of the handoff changes all the time: retry")
}

// takeTurn locks the session, as a mutation does, and returns the database's time.
func takeTurn(t *pgdb.Tx, session guest.ID) (now time.Time, err error) {
	b, err := begin(t, session, "", []byte{})
	return b.now, err
}

// Mint implements handoffs.Store.
func (s *Store) Mint(ctx context.Context, m handoffs.Mint) (guest.Once[handoffs.Minted], error) {
	return mutate(ctx, s, "guest.mint", m.Sealed(), func(t *tx) (r handoffs.Minted, err error) {
		isSuspended := false
		if _, err := t.t.QueryRow(sqlSuspended, []any{m.Handoff.Tenant}, &isSuspended); err != nil {
			return r, err
		}
		if err := m.Check(isSuspended, t.now); err != nil {
			return r, err
		}
		key, err := t.signingKey(m.KeyTenant())
		if err != nil {
			return r, err
		}
		claim, err := t.claim(&m)
		switch {
		case err != nil:
			return r, err
		case claim.Keep != nil:
			return m.DecideKept(claim.Keep)
		}
		minting, err := m.Decide(key, t.now)
		if err != nil {
			return r, err
		}
		h := minting.Handoff
		h.Session = t.session
		if err := t.t.Queue(sqlMint.Statement, sqlMint.Args(minted{h})...); err != nil {
			return r, err
		}
		return minting.Minted, t.append(minting.Event)
	})
}

// claim decides about the mint's name, and voids handoffs accordingly. Stays are not named.
func (t *tx) claim(m *handoffs.Mint) (claim handoffs.Claim, err error) {
	if m.Handoff.Payload == nil {
		return claim, nil
	}
	var named []handoffs.Named
	var key scanKey
	var row scanHandoff
	args := []any{string(t.session), guest.ItemKey(m.Handoff.Item), m.Handoff.Tenant, t.now}
	err = t.t.ForEach(sqlNamed, args, func() error {
		named = append(named, handoffs.Named{Handoff: row.handoff(), SignedBy: key.key()})
		return nil
	}, append(key.dest(), row.dest()...)...)
	if err != nil {
		return claim, err
	}
	if claim, err = m.Claim(named, t.now); err != nil || len(claim.Void) == 0 {
		return claim, err
	}
	if err := t.t.Queue(sqlVoid, claim.Void, t.now); err != nil {
		return claim, err
	}
	return claim, t.append(claim.Events...)
}

// voidOpen voids the session's open handoffs with a payload, because the guest signs in.
func (t *tx) voidOpen(p *guest.Profile) error {
	var voided []handoffs.Handoff
	var row scanHandoff
	err := t.t.ForEach(sqlVoidOpen, []any{string(t.session), t.now}, func() error { voided = append(voided, row.handoff()); return nil }, row.dest()...)
	if err != nil {
		return err
	}
	events, err := handoffs.SignInEvents(p, voided, t.now)
	if err != nil {
		return err
	}
	return t.append(events...)
}

// minted holds the parameters for a new handoff.
type minted struct{ handoffs.Handoff }

// stay stores NULL in profiles without a stay.
func (m minted) stay(n int) *int {
	if m.Payload != nil {
		return nil
	}
	return &n
}

// args names and orders the parameters for pgdb.
func (m minted) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "id", Value: string(m.ID)},
		{Param: "session", Value: string(m.Session)},
		{Param: "tenant", Value: m.Tenant},
		{Param: "property", Value: guest.ItemKey(m.Item)},
		{Param: "check_in text", Value: m.CheckIn},
		{Param: "check_out text", Value: m.CheckOut},
		{Param: "adults", Value: m.stay(m.Adults)},
		{Param: "children", Value: m.stay(m.Children)},
		{Param: "rooms", Value: m.stay(m.Rooms)},
		{Param: "currency", Value: m.Currency},
		{Param: "locale", Value: m.Locale},
		{Param: "campaign text", Value: string(m.Campaign)},
		{Param: "key", Value: m.Key},
		{Param: "fingerprint", Value: m.Fingerprint},
		{Param: "ip", Value: m.IP},
		{Param: "minted", Value: m.Minted},
		{Param: "expires", Value: m.Expires},
		{Param: "item text", Value: guest.ItemText(m.Item)},
		{Param: "payload text", Value: string(m.Payload)},
		{Param: "listed", Value: m.Listed},
	}
}
