package pgdb

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
)

// Options say how to open a database. Only URL is needed.
type Options struct {
	// URL is postgres://user@host/database or the key=value form.
	URL string

	// MaxConns is the greatest number of connections; 0 means 10.
	MaxConns int

	// ConnectTimeout is how long a caller waits for a connection, be it for a
	// free one or for a new one; 0 means 30 s.
	ConnectTimeout time.Duration

	// MaxLifetime and MaxIdle are the ages at which a connection, or one that
	// has nothing to do, is replaced; 0 means an hour and half an hour.
	MaxLifetime, MaxIdle time.Duration

	// StatementTimeout bounds a statement outside Tx, waiting for locks
	// included, a whole Tx, and the wait for each row of a stream; 0 means
	// 30 s. The server is told to stop. It is kept here and not in a setting of
	// the session, which a pooler would not carry over.
	StatementTimeout time.Duration

	// ApplicationName shows in pg_stat_activity, unless the URL has one.
	ApplicationName string

	// Observe, when not nil, is told of every statement and transaction: its
	// name, how long it took, waiting for a connection included, and its
	// error.
	Observe func(statement string, d time.Duration, err error)

	// Fault, when not nil, is asked at every point where the engine can fail:
	// before a statement, by its name, and before a commit, as "commit". An
	// error that it returns is treated as the engine's. So that there is a
	// commit to fail, statements outside Tx then run in a transaction each. It
	// is for tests.
	Fault func(point string) error
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	pool     *pgxpool.Pool
	opts     Options
	prepares bool // statements are prepared, and stay so on their connection
	where    string
}

// Open checks the options and makes the pool. It connects when the first
// connection is needed, so it does not fail because the server is away.
func Open(ctx context.Context, opts Options) (*DB, error) {
	conf, err := pgxpool.ParseConfig(opts.URL)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "the PostgreSQL URL cannot be read", err)
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
	// An idle connection is looked at before it is used; one whose server is
	// gone without a word must not cost a caller all its patience.
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
	// A caller that gives up makes the server stop too; without an answer to
	// that within a second the connection is closed.
	conf.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Second}
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "the PostgreSQL pool cannot be made", err)
	}
	return &DB{
		pool: pool, opts: opts, where: describe(conf.ConnConfig),
		prepares: conf.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement,
	}, nil
}

// Where names the database for people: the hosts and ports or the socket that the
// URL and the environment select, and never a password.
func (db *DB) Where() string { return db.where }

func describe(c *pgx.ConnConfig) string {
	var hosts, sockets []string
	add := func(host string, port uint16) {
		network, address := pgconn.NetworkAddress(host, port)
		list := &hosts
		if network == "unix" {
			list = &sockets
		}
		if !slices.Contains(*list, address) { // with and without TLS
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

// Close closes the connections, each when the caller that has it is done.
func (db *DB) Close() { db.pool.Close() }

// Connections is how many connections are in use, how many are open and idle,
// and how many may be at once.
func (db *DB) Connections() (active, idle, most int) {
	s := db.pool.Stat()
	return int(s.AcquiredConns()), int(s.IdleConns()), int(s.MaxConns())
}

// Pooler looks whether a connection pooler is in between, such as PgBouncer,
// and whether the statements are prepared, which not every pooler bears.
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
	// A pooler invents the number that it gives its clients.
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&backend)
	mode := conn.Conn().Config().DefaultQueryExecMode
	return backend != conn.Conn().PgConn().PID(), mode == pgx.QueryExecModeCacheStatement, classify(err)
}

// Waits is how many callers have waited for a connection so far, until one was
// free or made or they gave up, and how long in sum; what those waited that
// gave up is not in it.
func (db *DB) Waits() (n int64, total time.Duration) {
	s := db.pool.Stat()
	return s.EmptyAcquireCount() + s.CanceledAcquireCount(), s.EmptyAcquireWaitTime()
}

// run hands fn a connection, once more when the server asks to try again, and
// observes the whole under the name.
func (db *DB) run(ctx context.Context, name string, fn func(context.Context, *pgx.Conn) error) error {
	start := time.Now()
	err := db.retry(ctx, fn)
	db.observe(name, start, err)
	return err
}

func (db *DB) observe(name string, start time.Time, err error) {
	if db.opts.Observe != nil {
		db.opts.Observe(name, time.Since(start), err)
	}
}

// maxTries is how often a step is tried that the server undoes for the sake of
// others, which it does only where isolation is stricter than our own.
const maxTries = 5

func (db *DB) retry(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	for try := 1; ; try++ {
		err := db.once(ctx, fn)
		if err == nil || try == maxTries || !isRetryable(err) || !clock.Rest(ctx, rand.N(time.Duration(try)*10*time.Millisecond)) {
			return classify(err)
		}
	}
}

func (db *DB) once(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	p := newPatience(ctx, db.opts.ConnectTimeout)
	defer p.end()
	conn, err := db.acquire(p)
	if err != nil {
		return err
	}
	spoiled := true // also where fn panics
	defer func() { release(conn, spoiled) }()
	p.renew(db.opts.StatementTimeout)
	err = fn(p.Context, conn.Conn())
	spoiled = p.Err() != nil
	return p.explain(err)
}

func (db *DB) acquire(p *patience) (*pgxpool.Conn, error) {
	conn, err := db.pool.Acquire(p.Context)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "no database connection", fmt.Errorf("acquire: %w", p.explain(err)))
	}
	return conn, nil
}

// release gives a connection back, but for one that is broken or spoiled: on
// which a statement was given up. The word to stop it may reach the server when
// the next one has begun, and would stop that. Such a connection leaves the
// pool at once: the driver takes up to 15 seconds to close it where the server
// does not answer, and with its place taken no other could be made until then.
func release(conn *pgxpool.Conn, spoiled bool) {
	if !spoiled && !conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	c := conn.Hijack()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx) // whatever becomes of it
	}()
}

// fault asks the hook of the tests.
func (db *DB) fault(point string) error {
	if db.opts.Fault == nil {
		return nil
	}
	return db.opts.Fault(point)
}
