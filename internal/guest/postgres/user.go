package postgres

import (
	"context"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
)

const userSession = `SELECT session_id, user_id, list_id, linked_at, seen_at FROM bff_consumer.user_sessions WHERE ended_at IS NULL`

var (
	sqlUserList = pgdb.Statement{Name: "guest.user_list", SQL: `
		SELECT list_id FROM bff_consumer.user_sessions WHERE user_id = $1 ORDER BY session_id DESC LIMIT 1`}
	// sqlKeptWishes reads the user's live entries, and removed rows for items in the session's list.
	sqlKeptWishes = pgdb.Statement{Name: "guest.kept_wishes", SQL: `
		SELECT ` + columns + ` FROM bff_consumer.wishlist_anonymous
		WHERE guest_session_id = $1 AND (removed_at IS NULL OR property_id IN
			(SELECT property_id FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $2 AND removed_at IS NULL))`}
	sqlAddUserSession = pgdb.Statement{Name: "guest.add_user_session", SQL: `
		INSERT INTO bff_consumer.user_sessions (session_id, user_id, list_id, linked_at, seen_at) VALUES ($1, $2, $3, $4, $4)`}

	sqlUserSession     = pgdb.Statement{Name: "guest.user_session", SQL: userSession + ` AND session_id = $1`}
	sqlUserSessions    = pgdb.Statement{Name: "guest.user_sessions", SQL: userSession + ` AND user_id = $1 AND session_id > $2 ORDER BY session_id LIMIT $3`}
	sqlAllUserSessions = pgdb.Statement{Name: "guest.all_user_sessions", SQL: userSession + ` AND session_id > $1 ORDER BY session_id LIMIT $2`}

	sqlEndUserSession = pgdb.Statement{Name: "guest.end_user_session", SQL: `
		UPDATE bff_consumer.user_sessions SET ended_at = clock_timestamp() WHERE session_id = $1 AND ($2 = '' OR user_id = $2) AND ended_at IS NULL`}
	sqlEndUserSessions = pgdb.Statement{Name: "guest.end_user_sessions", SQL: `
		UPDATE bff_consumer.user_sessions SET ended_at = clock_timestamp() WHERE user_id = $1 AND session_id <> $2 AND ended_at IS NULL`}

	sqlUserSeen = pgdb.Statement{Name: "guest.mark_user_sessions_seen", SQL: `
		UPDATE bff_consumer.user_sessions SET seen_at = $2 WHERE session_id = ANY (ARRAY(
			SELECT session_id FROM bff_consumer.user_sessions WHERE session_id = ANY ($1) AND seen_at < $2 FOR UPDATE SKIP LOCKED))`}
	sqlEraseUserSessions = pgdb.Statement{Name: "guest.erase_user_sessions", SQL: `DELETE FROM bff_consumer.user_sessions WHERE list_id = $1`}
)

// LinkUser locks the session, the user and the user's list, in this order. No cookie names a list, so no other
// mutation that locks a list waits for another lock.
func (s *Store) LinkUser(ctx context.Context, l guest.Link) (guest.Once[guest.Linked], error) {
	o, err := mutate(ctx, s, "guest.link", l.Mutation, func(t *tx) (r guest.Linked, err error) {
		if err := t.check(l.Guard); err != nil {
			return r, err
		}
		list, err := t.userList(l)
		if err != nil {
			return r, err
		}
		kept, err := t.wishes(sqlKeptWishes, string(list), string(t.session))
		if err != nil {
			return r, err
		}
		moved, err := t.wishes(sqlWishes, string(t.session), guest.MaxWishes)
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
			if err := t.t.Queue(sqlPutWish.Statement, sqlPutWish.Args(addedWish{list, w})...); err != nil {
				return r, err
			}
		}
		if err := t.t.Queue(sqlSeen, []string{string(list)}, day(t.now)); err != nil { // entries keep their age
			return r, err
		}
		if err := t.t.Queue(sqlAddUserSession, string(r.Session), r.User, string(list), t.now); err != nil {
			return r, err
		}
		return r, t.append(e)
	})
	if err == nil && !o.Replayed {
		s.waker.Wake(string(o.Result.List), "")
	}
	return o, err
}

// userList locks the user and returns the user's list, which is l.List if the user has none yet.
func (t *tx) userList(l guest.Link) (guest.ID, error) {
	none := make([]byte, 32) // matches no answer
	if _, err := begin(t.t, "user:"+guest.ID(l.User), "", none); err != nil {
		return "", err
	}
	list := string(l.List)
	if _, err := t.t.QueryRow(sqlUserList, []any{l.User}, &list); err != nil {
		return "", err
	}
	b, err := begin(t.t, guest.ID(list), "", none)
	t.now = b.now
	return guest.ID(list), err
}

// wishes reads all entries that a statement returns.
func (t *tx) wishes(s pgdb.Statement, args ...any) (all []guest.Wish, err error) {
	var row scanWish
	err = t.t.ForEach(s, args, func() error {
		all = append(all, row.wish())
		return nil
	}, row.dest()...)
	return all, err
}

// UserList implements guest.UserStore.
func (s *Store) UserList(ctx context.Context, user string) (list guest.ID, found bool, err error) {
	var id string
	found, err = s.db.QueryRow(ctx, sqlUserList, []any{user}, &id)
	return guest.ID(id), found, err
}

// scanUserSession holds the destinations for a user's session.
type scanUserSession struct {
	guest.UserSession
	id, list string
}

// dest returns the destinations in order.
func (s *scanUserSession) dest() []any { return []any{&s.id, &s.User, &s.list, &s.Linked, &s.Seen} }

// session decodes the last row read.
func (s *scanUserSession) session() guest.UserSession {
	u := s.UserSession
	u.ID, u.List, u.Linked, u.Seen = guest.ID(s.id), guest.ID(s.list), u.Linked.UTC(), u.Seen.UTC()
	return u
}

// UserSession implements guest.UserStore.
func (s *Store) UserSession(ctx context.Context, id guest.ID) (guest.UserSession, bool, error) {
	var row scanUserSession
	found, err := s.db.QueryRow(ctx, sqlUserSession, []any{string(id)}, row.dest()...)
	if err != nil || !found {
		return guest.UserSession{}, false, err
	}
	return row.session(), true, nil
}

// UserSessions implements guest.UserStore.
func (s *Store) UserSessions(ctx context.Context, q guest.UserSessionQuery) (all []guest.UserSession, err error) {
	statement, args := sqlAllUserSessions, []any{string(q.After), q.Limit}
	if q.User != "" {
		statement, args = sqlUserSessions, []any{q.User, string(q.After), q.Limit}
	}
	var row scanUserSession
	err = s.db.ForEach(ctx, statement, args, func() { all = nil }, func() error {
		all = append(all, row.session())
		return nil
	}, row.dest()...)
	return all, err
}

// EndUserSessions implements guest.UserStore.
func (s *Store) EndUserSessions(ctx context.Context, e guest.EndUserSessions) (int, error) {
	statement, args := sqlEndUserSessions, []any{e.User, string(e.Except)}
	if e.Session != "" {
		statement, args = sqlEndUserSession, []any{string(e.Session), e.User}
	}
	n, err := s.db.Exec(ctx, statement, args...)
	return int(n), err
}

// markUsersSeen notes the day on which sessions were used.
func (s *Store) markUsersSeen(ctx context.Context, sessions []string, at time.Time) error {
	if len(sessions) == 0 {
		return nil
	}
	_, err := s.db.Exec(ctx, sqlUserSeen, sessions, at)
	return err
}
