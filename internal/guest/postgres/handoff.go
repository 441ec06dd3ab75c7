package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
)

const (
	handoffColumns = `h.id, h.guest_session_id, h.tenant_id::text, h.property_id::text, to_char(h.check_in, 'YYYY-MM-DD'), to_char(h.check_out, 'YYYY-MM-DD'),
		h.adults, h.children, h.rooms, h.currency::text, h.locale, h.source_campaign::text, h.hmac_key_id, h.fingerprint_hash, h.ip_hash,
		h.minted_at, h.expires_at, h.consumed_at, coalesce(h.consumed_by, ''), coalesce(h.consume_key, '')`
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
	sqlMint = pgdb.Statement{Name: "guest.mint", SQL: `
		INSERT INTO bff_consumer.handoff_replay_log (id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms,
			currency, locale, source_campaign, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at)
		VALUES ($1, $2, $3, $4, $5::text::date, $6::text::date, $7, $8, $9, $10, $11, nullif($12::text, '')::jsonb, $13, $14, $15, $16, $17)`}
	sqlConsume = pgdb.Statement{Name: "guest.consume", SQL: `
		SELECT ` + handoffColumns + ` FROM bff_consumer.consume_handoff($1, $2, $3, $4) h`}
	sqlEraseHandoffs = pgdb.Statement{Name: "guest.erase_handoffs", SQL: `
		UPDATE bff_consumer.handoff_replay_log SET fingerprint_hash = '', ip_hash = '', source_campaign = NULL, erased_at = $2
		WHERE guest_session_id = $1 AND erased_at IS NULL`}
	sqlHasEvent = pgdb.Statement{Name: "guest.has_event", SQL: `
		SELECT EXISTS (SELECT FROM bff_consumer.outbox WHERE id = $1)`}
)

// scanHandoff scans rows of handoffColumns.
type scanHandoff struct {
	guest.Handoff
	id, session string
	campaign    pgtype.Text
	consumed    pgtype.Timestamptz
}

func (s *scanHandoff) dest() []any {
	return []any{
		&s.id, &s.session, &s.Tenant, &s.Property, &s.CheckIn, &s.CheckOut, &s.Adults, &s.Children, &s.Rooms, &s.Currency, &s.Locale, &s.campaign,
		&s.Key, &s.Fingerprint, &s.IP, &s.Minted, &s.Expires, &s.consumed, &s.ConsumedBy, &s.ConsumeKey,
	}
}

func (s *scanHandoff) handoff() guest.Handoff {
	h := s.Handoff
	h.ID, h.Session, h.Minted, h.Expires = guest.ID(s.id), guest.ID(s.session), h.Minted.UTC(), h.Expires.UTC()
	if s.campaign.Valid {
		h.Campaign = json.RawMessage(s.campaign.String)
	}
	if s.consumed.Valid {
		h.Consumed = s.consumed.Time.UTC()
	}
	return h
}

// Handoff implements guest.Store.
func (s *Store) Handoff(ctx context.Context, id guest.ID) (guest.Handoff, guest.HandoffState, error) {
	return readHandoff(id, func(s1 pgdb.Statement, args []any, dest ...any) (bool, error) {
		return s.db.QueryRow(ctx, s1, args, dest...)
	})
}

func readHandoff(id guest.ID, query func(pgdb.Statement, []any, ...any) (bool, error)) (guest.Handoff, guest.HandoffState, error) {
	var row scanHandoff
	var state guest.HandoffState
	found, err := query(sqlHandoff, []any{string(id)}, append([]any{&state.Now, &state.KeyValid, &state.Suspended, &state.Restored}, row.dest()...)...)
	if err == nil && !found {
		err = guest.ErrNoHandoff
	}
	state.Now = state.Now.UTC()
	return row.handoff(), state, err
}

// Handoffs implements guest.Store.
func (s *Store) Handoffs(ctx context.Context, session guest.ID, after *guest.Handoff, limit int) (all []guest.Handoff, err error) {
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

// Consume implements guest.Store. It reads the handoff before it consumes it, so that a refused
// attempt waits for no lock, and a token that states something else than the row consumes nothing.
func (s *Store) Consume(ctx context.Context, a guest.Consumption) (h guest.Handoff, repeated bool, err error) {
	for range 3 {
		var again bool
		if h, repeated, again, err = s.notConsumed(ctx, a); !again {
			return h, repeated, err
		}
		var row scanHandoff
		won, err := s.db.QueryRow(ctx, sqlConsume, []any{string(a.ID), a.SignedBy, a.By, a.Key}, row.dest()...)
		if err != nil {
			return guest.Handoff{}, false, err
		}
		if won {
			return row.handoff(), false, nil
		}
	}
	return guest.Handoff{}, false, fault.New(fault.Unavailable, "the state of the handoff changes all the time: retry")
}

// notConsumed returns why an attempt does not consume a handoff. again reports that there is no
// reason.
func (s *Store) notConsumed(ctx context.Context, a guest.Consumption) (h guest.Handoff, repeated, again bool, err error) {
	var refusal error // the transaction is committed nevertheless
	appended := false
	err = s.db.Tx(ctx, "guest.not_consumed", func(t *pgdb.Tx) error {
		var state guest.HandoffState
		var err error
		if h, state, err = readHandoff(a.ID, t.QueryRow); err != nil {
			return err
		}
		repeated, refusal = h.CheckConsume(a, state)
		if !errors.Is(refusal, guest.ErrConsumed) {
			return nil
		}
		appended, err = report(t, h.Session, a)
		return err
	})
	if err == nil && appended {
		s.waker.Wake(string(h.Session), "")
	}
	switch {
	case err == nil && refusal == nil:
		return h, repeated, !repeated, nil
	case err == nil:
		err = refusal
	}
	return guest.Handoff{}, false, false, err
}

// report appends the event of a replay unless it is there. It takes its turn among the
// mutations of the session, so that the positions of the session's events become visible
// in order.
func report(t *pgdb.Tx, session guest.ID, a guest.Consumption) (appended bool, err error) {
	e := a.Replay
	if e.At, err = takeTurn(t, session); err != nil {
		return false, err
	}
	found := false
	if _, err := t.QueryRow(sqlHasEvent, []any{string(e.ID)}, &found); err != nil || found {
		return false, err
	}
	return true, (&tx{t: t, session: session, now: e.At, trace: a.Trace}).Append(e)
}

// takeTurn excludes mutations of a session until the end of the transaction, and returns
// the time of the database.
func takeTurn(t *pgdb.Tx, session guest.ID) (now time.Time, err error) {
	var unused guest.Answer
	var same bool
	_, err = t.QueryRow(sqlBegin, []any{string(session), "", []byte{}, wait}, &now, &same, &unused.Status, &unused.ContentType, &unused.Location, &unused.Body)
	if pgdb.IsState(err, pgdb.LockNotAvailable) {
		err = guest.ErrInFlight
	}
	return now.UTC(), err
}

// Mint implements guest.Tx.
func (t *tx) Mint(h guest.Handoff) error {
	return t.t.Queue(sqlMint, string(h.ID), string(t.session), h.Tenant, h.Property, h.CheckIn, h.CheckOut, h.Adults, h.Children, h.Rooms,
		h.Currency, h.Locale, string(h.Campaign), h.Key, h.Fingerprint, h.IP, h.Minted, h.Expires)
}
