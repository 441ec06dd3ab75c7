package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
)

const (
	handoffColumns = `id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale, source_campaign,
		hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, consumed_at, consumed_by, consume_key, item_id, payload,
		listed_at, voided_at`

	sqlHandoff = `SELECT ` + handoffColumns + `,
			EXISTS (SELECT 1 FROM bff_consumer_handoff_keys k WHERE k.id = h.hmac_key_id AND k.state <> 'retired'),
			EXISTS (SELECT 1 FROM bff_consumer_tenant_suspended_cache s WHERE s.tenant_id = h.tenant_id AND s.suspended)
		FROM bff_consumer_handoff_replay_log h WHERE id = ?`
	sqlHandoffs = `SELECT ` + handoffColumns + ` FROM bff_consumer_handoff_replay_log
		WHERE guest_session_id = ? AND erased_at IS NULL ORDER BY minted_at DESC, id LIMIT ?`
	sqlHandoffsAfter = `SELECT ` + handoffColumns + ` FROM bff_consumer_handoff_replay_log
		WHERE guest_session_id = ? AND erased_at IS NULL AND (minted_at < ?2 OR minted_at = ?2 AND id > ?3)
		ORDER BY minted_at DESC, id LIMIT ?4`
	sqlMint = `INSERT INTO bff_consumer_handoff_replay_log
		(id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale, source_campaign,
		hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at, item_id, payload, listed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// sqlNamed joins handoffs with the key that signed them; a key is never deleted.
	sqlNamed = `SELECT ` + handoffColumns + `, key_id, key_tenant, secret, state, not_before, not_after, retired_at FROM bff_consumer_handoff_replay_log
		JOIN (SELECT id AS key_id, tenant_id AS key_tenant, secret, state, not_before, not_after, retired_at FROM bff_consumer_handoff_keys) ON key_id = hmac_key_id
		WHERE guest_session_id = ?1 AND property_id = ?2 AND tenant_id = ?3 AND payload IS NOT NULL AND voided_at IS NULL AND (consumed = 1 OR expires_at > ?4)`
	sqlVoid = `UPDATE bff_consumer_handoff_replay_log SET voided_at = ? WHERE id = ?`
	// sqlVoidOpen voids a session's open handoffs with a payload.
	sqlVoidOpen = `UPDATE bff_consumer_handoff_replay_log SET voided_at = ?2
		WHERE guest_session_id = ?1 AND payload IS NOT NULL AND voided_at IS NULL AND consumed = 0 AND expires_at > ?2 RETURNING ` + handoffColumns
	sqlConsume = `UPDATE bff_consumer_handoff_replay_log SET consumed = 1, consumed_at = ?2, consumed_by = ?3, consume_key = ?4
		WHERE id = ?1 AND consumed = 0 AND voided_at IS NULL AND expires_at > ?5`
	sqlEraseHandoffs = `UPDATE bff_consumer_handoff_replay_log SET fingerprint_hash = x'', ip_hash = x'', source_campaign = NULL, erased_at = ?
		WHERE guest_session_id = ? AND erased_at IS NULL`
)

// orZero reads NULL as the zero time.
func orZero(r *sqlite.Stmt, column int) time.Time {
	if r.ColumnIsNull(column) {
		return time.Time{}
	}
	return time.UnixMicro(r.ColumnInt64(column)).UTC()
}

// orNullTime stores the zero time as NULL.
func orNullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// scanHandoff reads handoffColumns.
func scanHandoff(r *sqlite.Stmt) handoffs.Handoff {
	h := handoffs.Handoff{
		ID: guest.ID(r.ColumnText(0)), Session: guest.ID(r.ColumnText(1)), Tenant: r.ColumnText(2), Item: r.ColumnText(3),
		Stay: handoffs.Stay{
			CheckIn: r.ColumnText(4), CheckOut: r.ColumnText(5), Adults: r.ColumnInt(6), Children: r.ColumnInt(7), Rooms: r.ColumnInt(8),
			Currency: r.ColumnText(9), Locale: r.ColumnText(10),
		},
		Key: r.ColumnText(12), Fingerprint: blob(r, 13), IP: blob(r, 14), Minted: orZero(r, 15), Expires: orZero(r, 16),
		Consumed: orZero(r, 17), ConsumedBy: r.ColumnText(18), ConsumeKey: r.ColumnText(19),
	}
	if !r.ColumnIsNull(11) {
		h.Campaign = json.RawMessage(r.ColumnText(11))
	}
	if !r.ColumnIsNull(20) {
		h.Item = r.ColumnText(20)
	}
	if !r.ColumnIsNull(21) {
		h.Payload = json.RawMessage(r.ColumnText(21))
	}
	h.Listed, h.Voided = orZero(r, 22), orZero(r, 23)
	return h
}

// stated is a handoff with the state for CheckConsume.
type stated struct {
	handoffs.Handoff
	handoffs.State
}

// scanStated reads a stated handoff.
func scanStated(r *sqlite.Stmt) stated {
	return stated{scanHandoff(r), handoffs.State{KeyValid: r.ColumnBool(24), Suspended: r.ColumnBool(25)}}
}

// scanNamed reads a handoff with its key.
func scanNamed(r *sqlite.Stmt) handoffs.Named {
	return handoffs.Named{Handoff: scanHandoff(r), SignedBy: scanKeyAt(r, 24)}
}

// Handoff implements handoffs.Store.
func (s *Store) Handoff(ctx context.Context, id guest.ID) (h handoffs.Handoff, state handoffs.State, err error) {
	err = s.db.Read(ctx, "handoff", func(c *sqlite.Conn) error {
		row, found, err := sqlitedb.QueryRow(c, sqlHandoff, scanStated, string(id))
		if err == nil && !found {
			err = handoffs.ErrNoHandoff
		}
		h, state = row.Handoff, row.State
		return err
	})
	state.Now = s.time()
	return h, state, err
}

// time returns the time in the precision of the file: microseconds.
func (s *Store) time() time.Time { return s.now().Truncate(time.Microsecond).UTC() }

// Handoffs implements handoffs.Store.
func (s *Store) Handoffs(ctx context.Context, session guest.ID, after *handoffs.Handoff, limit int) (all []handoffs.Handoff, err error) {
	err = s.db.Read(ctx, "handoffs", func(c *sqlite.Conn) error {
		if after == nil {
			all, err = sqlitedb.QueryAll(c, sqlHandoffs, scanHandoff, string(session), limit)
		} else {
			all, err = sqlitedb.QueryAll(c, sqlHandoffsAfter, scanHandoff, string(session), after.Minted.UnixMicro(), string(after.ID), limit)
		}
		return err
	})
	return all, err
}

// Consume reads before it writes, so that a refused attempt does not wait for the writer.
func (s *Store) Consume(ctx context.Context, a handoffs.Consumption) (h handoffs.Handoff, repeated bool, err error) {
	h, state, err := s.Handoff(ctx, a.ID)
	if err == nil {
		repeated, err = h.CheckConsume(a, state)
	}
	if err != nil || repeated {
		return consumption(h, repeated, err)
	}
	err = s.db.Write(ctx, "consume", func(c *sqlite.Conn) error {
		now := s.time()
		row, found, err := sqlitedb.QueryRow(c, sqlHandoff, scanStated, string(a.ID))
		switch {
		case err != nil:
			return err
		case !found:
			return handoffs.ErrNoHandoff
		}
		h, row.Now = row.Handoff, now
		if repeated, err = h.CheckConsume(a, row.State); err != nil || repeated {
			return err
		}
		h.Consume(a, now)
		return sqlitedb.Exec(c, sqlConsume, string(a.ID), h.Consumed.UnixMicro(), h.ConsumedBy, h.ConsumeKey, now.UnixMicro())
	})
	return consumption(h, repeated, err)
}

// consumption returns the zero handoff after an error.
func consumption(h handoffs.Handoff, repeated bool, err error) (handoffs.Handoff, bool, error) {
	if err != nil {
		return handoffs.Handoff{}, false, err
	}
	return h, repeated, nil
}

// Mint needs no check for a restored file, which is detected before it is served.
func (s *Store) Mint(ctx context.Context, m handoffs.Mint) (guest.Once[handoffs.Minted], error) {
	return mutate(ctx, s, "mint", m.Sealed(), func(t *tx) (r handoffs.Minted, err error) {
		isSuspended, err := suspended(t.c, m.Handoff.Tenant)
		if err == nil {
			err = m.Check(isSuspended, t.now)
		}
		if err != nil {
			return r, err
		}
		key, found, err := sqlitedb.QueryRow(t.c, sqlSigningKey, scanKey, m.KeyTenant())
		switch {
		case err != nil:
			return r, err
		case !found:
			return r, handoffs.ErrNoKey
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
		var stay [5]any // all NULL with a payload
		if h.Payload == nil {
			stay = [5]any{h.CheckIn, h.CheckOut, h.Adults, h.Children, h.Rooms}
		}
		err = sqlitedb.Exec(t.c, sqlMint, string(h.ID), string(t.session), h.Tenant, guest.ItemKey(h.Item), stay[0], stay[1], stay[2], stay[3], stay[4],
			h.Currency, h.Locale, orNull(string(h.Campaign)), h.Key, h.Fingerprint, h.IP, h.Minted.UnixMicro(), h.Expires.UnixMicro(),
			orNull(guest.ItemText(h.Item)), orNull(string(h.Payload)), h.Listed.UnixMicro())
		if err != nil {
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
	named, err := sqlitedb.QueryAll(t.c, sqlNamed, scanNamed, string(t.session), guest.ItemKey(m.Handoff.Item), m.Handoff.Tenant, t.now.UnixMicro())
	if err != nil {
		return claim, err
	}
	if claim, err = m.Claim(named, t.now); err != nil {
		return claim, err
	}
	for _, id := range claim.Void {
		if err := sqlitedb.Exec(t.c, sqlVoid, t.now.UnixMicro(), id); err != nil {
			return claim, err
		}
	}
	return claim, t.append(claim.Events...)
}

// voidOpen voids the session's open handoffs with a payload, because the guest signs in.
func (t *tx) voidOpen(p *guest.Profile) error {
	voided, err := sqlitedb.QueryAll(t.c, sqlVoidOpen, scanHandoff, string(t.session), t.now.UnixMicro())
	if err != nil {
		return err
	}
	events, err := handoffs.SignInEvents(p, voided, t.now)
	if err != nil {
		return err
	}
	return t.append(events...)
}
