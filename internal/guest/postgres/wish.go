package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
)

// The columns for scanWish, of both kinds of profiles.
const columns = `id, tenant_id::text, coalesce(item_id, property_id::text), coalesce(quantity, 0), source, coalesce(note, ''), added_at, removed_at`

var (
	sqlWishes = pgdb.Statement{Name: "guest.wishes", SQL: `
		SELECT ` + columns + ` FROM bff_consumer.wishlist_anonymous
		WHERE guest_session_id = $1 AND removed_at IS NULL ORDER BY added_at DESC, id LIMIT $2`}
	sqlWishesAfter = pgdb.Statement{Name: "guest.wishes_after", SQL: `
		SELECT ` + columns + ` FROM bff_consumer.wishlist_anonymous
		WHERE guest_session_id = $1 AND removed_at IS NULL AND (added_at < $2 OR added_at = $2 AND id > $3)
		ORDER BY added_at DESC, id LIMIT $4`}
	sqlWish = pgdb.Statement{Name: "guest.wish", SQL: `
		SELECT ` + columns + ` FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1 AND property_id = $2`}
	// sqlWishAndLive returns a row even if the session has no entry for the item.
	sqlWishAndLive = pgdb.Statement{Name: "guest.wish_and_count", SQL: `
		SELECT coalesce(id, ''), coalesce(tenant_id::text, ''), coalesce(item_id, property_id::text, ''), coalesce(quantity, 0), coalesce(source, ''), coalesce(note, ''),
			coalesce(added_at, 'epoch'), removed_at, n
		FROM (SELECT count(*) n FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1 AND removed_at IS NULL) live
		LEFT JOIN bff_consumer.wishlist_anonymous ON guest_session_id = $1 AND property_id = $2`}
	sqlPutWish = pgdb.NewNamed(pgdb.Statement{Name: "guest.put_wish", SQL: `
		WITH seen AS (INSERT INTO bff_consumer.session_seen AS s (guest_session_id, seen_on) VALUES (@session, (@added AT TIME ZONE 'UTC')::date)
			ON CONFLICT (guest_session_id) DO UPDATE SET seen_on = excluded.seen_on WHERE s.seen_on < excluded.seen_on)
		INSERT INTO bff_consumer.wishlist_anonymous (guest_session_id, id, tenant_id, property_id, source, note, added_at, item_id, quantity)
		VALUES (@session, @id, @tenant, @property, @source, nullif(@note, ''), @added, nullif(@item, ''), nullif(@quantity, 0))
		ON CONFLICT (guest_session_id, property_id) DO UPDATE
		SET source = excluded.source, note = excluded.note, added_at = excluded.added_at, removed_at = NULL, quantity = excluded.quantity`}, addedWish.args)
	sqlChangeWish = pgdb.Statement{Name: "guest.change_wish", SQL: `
		UPDATE bff_consumer.wishlist_anonymous SET note = nullif($3, ''), quantity = nullif($4, 0) WHERE guest_session_id = $1 AND property_id = $2`}
	sqlRemoveWish = pgdb.Statement{Name: "guest.remove_wish", SQL: `
		UPDATE bff_consumer.wishlist_anonymous SET removed_at = $3 WHERE guest_session_id = $1 AND property_id = $2`}
	sqlClearWishes = pgdb.Statement{Name: "guest.clear_wishes", SQL: `
		DELETE FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1`}
	sqlClearAnswers = pgdb.Statement{Name: "guest.clear_answers", SQL: `
		DELETE FROM bff_consumer.idempotency_keys WHERE guest_session_id = $1 RETURNING composite_key`}
)

// scanWish holds the destinations for a wish.
type scanWish struct {
	guest.Wish
	id      string
	removed pgtype.Timestamptz
}

// dest returns the destinations in order.
func (s *scanWish) dest() []any {
	return []any{&s.id, &s.Tenant, &s.Item, &s.Quantity, &s.Source, &s.Note, &s.Added, &s.removed}
}

// wish decodes the last row read.
func (s *scanWish) wish() guest.Wish {
	w := s.Wish
	w.ID, w.Added = guest.ID(s.id), w.Added.UTC()
	if s.removed.Valid {
		w.Removed = s.removed.Time.UTC()
	}
	return w
}

// Wishes implements guest.Store.
func (s *Store) Wishes(ctx context.Context, session guest.ID, after *guest.Wish, limit int) (all []guest.Wish, err error) {
	statement, args := sqlWishes, []any{string(session), limit}
	if after != nil {
		statement, args = sqlWishesAfter, []any{string(session), after.Added, string(after.ID), limit}
	}
	var row scanWish
	err = s.db.ForEach(ctx, statement, args, func() { all = nil }, func() error {
		all = append(all, row.wish())
		return nil
	}, row.dest()...)
	return all, err
}

// The upper bound in sqlFindSessions sorts after the last digit of an ID.
var sqlFindSessions = pgdb.Statement{Name: "guest.find_sessions", SQL: `
	SELECT guest_session_id FROM bff_consumer.session_seen
	WHERE guest_session_id >= $1::text AND guest_session_id < $2::text ORDER BY guest_session_id LIMIT $3::bigint`}

// FindSessions implements guest.Store.
func (s *Store) FindSessions(ctx context.Context, prefix string, limit int) (all []guest.ID, err error) {
	var id string
	err = s.db.ForEach(ctx, sqlFindSessions, []any{prefix, prefix + "~", limit}, func() { all = nil }, func() error {
		all = append(all, guest.ID(id))
		return nil
	}, &id)
	return all, err
}

// wish returns the entry for an item. A missing entry has no ID.
func (t *tx) wish(item string) (guest.Wish, error) {
	var row scanWish
	_, err := t.t.QueryRow(sqlWish, []any{string(t.session), guest.ItemKey(item)}, row.dest()...)
	return row.wish(), err
}

// check checks a guard on the session's list.
func (t *tx) check(g guest.Guard) error {
	if g.IsZero() {
		return nil
	}
	all, err := t.wishes(sqlWishes, string(t.session), guest.MaxWishes)
	if err != nil {
		return err
	}
	return g.Check(guest.ListTag(all))
}

// AddWish implements guest.Store.
func (s *Store) AddWish(ctx context.Context, a guest.AddWish) (guest.Once[guest.AddedWish], error) {
	return mutate(ctx, s, "guest.add_wish", a.Mutation, func(t *tx) (r guest.AddedWish, err error) {
		if err := t.check(a.Guard); err != nil {
			return r, err
		}
		var row scanWish
		var live int
		if _, err := t.t.QueryRow(sqlWishAndLive, []any{string(t.session), guest.ItemKey(a.Wish.Item)}, append(row.dest(), &live)...); err != nil {
			return r, err
		}
		r, e, err := a.Decide(row.wish(), live, t.now)
		if err != nil || e.ID == "" {
			return r, err
		}
		if err := t.t.Queue(sqlPutWish.Statement, sqlPutWish.Args(addedWish{t.session, r.Wish})...); err != nil {
			return r, err
		}
		return r, t.append(e)
	})
}

// addedWish holds the parameters for a new wish.
type addedWish struct {
	session guest.ID
	guest.Wish
}

// args names and orders the parameters for pgdb.
func (w addedWish) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "session", Value: string(w.session)},
		{Param: "id", Value: string(w.ID)},
		{Param: "tenant", Value: w.Tenant},
		{Param: "property", Value: guest.ItemKey(w.Item)},
		{Param: "source", Value: w.Source},
		{Param: "note", Value: w.Note},
		{Param: "added timestamptz", Value: w.Added},
		{Param: "item text", Value: guest.ItemText(w.Item)},
		{Param: "quantity integer", Value: w.Quantity},
	}
}

// ChangeWish implements guest.Store.
func (s *Store) ChangeWish(ctx context.Context, c guest.ChangeWish) (guest.Once[guest.ChangedWish], error) {
	return mutate(ctx, s, "guest.change_wish", c.Mutation, func(t *tx) (r guest.ChangedWish, err error) {
		existing, err := t.wish(c.Item)
		if err != nil {
			return r, err
		}
		r, e, err := c.Decide(existing, t.now)
		if err != nil {
			return r, err
		}
		if err := t.t.Queue(sqlChangeWish, string(t.session), guest.ItemKey(c.Item), r.Wish.Note, r.Wish.Quantity); err != nil || e.ID == "" {
			return r, err
		}
		return r, t.append(e)
	})
}

// RemoveWish implements guest.Store.
func (s *Store) RemoveWish(ctx context.Context, w guest.RemoveWish) (guest.Once[guest.RemovedWish], error) {
	return mutate(ctx, s, "guest.remove_wish", w.Mutation, func(t *tx) (r guest.RemovedWish, err error) {
		existing, err := t.wish(w.Item)
		if err != nil {
			return r, err
		}
		r, e, err := w.Decide(existing, t.now)
		if err != nil || !r.Removed {
			return r, err
		}
		if err := t.t.Queue(sqlRemoveWish, string(t.session), guest.ItemKey(w.Item), t.now); err != nil {
			return r, err
		}
		return r, t.append(e)
	})
}

// Clear implements guest.Store.
func (s *Store) Clear(ctx context.Context, of guest.Clear) (guest.Once[guest.Cleared], error) {
	return mutate(ctx, s, "guest.clear", of.Mutation, func(t *tx) (r guest.Cleared, err error) {
		if err := t.check(of.Guard); err != nil {
			return r, err
		}
		if err := t.t.Queue(sqlEraseHandoffs, string(t.session), t.now); err != nil {
			return r, err
		}
		r.Answers, err = t.clearLists()
		return r, err
	})
}

// clearLists deletes the session's wishes and answers, and returns the answers' keys in hot state.
func (t *tx) clearLists() (answers []string, err error) {
	for _, s := range []pgdb.Statement{sqlClearWishes, sqlForget} {
		if err := t.t.Queue(s, string(t.session)); err != nil {
			return nil, err
		}
	}
	var key string
	err = t.t.ForEach(sqlClearAnswers, []any{string(t.session)}, func() error { answers = append(answers, key); return nil }, &key)
	return answers, err
}
