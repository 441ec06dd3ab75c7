package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
)

const (
	columns = `id, tenant_id, property_id, source, note, added_at, removed_at, item_id, quantity`

	sqlWishes = `SELECT ` + columns + ` FROM bff_consumer_wishlist_anonymous
		WHERE guest_session_id = ? AND removed_at IS NULL ORDER BY added_at DESC, id LIMIT ?`
	sqlWishesAfter = `SELECT ` + columns + ` FROM bff_consumer_wishlist_anonymous
		WHERE guest_session_id = ? AND removed_at IS NULL AND (added_at < ?2 OR added_at = ?2 AND id > ?3)
		ORDER BY added_at DESC, id LIMIT ?4`
	sqlWish    = `SELECT ` + columns + ` FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ? AND property_id = ?`
	sqlLive    = `SELECT count(*) FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ? AND removed_at IS NULL`
	sqlPutWish = `INSERT INTO bff_consumer_wishlist_anonymous (guest_session_id, ` + columns + `) VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)
		ON CONFLICT (guest_session_id, property_id) DO UPDATE
		SET source = excluded.source, note = excluded.note, added_at = excluded.added_at, removed_at = NULL, quantity = excluded.quantity`
	sqlChangeWish   = `UPDATE bff_consumer_wishlist_anonymous SET note = ?, quantity = ? WHERE guest_session_id = ? AND property_id = ?`
	sqlRemoveWish   = `UPDATE bff_consumer_wishlist_anonymous SET removed_at = ? WHERE guest_session_id = ? AND property_id = ?`
	sqlClearWishes  = `DELETE FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ?`
	sqlClearAnswers = `DELETE FROM bff_consumer_idempotency_keys WHERE guest_session_id = ? RETURNING composite_key`
)

// scanWish reads a wish.
func scanWish(r *sqlite.Stmt) guest.Wish {
	w := guest.Wish{
		ID: guest.ID(r.ColumnText(0)), Tenant: r.ColumnText(1), Item: r.ColumnText(2), Quantity: r.ColumnInt(8), Source: r.ColumnText(3), Note: r.ColumnText(4),
		Added: time.UnixMicro(r.ColumnInt64(5)).UTC(),
	}
	if !r.ColumnIsNull(6) {
		w.Removed = time.UnixMicro(r.ColumnInt64(6)).UTC()
	}
	if !r.ColumnIsNull(7) {
		w.Item = r.ColumnText(7)
	}
	return w
}

// Wishes implements guest.Store.
func (s *Store) Wishes(ctx context.Context, session guest.ID, after *guest.Wish, limit int) (all []guest.Wish, err error) {
	err = s.db.Read(ctx, "wishes", func(c *sqlite.Conn) error {
		if after == nil {
			all, err = sqlitedb.QueryAll(c, sqlWishes, scanWish, string(session), limit)
		} else {
			all, err = sqlitedb.QueryAll(c, sqlWishesAfter, scanWish, string(session), after.Added.UnixMicro(), string(after.ID), limit)
		}
		return err
	})
	return all, err
}

// The upper bound in sqlFindSessions sorts after the last digit of an ID.
const sqlFindSessions = `SELECT guest_session_id FROM bff_consumer_session_seen
	WHERE guest_session_id >= ?1 AND guest_session_id < ?2 ORDER BY guest_session_id LIMIT ?3 + 0`

// FindSessions implements guest.Store.
func (s *Store) FindSessions(ctx context.Context, prefix string, limit int) (all []guest.ID, err error) {
	err = s.db.Read(ctx, "find_sessions", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlFindSessions, func(r *sqlite.Stmt) guest.ID { return guest.ID(r.ColumnText(0)) }, prefix, prefix+"~", limit)
		return err
	})
	return all, err
}

// wish returns the entry for an item. A missing entry has no ID.
func (t *tx) wish(item string) (guest.Wish, error) {
	w, _, err := sqlitedb.QueryRow(t.c, sqlWish, scanWish, string(t.session), guest.ItemKey(item))
	return w, err
}

// check checks a guard on the session's list.
func (t *tx) check(g guest.Guard) error {
	if g.IsZero() {
		return nil
	}
	all, err := sqlitedb.QueryAll(t.c, sqlWishes, scanWish, string(t.session), guest.MaxWishes)
	if err != nil {
		return err
	}
	return g.Check(guest.ListTag(all))
}

// AddWish implements guest.Store.
func (s *Store) AddWish(ctx context.Context, a guest.AddWish) (guest.Once[guest.AddedWish], error) {
	return mutate(ctx, s, "add_wish", a.Mutation, func(t *tx) (r guest.AddedWish, err error) {
		if err := t.check(a.Guard); err != nil {
			return r, err
		}
		existing, err := t.wish(a.Wish.Item)
		if err != nil {
			return r, err
		}
		live, _, err := sqlitedb.QueryRow(t.c, sqlLive, func(r *sqlite.Stmt) int { return r.ColumnInt(0) }, string(t.session))
		if err != nil {
			return r, err
		}
		r, e, err := a.Decide(existing, live, t.now)
		if err != nil || e.ID == "" {
			return r, err
		}
		if err := t.putWish(r.Wish); err != nil {
			return r, err
		}
		return r, t.append(e)
	})
}

// putWish inserts or replaces an entry, and notes that the session was seen: a wishlist without this is never deleted.
func (t *tx) putWish(w guest.Wish) error {
	if err := sqlitedb.Exec(t.c, sqlAddSeen, string(t.session), day(t.now)); err != nil {
		return err
	}
	return sqlitedb.Exec(t.c, sqlPutWish, string(t.session), string(w.ID), w.Tenant, guest.ItemKey(w.Item), w.Source, orNull(w.Note), w.Added.UnixMicro(),
		orNull(guest.ItemText(w.Item)), orNullNumber(w.Quantity))
}

// orNull stores "" as NULL.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// orNullNumber stores 0 as NULL.
func orNullNumber(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// ChangeWish implements guest.Store.
func (s *Store) ChangeWish(ctx context.Context, c guest.ChangeWish) (guest.Once[guest.ChangedWish], error) {
	return mutate(ctx, s, "change_wish", c.Mutation, func(t *tx) (r guest.ChangedWish, err error) {
		existing, err := t.wish(c.Item)
		if err != nil {
			return r, err
		}
		r, e, err := c.Decide(existing, t.now)
		if err != nil {
			return r, err
		}
		err = sqlitedb.Exec(t.c, sqlChangeWish, orNull(r.Wish.Note), orNullNumber(r.Wish.Quantity), string(t.session), guest.ItemKey(c.Item))
		if err != nil || e.ID == "" {
			return r, err
		}
		return r, t.append(e)
	})
}

// RemoveWish implements guest.Store.
func (s *Store) RemoveWish(ctx context.Context, w guest.RemoveWish) (guest.Once[guest.RemovedWish], error) {
	return mutate(ctx, s, "remove_wish", w.Mutation, func(t *tx) (r guest.RemovedWish, err error) {
		existing, err := t.wish(w.Item)
		if err != nil {
			return r, err
		}
		r, e, err := w.Decide(existing, t.now)
		if err != nil || !r.Removed {
			return r, err
		}
		if err := sqlitedb.Exec(t.c, sqlRemoveWish, t.now.UnixMicro(), string(t.session), guest.ItemKey(w.Item)); err != nil {
			return r, err
		}
		return r, t.append(e)
	})
}

// Clear implements guest.Store.
func (s *Store) Clear(ctx context.Context, of guest.Clear) (guest.Once[guest.Cleared], error) {
	return mutate(ctx, s, "clear", of.Mutation, func(t *tx) (r guest.Cleared, err error) {
		if err := t.check(of.Guard); err != nil {
			return r, err
		}
		if err := sqlitedb.Exec(t.c, sqlEraseHandoffs, t.now.UnixMicro(), string(t.session)); err != nil {
			return r, err
		}
		if r.Answers, err = t.clearLists(); err != nil {
			return r, err
		}
		return r, eraseHot(t.c, t.session, r.Answers, t.now)
	})
}

// clearLists deletes the session's wishes and answers, and returns the answers' keys in hot state.
func (t *tx) clearLists() ([]string, error) {
	for _, sql := range []string{sqlClearWishes, sqlForget} {
		if err := sqlitedb.Exec(t.c, sql, string(t.session)); err != nil {
			return nil, err
		}
	}
	return sqlitedb.QueryAll(t.c, sqlClearAnswers, func(r *sqlite.Stmt) string { return r.ColumnText(0) }, string(t.session))
}
