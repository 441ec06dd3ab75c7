// Package redisdb connects to a Redis server or cluster with expendable data.
//
// An operation takes at most Options.Timeout and is not retried. After several consecutive failures, operations fail
// immediately until a background attempt reconnects, so an unavailable server costs little.
package redisdb

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

// Options configure Open. Only URL is required.
type Options struct {
	// URL is redis://user:password@host:port/db, or rediss:// for TLS.
	URL string

	// Timeout limits an operation. The default is 100 ms.
	Timeout time.Duration

	// Probe, if set, checks a new connection before use.
	Probe func(ctx context.Context, c rueidis.Client) error

	// Observe, if set, is called for every operation.
	Observe func(name string, d time.Duration, err error)
}

// DB is a connection, safe for concurrent use.
type DB struct {
	opts   Options
	client rueidis.ClientOption
	where  string

	mu       sync.Mutex
	current  rueidis.Client // nil while the server is unavailable
	failures int            // consecutive
	last     error          // why current is nil
	opened   atomic.Int64   // abandoned connections

	broken chan struct{} // wakes connect
	first  chan struct{} // closed after the first attempt
	stop   context.CancelFunc
	done   chan struct{} // closed when connect ended
}

const (
	defaultTimeout = 100 * time.Millisecond

	maxFailures = 5 // consecutive failures after which the connection is abandoned

	dialTimeout = time.Second // also limits writes and keep-alive probes

	probeEvery = time.Second // between attempts to connect

	buffer = 64 << 10 // per direction and connection
)

// Parse parses a Redis URL. It returns errcode.Invalid if the URL is malformed.
func Parse(url string) (rueidis.ClientOption, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return o, errcode.Wrap(errcode.Invalid, "the URL of Redis is not valid: expected redis://user:password@host:port/0", err)
	}
	return o, nil
}

// Open waits for the first connection attempt. It returns no error if that attempt fails.
func Open(ctx context.Context, opts Options) (*DB, error) {
	o, err := Parse(opts.URL)
	if err != nil {
		return nil, err
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	o.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}
	o.ConnWriteTimeout = dialTimeout
	// A caller that gives up must not close the shared connection.
	o.AlwaysPipelining = true
	o.DisableRetry = true
	o.DisableCache = true
	o.ReadBufferEachConn, o.WriteBufferEachConn = buffer, buffer
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	if o.ClientName == "" {
		o.ClientName = "holdfast"
	}
	db := &DB{
		opts: opts, client: o, where: "redis://" + strings.Join(o.InitAddress, ","),
		broken: make(chan struct{}, 1), first: make(chan struct{}), done: make(chan struct{}),
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	db.stop = stop
	go db.connect(background)
	select {
	case <-db.first:
	case <-ctx.Done():
	}
	return db, nil
}

// Where describes the servers without secrets.
func (db *DB) Where() string { return db.where }

// Close ends the connection. Operations in progress fail.
func (db *DB) Close() {
	db.stop()
	<-db.done
	db.mu.Lock()
	c := db.current
	db.current = nil
	db.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// State reports whether operations are tried at all, and how many connections were abandoned.
func (db *DB) State() (up bool, opened int64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.current != nil, db.opened.Load()
}

// connect keeps a connection open until Close.
func (db *DB) connect(ctx context.Context) {
	defer close(db.done)
	for first := true; ; first = false {
		c, err := db.dial(ctx)
		db.mu.Lock()
		db.current, db.failures, db.last = c, 0, err
		db.mu.Unlock()
		if first {
			close(db.first)
		}
		if c != nil {
			select {
			case <-db.broken:
			case <-ctx.Done():
				return
			}
		}
		if !clock.Sleep(ctx, probeEvery) {
			return
		}
	}
}

// dial connects and probes.
func (db *DB) dial(ctx context.Context) (rueidis.Client, error) {
	c, err := rueidis.NewClient(db.client)
	if err != nil || db.opts.Probe == nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := db.opts.Probe(ctx, c); err != nil && !outOfMemory(err) {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Run runs an operation. It returns errcode.Unavailable if the server is down, not ready or full, and
// errcode.Internal otherwise. After an error, the operation may have taken effect.
func (db *DB) Run(ctx context.Context, name string, fn func(context.Context, rueidis.Client) error) error {
	return db.run(ctx, name, db.opts.Timeout, fn)
}

// RunWithin is like Run with a shorter timeout.
func (db *DB) RunWithin(ctx context.Context, name string, timeout time.Duration, fn func(context.Context, rueidis.Client) error) error {
	return db.run(ctx, name, min(timeout, db.opts.Timeout), fn)
}

// run runs fn with the current connection for at most timeout. Without a connection it fails at once, with the reason of
// the last attempt. The time counts as waiting for the request, not as work.
func (db *DB) run(ctx context.Context, name string, timeout time.Duration, fn func(context.Context, rueidis.Client) error) error {
	meter := work.Of(ctx)
	meter.Wait()
	defer meter.Resume()
	start := time.Now()
	db.mu.Lock()
	c, last := db.current, db.last
	db.mu.Unlock()
	if c == nil {
		err := classify(last)
		if last == nil {
			err = errcode.New(errcode.Unavailable, "Redis is unavailable")
		}
		db.observe(name, start, err)
		return err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	err := classify(fn(limited, c))
	cancel()
	if ctx.Err() == nil { // a canceled caller does not mean that the server failed
		db.judge(c, err)
	}
	db.observe(name, start, err)
	return err
}

func (db *DB) observe(name string, start time.Time, err error) {
	if db.opts.Observe != nil {
		db.opts.Observe(name, time.Since(start), err)
	}
}

// judge counts failures and abandons the connection after too many.
func (db *DB) judge(c rueidis.Client, err error) {
	away := errcode.Is(err, errcode.Unavailable) && !outOfMemory(err)
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.current != c {
		return
	}
	if !away {
		db.failures = 0
		return
	}
	db.failures++
	if db.failures < maxFailures && !readOnly(err) {
		return
	}
	db.current, db.last = nil, err
	db.opened.Add(1)
	go c.Close() // waits up to a second if the server is silent
	select {
	case db.broken <- struct{}{}:
	default:
	}
}

// refusals are the beginnings of replies that an operator can end, or that pass, with what to do (Redis: error replies begin
// with a code; the client removes the code ERR).
var refusals = []struct{ prefix, fix string }{
	{"NOAUTH ", "Redis requires a password: write it into the URL, redis://user:password@host"},
	{"WRONGPASS ", "Redis refuses user and password: correct the URL"},
	{"invalid password", "Redis refuses the password: correct the URL"},
	{"AUTH ", "Redis has no password: write the URL without one, or set requirepass"},
	{"NOPERM ", "the user of the URL has not the rights: give them with ACL SETUSER"},
	{"DB index", "Redis has fewer databases: correct the number at the end of the URL"},
	{"OOM ", "Redis is full: raise maxmemory, or set maxmemory-policy to an eviction policy"},
	{"READONLY ", "this Redis is a replica: name the primary in the URL"},
	{"LOADING ", "Redis loads its data: wait"},
	{"BUSY ", "Redis runs a script: wait, or run SCRIPT KILL"},
	{"MISCONF ", "Redis cannot save its data: make space on its disk, and look at its log"},
	{"CLUSTERDOWN ", "the cluster lacks nodes: run CLUSTER INFO, and start them"},
	{"MASTERDOWN ", "the primary is down: start it, or promote a replica"},
	{"NOREPLICAS ", "too few replicas: start them, or lower min-replicas-to-write"},
	{"TRYAGAIN ", "the cluster moves slots: wait"},
	{"max number of clients", "Redis has too many clients: raise maxclients"},
	{"DENIED ", "Redis is in protected mode: set a password, or bind it to an address of this machine"},
}

// classify gives an error its code, and a known refusal the advice that ends it. An error with a code stays as it is.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[errcode.Coder](err); ok {
		return err
	}
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		for _, r := range refusals {
			if strings.HasPrefix(reply.Error(), r.prefix) || strings.HasPrefix(reply.Error(), "-"+r.prefix) {
				return &errcode.Error{Code: errcode.Unavailable, Message: "Redis is unavailable", Cause: err, Fix: r.fix}
			}
		}
		unexpected := errcode.Wrap(errcode.Internal, "unexpected error of Redis", err)
		if strings.HasPrefix(reply.Error(), "unknown command") { // Internal, because a new connection does not help
			unexpected.Fix = "this Redis is too old, or a command is renamed: use a supported version"
		}
		return unexpected
	}
	if rueidis.IsParseErr(err) {
		return errcode.Wrap(errcode.Internal, "unexpected reply of Redis", err)
	}
	return errcode.Unreachable("Redis is unavailable", err)
}

// outOfMemory reports whether the server is full: it refuses writes but still serves reads.
func outOfMemory(err error) bool { return hasReply(err, "OOM ") }

// readOnly reports whether the server became a replica. The new primary may use the same name, so only a new
// connection reaches it.
func readOnly(err error) bool { return hasReply(err, "READONLY ") }

func hasReply(err error, prefix string) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && strings.Contains(reply.Error(), prefix)
}
