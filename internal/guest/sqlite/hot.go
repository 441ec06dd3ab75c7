package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

const (
	sqlKeptHot = `SELECT guest_session_id, id, state, expires_at FROM bff_consumer_hot_state
		WHERE (expires_at, id) > (?, ?) ORDER BY expires_at, id LIMIT ?`
	sqlErasedHot = `SELECT session_hash, answers, expires_at FROM bff_consumer_hot_erased ORDER BY session_hash, expires_at LIMIT ?`
	sqlKeepHot   = `INSERT INTO bff_consumer_hot_state (guest_session_id, id, state, expires_at) SELECT ?1, ?2, ?3, ?4
		WHERE NOT EXISTS (SELECT 1 FROM bff_consumer_hot_erased WHERE session_hash = ?5)
		ON CONFLICT (guest_session_id, id) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at`
	sqlDropHot    = `DELETE FROM bff_consumer_hot_state WHERE guest_session_id = ?`
	sqlNoteErased = `INSERT OR REPLACE INTO bff_consumer_hot_erased (session_hash, answers, expires_at) VALUES (?, ?, ?)`
	sqlDropErased = `DELETE FROM bff_consumer_hot_erased WHERE session_hash = ? AND expires_at = ?`

	sqlDropOldHot = `DELETE FROM bff_consumer_hot_state WHERE rowid IN
		(SELECT rowid FROM bff_consumer_hot_state WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`
	sqlDropOldErased = `DELETE FROM bff_consumer_hot_erased WHERE (session_hash, expires_at) IN
		(SELECT session_hash, expires_at FROM bff_consumer_hot_erased WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`
)

var _ guest.HotStore = (*Store)(nil)

// KeptHot implements guest.HotStore.
func (s *Store) KeptHot(ctx context.Context, after guest.HotState, limit int) (all []guest.HotState, err error) {
	position := int64(0)
	if !after.Expires.IsZero() {
		position = after.Expires.UnixMicro()
	}
	err = s.db.Read(ctx, "kept_hot", func(c *sqlite.Conn) (err error) {
		all, err = sqlitedb.QueryAll(c, sqlKeptHot, func(r *sqlite.Stmt) guest.HotState {
			return guest.HotState{Session: scanID(r), ID: guest.ID(r.ColumnText(1)), State: blob(r, 2), Expires: time.UnixMicro(r.ColumnInt64(3)).UTC()}
		}, position, string(after.ID), limit)
		return err
	})
	return all, err
}

// ErasedHot implements guest.HotStore.
func (s *Store) ErasedHot(ctx context.Context, limit int) (all []guest.ErasedHot, err error) {
	err = s.db.Read(ctx, "erased_hot", func(c *sqlite.Conn) error {
		all = nil
		return sqlitedb.ForEach(c, sqlErasedHot, func(r *sqlite.Stmt) error {
			e := guest.ErasedHot{Until: time.UnixMicro(r.ColumnInt64(2)).UTC()}
			copy(e.Session[:], blob(r, 0))
			err := json.Unmarshal([]byte(r.ColumnText(1)), &e.Answers)
			all = append(all, e)
			return err
		}, limit)
	})
	return all, err
}

// KeepHot implements guest.HotStore.
func (s *Store) KeepHot(ctx context.Context, of guest.HotChanges, erased []guest.ErasedHot) error {
	return s.db.Write(ctx, "keep_hot", func(c *sqlite.Conn) error {
		for _, id := range of.Dropped {
			if err := sqlitedb.Exec(c, sqlDropHot, string(id)); err != nil {
				return err
			}
		}
		for i := range of.Changed {
			h := &of.Changed[i]
			hash := h.Session.Hash()
			if err := sqlitedb.Exec(c, sqlKeepHot, string(h.Session), string(h.ID), h.State, h.Expires.UnixMicro(), hash[:]); err != nil {
				return err
			}
		}
		for _, e := range erased {
			if err := sqlitedb.Exec(c, sqlDropErased, e.Session[:], e.Until.UnixMicro()); err != nil {
				return err
			}
		}
		return nil
	})
}

// erasedLife is how long a process may take to read that a session was erased. A server reads it within seconds; without
// a server that keeps hot state in memory, the row is deleted after it.
const erasedLife = 24 * time.Hour

// eraseHot deletes a session's hot state, and notes the erasure with the session's answer keys.
func eraseHot(c *sqlite.Conn, session guest.ID, answers []string, now time.Time) error {
	if answers == nil {
		answers = []string{}
	}
	keys, err := json.Marshal(answers)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode the keys of answers", err)
	}
	if err := sqlitedb.Exec(c, sqlDropHot, string(session)); err != nil {
		return err
	}
	hash := session.Hash()
	return sqlitedb.Exec(c, sqlNoteErased, hash[:], string(keys), now.Add(erasedLife).UnixMicro())
}

// DropOldHot deletes hot state and erasure notes that expired before a time, up to limit rows.
func (s *Store) DropOldHot(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = s.db.Write(ctx, "drop_old_hot", func(c *sqlite.Conn) error {
		n = 0
		for _, sql := range []string{sqlDropOldErased, sqlDropOldHot} {
			if err := sqlitedb.Exec(c, sql, before.UnixMicro(), limit-n); err != nil {
				return err
			}
			n += c.Changes()
		}
		return nil
	})
	return n, err
}

// ForgetHot deletes all hot state, e.g. in a restored database: guests may clear their sessions after a backup.
func (s *Store) ForgetHot(ctx context.Context) error {
	return s.db.Write(ctx, "forget_hot", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, `DELETE FROM bff_consumer_hot_state`) })
}
