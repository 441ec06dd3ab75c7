package pgdb

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

// Options configure Open. Only URL is required.
type Options struct {
	// URL is postgres://user@host/database or key=value pairs.
	URL string

	// MaxConns defaults to 10.
	MaxConns int

	// ConnectTimeout limits the wait for a connection, and on Citus for a busy node. The default is 30 s.
	ConnectTimeout time.Duration

	// MaxLifetime and MaxIdle are the age and the idle time after which a connection is closed. The defaults are 1 h
	// and 30 min.
	MaxLifetime, MaxIdle time.Duration

	// StatementTimeout limits each try of a statement outside Tx including its lock waits, each try of a whole Tx, and the
	// wait for each streamed row. The default is 30 s. It cancels the statement on the server, because a pooler would lose
	// a session setting.
	StatementTimeout time.Duration

	// ApplicationName is the name in pg_stat_activity, unless the URL sets it.
	ApplicationName string

	// Observe, if set, gets the name, duration (including the wait for a connection and all retries) and error, with its
	// errcode or nil, of every statement outside Tx, and of every Tx as a whole. It is called concurrently.
	Observe func(statement string, d time.Duration, err error)

	// Fault, for tests, is called before each statement with its name and before each commit with "commit", also
	// concurrently; its error counts as a database error.
	Fault func(point string) error
}

// DB is an open database, safe for concurrent use.
type DB struct {
	pool     *pgxpool.Pool
	opts     Options
	prepares bool            // the driver prepares statements, unless the URL forbids it
	where    string          // see Where
	nodes    *nodes          // nil: not distributed, see Distributed
	pulse    *pulse          // see Hung
	life     context.Context // ends with Close
	end      context.CancelFunc
}

// Open creates the pool, which connects on first use: the server may be down. An invalid URL is errcode.Invalid. ctx
// gives values only; use Close to end the pool.
func Open(ctx context.Context, opts Options) (*DB, error) {
	conf, err := pgxpool.ParseConfig(opts.URL)
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "the PostgreSQL URL is not valid", err)
	}
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	orElse(&opts.ConnectTimeout, 30*time.Second)
	orElse(&opts.StatementTimeout, 30*time.Second)
	orElse(&opts.MaxLifetime, time.Hour)
	orElse(&opts.MaxIdle, 30*time.Minute)
	if opts.MaxConns <= 0 {
		opts.MaxConns = 10
	}
	conf.MaxConns = int32(opts.MaxConns)
	conf.MaxConnLifetime, conf.MaxConnLifetimeJitter = opts.MaxLifetime, opts.MaxLifetime/10
	conf.MaxConnIdleTime = opts.MaxIdle
	// The check of an idle connection must not use up the caller's time if the server vanished silently.
	conf.PingTimeout = 5 * time.Second
	conf.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > time.Second || hasPendingData(p.Conn.PgConn().Conn())
	}
	if conf.ConnConfig.ConnectTimeout <= 0 {
		conf.ConnConfig.ConnectTimeout = opts.ConnectTimeout
	}
	if params := conf.ConnConfig.RuntimeParams; params["application_name"] == "" && opts.ApplicationName != "" {
		params["application_name"] = opts.ApplicationName
	}
	// When a caller gives up, the statement is cancelled on the server. The connection is closed unless the server
	// confirms within a second.
	conf.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Second}
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "cannot create the PostgreSQL connection pool", err)
	}
	db := &DB{
		pool: pool, opts: opts, where: describe(conf.ConnConfig),
		prepares: conf.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement,
	}
	db.life, db.end = context.WithCancel(context.WithoutCancel(ctx))
	db.pulse = &pulse{life: db.life, limit: opts.ConnectTimeout, ask: db.ask}
	db.pulse.beat()
	return db, nil
}

// Patient returns db with another StatementTimeout, which must be above 0. Both share the pool; close only one of them.
func (db *DB) Patient(timeout time.Duration) *DB {
	patient := *db
	patient.opts.StatementTimeout = timeout
	return &patient
}

// Where describes the server and database without secrets, for logs and `holdfast check`.
func (db *DB) Where() string { return db.where }

// describe returns Where's text: all hosts and sockets that the URL names.
func describe(c *pgx.ConnConfig) string {
	var hosts, sockets []string
	add := func(host string, port uint16) {
		network, address := pgconn.NetworkAddress(host, port)
		list := &hosts
		if network == "unix" {
			list = &sockets
		}
		if !slices.Contains(*list, address) {
			*list = append(*list, address)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	where := "postgres://" + strings.Join(hosts, ",") + "/" + cmp.Or(c.Database, c.User)
	if len(sockets) > 0 {
		where += " (socket " + strings.Join(sockets, ", ") + ")"
	}
	return where
}

// Close closes the pool. It waits until connections in use are returned, at most for the statements' timeouts and for Rows
// that nobody closed. Later calls of other methods are Unavailable; a second Close does nothing.
func (db *DB) Close() {
	db.end()
	db.pool.Close()
}

// Connections returns how many connections are used and idle, and Options.MaxConns.
func (db *DB) Connections() (active, idle, maxConns int) {
	s := db.pool.Stat()
	return int(s.AcquiredConns()), int(s.IdleConns()), int(s.MaxConns())
}

// Pooler reports whether a connection pooler, such as PgBouncer, is between us and the server, and whether the driver
// prepares statements. For `holdfast check`.
func (db *DB) Pooler(ctx context.Context) (pooled, prepares bool, err error) {
	p := newPatience(ctx, db.opts.ConnectTimeout)
	defer p.end()
	conn, err := db.acquire(p)
	if err != nil {
		return false, false, err
	}
	p.pause()
	defer conn.Release()
	var backend uint32
	// A pooler reports a different process ID to its clients.
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&backend)
	mode := conn.Conn().Config().DefaultQueryExecMode
	return backend != conn.Conn().PgConn().PID(), mode == pgx.QueryExecModeCacheStatement, classify(err)
}

// Waits returns how many calls waited for a connection or gave up, and how long the successful calls waited.
func (db *DB) Waits() (n int64, total time.Duration) {
	s := db.pool.Stat()
	return s.EmptyAcquireCount() + s.CanceledAcquireCount(), s.EmptyAcquireWaitTime()
}

// session is a connection with the node slot that its statement holds.
type session struct {
	*pgx.Conn
	slot nodeSlot
}

// run gives fn a connection and observes the time and the error. on is the Citus node that runs the statement, or
// nil.
func (db *DB) run(ctx context.Context, name string, on *node, fn func(context.Context, *session) error) error {
	start := time.Now()
	err := db.retry(ctx, on, fn)
	db.observe(name, start, err)
	return err
}

func (db *DB) observe(name string, start time.Time, err error) {
	if db.opts.Observe != nil {
		db.opts.Observe(name, time.Since(start), err)
	}
}

// maxTries limits retries of transactions that the server rolls back because of other transactions. This happens only
// at stricter isolation levels than ours.
const maxTries = 5

// retry repeats fn after errors that other transactions caused. A transaction that needs a slot on a full node starts
// again with the slot, because it must not hold a connection while it waits.
func (db *DB) retry(ctx context.Context, on *node, fn func(context.Context, *session) error) error {
	for try := 1; ; try++ {
		err := db.once(ctx, on, fn)
		if full, ok := errors.AsType[*fullError](err); ok && on == nil {
			on = full.node
			continue
		}
		if err == nil || try >= maxTries || !isRetryable(err) || !clock.Sleep(ctx, rand.N(time.Duration(try)*10*time.Millisecond)) {
			return classify(err)
		}
	}
}

// once runs fn on a connection: it waits for the node, then for a connection, each up to ConnectTimeout, and fn gets
// StatementTimeout.
func (db *DB) once(ctx context.Context, on *node, fn func(context.Context, *session) error) error {
	meter := work.Of(ctx)
	meter.Wait()
	defer meter.Resume()
	p := newPatience(ctx, db.opts.ConnectTimeout)
	defer p.end()
	s := session{slot: nodeSlot{patience: p, meter: meter}}
	if err := s.slot.wait(on); err != nil {
		return err
	}
	defer s.slot.leave()
	conn, err := db.acquire(p)
	if err != nil {
		return err
	}
	spoiled := true
	defer func() { release(conn, spoiled) }()
	p.renew(db.opts.StatementTimeout)
	s.Conn = conn.Conn()
	err = fn(p.Context, &s)
	spoiled = p.Err() != nil
	if !spoiled && answers(err) {
		db.pulse.beat()
	}
	return p.explain(err)
}

// acquire returns a pool connection, or an Unavailable error with the reason in one line.
func (db *DB) acquire(p *patience) (*pgxpool.Conn, error) {
	conn, err := db.pool.Acquire(p.Context)
	if err != nil {
		if err = p.explain(err); errors.Is(err, errSilent) {
			return nil, err
		}
		fix := errcode.NetworkFix(err)
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
			fix = fixOfState(pg.Code)
		}
		return nil, &errcode.Error{Code: errcode.Unavailable, Message: "no database connection", Cause: &connectError{err}, Fix: fix}
	}
	return conn, nil
}

// release returns a connection to the pool, unless it is broken or had a statement cancelled: a late cancel request
// may hit the next statement. Such a connection leaves the pool immediately, because the driver may need 15 seconds
// to close it.
func release(conn *pgxpool.Conn, spoiled bool) {
	if !spoiled && !conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	c := conn.Hijack()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	}()
}

// fault asks Options.Fault.
func (db *DB) fault(point string) error {
	if db.opts.Fault == nil {
		return nil
	}
	return db.opts.Fault(point)
}
