// Package postgres stores what guest must not lose in PostgreSQL. A mutation is a
// transaction that begins with a lock of the session; the rules run between its
// statements.
package postgres

import (
	"context"
	"embed"
	"strconv"
	"sync"
	"time"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest"
	"holdfast/internal/outbox"
	outboxpg "holdfast/internal/outbox/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema changes of this backend.
func Migrations() (migrate.Set, error) { return migrate.Load("guest", migrations, "migrations") }

// Store implements guest.Store.
type Store struct {
	db  *pgdb.DB
	set func() (migrate.Set, error)

	waker *outbox.Waker
}

var _ guest.Store = (*Store)(nil)

// New returns a store on a database. Apply Migrations to the database before the first
// use. The waker, if not nil, wakes the relay of the process after a mutation with events.
func New(db *pgdb.DB, waker *outbox.Waker) *Store {
	return &Store{db: db, set: sync.OnceValues(Migrations), waker: waker}
}

// Outbox implements guest.Store.
func (s *Store) Outbox() outbox.Kept {
	return outbox.Waking(outboxpg.OpenKept(s.db, "bff_consumer.outbox"), s.waker)
}

// Ping implements guest.Store. It reads the table of migrations each time, because a
// newer release may migrate the database while this server runs.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the database of guest needs %d migrations: run holdfast migrate")
}

// mostWait is how long a mutation waits for others of its session.
const mostWait = 5 * time.Second

var wait = strconv.FormatInt(mostWait.Milliseconds(), 10)

var (
	sqlBegin = pgdb.Statement{Name: "guest.begin_mutation", SQL: `
		SELECT at, coalesce(same, false), coalesce(status, 0), coalesce(content_type, ''), coalesce(location, ''), body
		FROM bff_consumer.begin_mutation($1, $2, $3, $4)`}
	sqlKeepAnswer = pgdb.Statement{Name: "guest.keep_answer", SQL: `
		INSERT INTO bff_consumer.idempotency_keys
			(composite_key, guest_session_id, route, request_digest, response_status, content_type, location, response_body, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (composite_key) DO UPDATE SET request_digest = excluded.request_digest, response_status = excluded.response_status,
			content_type = excluded.content_type, location = excluded.location, response_body = excluded.response_body,
			created_at = excluded.created_at, expires_at = excluded.expires_at`}
)

// Mutate implements guest.Store.
func (s *Store) Mutate(ctx context.Context, m guest.Mutation, fn func(guest.Tx) (guest.Answer, error)) (a guest.Answer, replayed bool, err error) {
	key := m.CompositeKey()
	appended := false
	err = s.db.Tx(ctx, "guest.mutate", func(t *pgdb.Tx) error {
		a, replayed = guest.Answer{}, false
		var now time.Time
		var same bool
		var before guest.Answer
		_, err := t.QueryRow(sqlBegin, []any{string(m.Session), key, m.Digest[:], wait}, &now, &same, &before.Status, &before.ContentType, &before.Location, &before.Body)
		switch {
		case pgdb.IsState(err, pgdb.LockNotAvailable):
			return guest.ErrInFlight
		case err != nil:
			return err
		case before.Status != 0 && !same:
			return guest.ErrKeyReused
		case before.Status != 0:
			a, replayed = before, true
			return nil
		}
		now = now.UTC()
		x := &tx{t: t, session: m.Session, now: now, trace: m.Trace}
		if a, err = fn(x); err != nil {
			return err
		}
		appended = x.appended
		body := a.Body
		if body == nil {
			body = []byte{}
		}
		err = t.Queue(sqlKeepAnswer, key, string(m.Session), m.Route, m.Digest[:], a.Status, a.ContentType, a.Location, body, now, now.Add(guest.MutationLife))
		return err
	})
	if err != nil {
		return guest.Answer{}, false, err
	}
	if appended && !replayed {
		s.waker.Wake(string(m.Session), "")
	}
	return a, replayed, nil
}

var (
	sqlAnswers = pgdb.Statement{Name: "guest.answers", SQL: `
		SELECT composite_key, response_body FROM bff_consumer.idempotency_keys
		WHERE composite_key > $1 AND route = $2 AND substr(response_body, 1, 1) = $3 ORDER BY composite_key LIMIT $4`}
	sqlReplaceBody = pgdb.Statement{Name: "guest.replace_body", SQL: `
		UPDATE bff_consumer.idempotency_keys SET response_body = $3 WHERE composite_key = $1 AND response_body = $2`}
)

// Answers implements guest.Store.
func (s *Store) Answers(ctx context.Context, route string, begins byte, after string, limit int) (all []guest.KeyedAnswer, err error) {
	var row guest.KeyedAnswer
	err = s.db.ForEach(ctx, sqlAnswers, []any{after, route, []byte{begins}, limit}, func() { all = nil }, func() error {
		all = append(all, row)
		row.Body = nil
		return nil
	}, &row.Key, &row.Body)
	return all, err
}

// ReplaceBodies implements guest.Store.
func (s *Store) ReplaceBodies(ctx context.Context, all []guest.NewBody) error {
	return s.db.Tx(ctx, "guest.replace_bodies", func(t *pgdb.Tx) error {
		for _, b := range all {
			if err := t.Queue(sqlReplaceBody, b.Key, b.Old, b.New); err != nil {
				return err
			}
		}
		return nil
	})
}
