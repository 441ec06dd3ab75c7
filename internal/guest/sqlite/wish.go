package sqlite

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
)

const (
	columns = `id, tenant_id, property_id, source, note, added_at, removed_at`

	sqlWishes = `SELECT ` + columns + ` FROM bff_consumer_wishlist_anonymous
		WHERE guest_session_id = ? AND removed_at IS NULL ORDER BY added_at DESC, id LIMIT ?`
	sqlWishesAfter = `SELECT ` + columns + ` FROM bff_consumer_wishlist_anonymous
		WHERE guest_session_id = ? AND removed_at IS NULL AND (added_at < ?2 OR added_at = ?2 AND id > ?3)
		ORDER BY added_at DESC, id LIMIT ?4`
	sqlWish    = `SELECT ` + columns + ` FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ? AND property_id = ?`
	sqlLive    = `SELECT count(*) FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ? AND removed_at IS NULL`
	sqlPutWish = `INSERT INTO bff_consumer_wishlist_anonymous (guest_session_id, ` + columns + `) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)
		ON CONFLICT (guest_session_id, property_id) DO UPDATE
		SET source = excluded.source, note = excluded.note, added_at = excluded.added_at, removed_at = NULL`
	sqlSetNote      = `UPDATE bff_consumer_wishlist_anonymous SET note = ? WHERE guest_session_id = ? AND property_id = ?`
	sqlRemoveWish   = `UPDATE bff_consumer_wishlist_anonymous SET removed_at = ? WHERE guest_session_id = ? AND property_id = ?`
	sqlClearWishes  = `DELETE FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ?`
	sqlClearAnswers = `DELETE FROM bff_consumer_idempotency_keys WHERE guest_session_id = ? RETURNING composite_key`
)

func scanWish(r *sqlite.Stmt) guest.Wish {
	w := guest.Wish{
		ID: guest.ID(r.ColumnText(0)), Tenant: r.ColumnText(1), Property: r.ColumnText(2), Source: r.ColumnText(3), Note: r.ColumnText(4),
		Added: time.UnixMicro(r.ColumnInt64(5)).UTC(),
	}
	if !r.ColumnIsNull(6) {
		w.Removed = time.UnixMicro(r.ColumnInt64(6)).UTC()
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

// tx implements guest.Tx.
type tx struct {
	c       *sqlite.Conn
	session guest.ID
	now     time.Time

	trace    guest.Trace // of events
	appended bool
}

// Now implements guest.Tx.
func (t *tx) Now() time.Time { return t.now }

func (t *tx) wish(property string) (w guest.Wish, found bool, err error) {
	return sqlitedb.QueryRow(t.c, sqlWish, scanWish, string(t.session), property)
}

// AddWish implements guest.Tx.
func (t *tx) AddWish(w guest.Wish) (result guest.Wish, added bool, err error) {
	existing, exists, err := t.wish(w.Property)
	if err != nil {
		return result, false, err
	}
	live, _, err := sqlitedb.QueryRow(t.c, sqlLive, func(r *sqlite.Stmt) int { return r.ColumnInt(0) }, string(t.session))
	if err != nil {
		return result, false, err
	}
	w.Added, w.Removed = t.now, time.Time{}
	result, added, err = guest.AddWish(w, existing, exists, live)
	if err != nil || !added {
		return result, false, err
	}
	if err := sqlitedb.Exec(t.c, sqlAddSeen, string(t.session), day(t.now)); err != nil {
		return result, false, err
	}
	return result, true, sqlitedb.Exec(t.c, sqlPutWish, string(t.session), string(result.ID), result.Tenant, result.Property, result.Source,
		orNull(result.Note), result.Added.UnixMicro())
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// live returns a live entry.
func (t *tx) live(property string) (guest.Wish, error) {
	w, found, err := t.wish(property)
	if err == nil {
		err = guest.CheckLive(w, found)
	}
	return w, err
}

// SetNote implements guest.Tx.
func (t *tx) SetNote(property, note string) (guest.Wish, error) {
	w, err := t.live(property)
	if err != nil {
		return guest.Wish{}, err
	}
	w.Note = note
	return w, sqlitedb.Exec(t.c, sqlSetNote, orNull(note), string(t.session), property)
}

// RemoveWish implements guest.Tx.
func (t *tx) RemoveWish(property string) (w guest.Wish, removed bool, err error) {
	w, err = t.live(property)
	switch {
	case errors.Is(err, guest.ErrNoWish):
		return guest.Wish{}, false, nil
	case err != nil:
		return guest.Wish{}, false, err
	}
	w.Removed = t.now
	return w, true, sqlitedb.Exec(t.c, sqlRemoveWish, t.now.UnixMicro(), string(t.session), property)
}

// Clear implements guest.Tx.
func (t *tx) Clear() ([]string, error) {
	if err := sqlitedb.Exec(t.c, sqlClearWishes, string(t.session)); err != nil {
		return nil, err
	}
	if err := sqlitedb.Exec(t.c, sqlForget, string(t.session)); err != nil {
		return nil, err
	}
	if err := sqlitedb.Exec(t.c, sqlEraseHandoffs, t.now.UnixMicro(), string(t.session)); err != nil {
		return nil, err
	}
	return sqlitedb.QueryAll(t.c, sqlClearAnswers, func(r *sqlite.Stmt) string { return r.ColumnText(0) }, string(t.session))
}
