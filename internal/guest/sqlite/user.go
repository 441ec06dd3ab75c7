package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
)

const (
	sqlUserList   = `SELECT list_id FROM bff_consumer_user_sessions WHERE user_id = ? ORDER BY session_id DESC LIMIT 1`
	sqlKeptWishes = `SELECT ` + columns + ` FROM bff_consumer_wishlist_anonymous
		WHERE guest_session_id = ?1 AND (removed_at IS NULL OR property_id IN
			(SELECT property_id FROM bff_consumer_wishlist_anonymous WHERE guest_session_id = ?2 AND removed_at IS NULL))`
	sqlAddUserSession = `INSERT INTO bff_consumer_user_sessions (session_id, user_id, list_id, linked_at, seen_at) VALUES (?, ?, ?, ?, ?)`

	userSession       = `SELECT session_id, user_id, list_id, linked_at, seen_at FROM bff_consumer_user_sessions WHERE ended_at IS NULL`
	sqlUserSession    = userSession + ` AND session_id = ?`
	sqlUserSessions   = userSession + ` AND user_id = ? AND session_id > ? ORDER BY session_id LIMIT ?`
	sqlAllUserSession = userSession + ` AND session_id > ? ORDER BY session_id LIMIT ?`

	sqlEndUserSession  = `UPDATE bff_consumer_user_sessions SET ended_at = ?1 WHERE session_id = ?2 AND (?3 = '' OR user_id = ?3) AND ended_at IS NULL`
	sqlEndUserSessions = `UPDATE bff_consumer_user_sessions SET ended_at = ?1 WHERE user_id = ?2 AND session_id <> ?3 AND ended_at IS NULL`

	sqlUserSeen          = `UPDATE bff_consumer_user_sessions SET seen_at = ?2 WHERE session_id = ?1 AND seen_at < ?2`
	sqlEraseUserSessions = `DELETE FROM bff_consumer_user_sessions WHERE list_id = ?`
)

// LinkUser implements guest.UserStore.
func (s *Store) LinkUser(ctx context.Context, l guest.Link) (guest.Once[guest.Linked], error) {
	o, err := mutate(ctx, s, "link", l.Mutation, func(t *tx) (r guest.Linked, err error) {
		if err := t.check(l.Guard); err != nil {
			return r, err
		}
		list, found, err := sqlitedb.QueryRow(t.c, sqlUserList, scanID, l.User)
		if err != nil {
			return r, err
		}
		if !found {
			list = l.List
		}
		kept, err := sqlitedb.QueryAll(t.c, sqlKeptWishes, scanWish, string(list), string(t.session))
		if err != nil {
			return r, err
		}
		moved, err := sqlitedb.QueryAll(t.c, sqlWishes, scanWish, string(t.session), guest.MaxWishes)
		if err != nil {
			return r, err
		}
		r, put, e, err := l.Decide(list, kept, moved, t.now)
		if err != nil {
			return r, err
		}
		if r.Answers, err = t.clearLists(); err != nil {
			return r, err
		}
		if err := t.voidOpen(l.Profile); err != nil {
			return r, err
		}
		t.session = list
		for _, w := range put {
			if err := t.putWish(w); err != nil {
				return r, err
			}
		}
		if err := sqlitedb.Exec(t.c, sqlAddUserSession, string(r.Session), r.User, string(list), t.now.UnixMicro(), t.now.UnixMicro()); err != nil {
			return r, err
		}
		return r, t.append(e)
	})
	if err == nil && !o.Replayed {
		s.waker.Wake(string(o.Result.List), "")
	}
	return o, err
}

func scanID(r *sqlite.Stmt) guest.ID { return guest.ID(r.ColumnText(0)) }

// scanUserSession reads a user's session.
func scanUserSession(r *sqlite.Stmt) guest.UserSession {
	return guest.UserSession{
		ID: scanID(r), User: r.ColumnText(1), List: guest.ID(r.ColumnText(2)),
		Linked: time.UnixMicro(r.ColumnInt64(3)).UTC(), Seen: time.UnixMicro(r.ColumnInt64(4)).UTC(),
	}
}

// UserList implements guest.UserStore.
func (s *Store) UserList(ctx context.Context, user string) (list guest.ID, found bool, err error) {
	err = s.db.Read(ctx, "user_list", func(c *sqlite.Conn) (err error) {
		list, found, err = sqlitedb.QueryRow(c, sqlUserList, scanID, user)
		return err
	})
	return list, found, err
}

// UserSession implements guest.UserStore.
func (s *Store) UserSession(ctx context.Context, id guest.ID) (u guest.UserSession, found bool, err error) {
	err = s.db.Read(ctx, "user_session", func(c *sqlite.Conn) (err error) {
		u, found, err = sqlitedb.QueryRow(c, sqlUserSession, scanUserSession, string(id))
		return err
	})
	return u, found, err
}

// UserSessions implements guest.UserStore.
func (s *Store) UserSessions(ctx context.Context, q guest.UserSessionQuery) (all []guest.UserSession, err error) {
	sql, args := sqlAllUserSession, []any{string(q.After), q.Limit}
	if q.User != "" {
		sql, args = sqlUserSessions, []any{q.User, string(q.After), q.Limit}
	}
	err = s.db.Read(ctx, "user_sessions", func(c *sqlite.Conn) (err error) {
		all, err = sqlitedb.QueryAll(c, sql, scanUserSession, args...)
		return err
	})
	return all, err
}

// EndUserSessions implements guest.UserStore.
func (s *Store) EndUserSessions(ctx context.Context, e guest.EndUserSessions) (n int, err error) {
	now := s.time().UnixMicro()
	err = s.db.Write(ctx, "end_user_sessions", func(c *sqlite.Conn) (err error) {
		if e.Session != "" {
			err = sqlitedb.Exec(c, sqlEndUserSession, now, string(e.Session), e.User)
		} else {
			err = sqlitedb.Exec(c, sqlEndUserSessions, now, e.User, string(e.Except))
		}
		n = c.Changes()
		return err
	})
	return n, err
}
