// Package sqlite stores durable guest data in a SQLite file. Mutations run one at a time, in the file's group-commit
// writer.
package sqlite

import (
	"context"
	"embed"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/clock"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/outbox"
	outboxsqlite "holdfast/internal/outbox/sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) { return migrate.Load("guest", migrations, "migrations") }

// Store keeps guests' data in an SQLite file. A single writer runs mutations one by one, so they need no locks. It is
// safe for concurrent use.
type Store struct {
	db  *sqlitedb.DB
	now clock.Clock // also the database clock
	set func() (migrate.Set, error)

	waker *outbox.Waker
}

var _ backend.Store = (*Store)(nil)

// New returns a store. Apply Migrations first. The waker, which may be nil, wakes this process's relay after
// mutations with events.
func New(db *sqlitedb.DB, now clock.Clock, waker *outbox.Waker) *Store {
	return &Store{db: db, now: now, set: sync.OnceValues(Migrations), waker: waker}
}

// Outbox returns the events for delivery.
func (s *Store) Outbox() outbox.Retaining {
	return outbox.Waking(outboxsqlite.OpenRetaining(s.db, "bff_consumer_outbox", s.now), s.waker)
}

// Ping returns an error if the file is unreadable or its schema too old or too new.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the guest database needs %d migrations")
}

// The column response_status holds guest.StoredAnswer.Version. The columns content_type and location are unused.
const (
	sqlAnswer = `SELECT request_digest = ?, response_status, response_body
		FROM bff_consumer_idempotency_keys WHERE composite_key = ? AND expires_at > ?`
	sqlKeepAnswer = `INSERT OR REPLACE INTO bff_consumer_idempotency_keys
		(composite_key, guest_session_id, route, request_digest, response_status, content_type, location, response_body, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, '', '', ?, ?, ?)`
)

type kept struct {
	guest.StoredAnswer
	same bool
}

// tx is a mutation's transaction.
type tx struct {
	c       *sqlite.Conn
	session guest.ID
	now     time.Time

	trace    guest.Trace
	appended bool
}

// mutate runs do in a mutation transaction and stores its result as the answer, or returns the stored answer. It wakes
// the relay after the commit.
func mutate[R any](ctx context.Context, s *Store, name string, m guest.Mutation, do func(*tx) (R, error)) (guest.Once[R], error) {
	key := m.CompositeKey()
	var o guest.Once[R]
	var t *tx
	err := s.db.Write(ctx, name, func(c *sqlite.Conn) error {
		t = &tx{c: c, session: m.Session, now: s.time(), trace: m.Trace}
		before, found, err := sqlitedb.QueryRow(c, sqlAnswer, func(r *sqlite.Stmt) kept {
			return kept{guest.StoredAnswer{Version: r.ColumnInt(1), Body: blob(r, 2)}, r.ColumnBool(0)}
		}, m.Digest[:], key, t.now.UnixMicro())
		if err != nil {
			return err
		}
		var done bool
		if o, done, err = guest.Begin[R](&m, before.StoredAnswer, found, before.same); err != nil || done {
			return err
		}
		if o.Result, err = do(t); err != nil {
			return err
		}
		a, err := m.Encode(o.Result)
		if err != nil {
			return err
		}
		return sqlitedb.Exec(c, sqlKeepAnswer, key, string(m.Session), m.Route, m.Digest[:], a.Version, a.Body,
			t.now.UnixMicro(), t.now.Add(guest.MutationLife).UnixMicro())
	})
	if err != nil {
		return guest.Once[R]{}, err
	}
	if t.appended {
		s.waker.Wake(string(m.Session), "")
	}
	return o, nil
}

// blob copies a column, since SQLite reuses its memory.
func blob(r *sqlite.Stmt, column int) []byte {
	b := make([]byte, r.ColumnLen(column))
	r.ColumnBytes(column, b)
	return b
}
