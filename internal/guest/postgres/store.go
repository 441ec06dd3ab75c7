// Package postgres stores durable guest data in PostgreSQL. A mutation is a transaction that first locks the session;
// the rules run between its statements.
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
	"holdfast/internal/guest/backend"
	"holdfast/internal/outbox"
	outboxpg "holdfast/internal/outbox/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema's history.
func Migrations() (migrate.Set, error) { return migrate.Load("guest", migrations, "migrations") }

// Store keeps guests' data in PostgreSQL. Mutations lock their session. It is safe for concurrent use.
type Store struct {
	db  *pgdb.DB
	set func() (migrate.Set, error)

	waker *outbox.Waker
}

var _ backend.Store = (*Store)(nil)

// New returns a store. Apply Migrations first. The waker, which may be nil, wakes this process's relay after
// mutations with events.
func New(db *pgdb.DB, waker *outbox.Waker) *Store {
	return &Store{db: db, set: sync.OnceValues(Migrations), waker: waker}
}

// Outbox returns the events for delivery.
func (s *Store) Outbox() outbox.Retaining {
	return outbox.Waking(outboxpg.OpenRetaining(s.db, "bff_consumer.outbox"), s.waker)
}

// Ping checks the migrations each time, because a newer release may migrate the database meanwhile.
func (s *Store) Ping(ctx context.Context) error {
	return migrate.Ready(ctx, s.set, s.db.Pending, "the guest database needs %d migrations: run holdfast migrate")
}

// mostWait is how long a mutation waits for other mutations of its session.
const mostWait = 5 * time.Second

// mostWait in milliseconds, for lock_timeout.
var wait = strconv.FormatInt(mostWait.Milliseconds(), 10)

// The column response_status holds guest.StoredAnswer.Version. The columns content_type and location are unused.
var (
	sqlBegin = pgdb.Statement{Name: "guest.begin_mutation", SQL: `
		SELECT at, coalesce(same, false), coalesce(status, 0), body
		FROM bff_consumer.begin_mutation(in_session => $1, in_key => $2, in_digest => $3, in_wait => $4)`}
	sqlKeepAnswer = pgdb.NewNamed(pgdb.Statement{Name: "guest.keep_answer", SQL: `
		INSERT INTO bff_consumer.idempotency_keys
			(composite_key, guest_session_id, route, request_digest, response_status, content_type, location, response_body, created_at, expires_at)
		VALUES (@key, @session, @route, @digest, @version, '', '', @body, @now, @expires)
		ON CONFLICT (composite_key) DO UPDATE SET request_digest = excluded.request_digest, response_status = excluded.response_status,
			response_body = excluded.response_body,
			created_at = excluded.created_at, expires_at = excluded.expires_at`}, keptAnswer.args)
)

// keptAnswer holds the parameters for a stored answer.
type keptAnswer struct {
	guest.StoredAnswer
	of  guest.Mutation
	now time.Time
}

// args names and orders the parameters for pgdb.
func (k keptAnswer) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "key", Value: k.of.CompositeKey()},
		{Param: "session", Value: string(k.of.Session)},
		{Param: "route", Value: k.of.Route},
		{Param: "digest", Value: k.of.Digest[:]},
		{Param: "version", Value: k.Version},
		{Param: "body", Value: k.Body},
		{Param: "now", Value: k.now},
		{Param: "expires", Value: k.now.Add(guest.MutationLife)},
	}
}

// tx is a mutation's transaction, which holds the session's lock.
type tx struct {
	t       *pgdb.Tx
	session guest.ID
	now     time.Time

	trace    guest.Trace
	appended bool
}

// begun is the result from begin.
type begun struct {
	now  time.Time
	same bool
	guest.StoredAnswer
}

// begin locks the session against other mutations until the transaction ends, and reads the answer for key.
// Version 0 means that the key has no answer.
func begin(t *pgdb.Tx, session guest.ID, key string, digest []byte) (b begun, err error) {
	_, err = t.QueryRow(sqlBegin, []any{string(session), key, digest, wait}, &b.now, &b.same, &b.Version, &b.Body)
	if pgdb.IsState(err, pgdb.LockNotAvailable) {
		err = guest.ErrInFlight
	}
	b.now = b.now.UTC()
	return b, err
}

// mutate runs do in a mutation transaction and stores its result as the answer, or returns the stored answer. It wakes
// the relay after the commit. do may run again.
func mutate[R any](ctx context.Context, s *Store, name string, m guest.Mutation, do func(*tx) (R, error)) (guest.Once[R], error) {
	key := m.CompositeKey()
	var o guest.Once[R]
	var x *tx
	err := s.db.Tx(ctx, name, func(t *pgdb.Tx) error {
		x = &tx{t: t, session: m.Session, trace: m.Trace}
		b, err := begin(t, m.Session, key, m.Digest[:])
		if err != nil {
			return err
		}
		x.now = b.now
		var done bool
		if o, done, err = guest.Begin[R](&m, b.StoredAnswer, b.Version != 0, b.same); err != nil || done {
			return err
		}
		if o.Result, err = do(x); err != nil {
			return err
		}
		a, err := m.Encode(o.Result)
		if err != nil {
			return err
		}
		return t.Queue(sqlKeepAnswer.Statement, sqlKeepAnswer.Args(keptAnswer{a, m, x.now})...)
	})
	if err != nil {
		return guest.Once[R]{}, err
	}
	if x.appended {
		s.waker.Wake(string(m.Session), "")
	}
	return o, nil
}
