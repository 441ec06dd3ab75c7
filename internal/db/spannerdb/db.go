package spannerdb

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"holdfast/internal/errcode"
)

// Options configure Open. Only Database is required.
type Options struct {
	// Database is projects/P/instances/I/databases/D.
	Database string

	// EmulatorHost is the host:port of the Spanner emulator, which is used in plain text
	// and without credentials instead of Google Cloud. The emulator allows one read-write
	// transaction at a time, so they are serialized.
	EmulatorHost string

	// MaxTransactions is the maximum number of open transactions, including reads; 0
	// means 10.
	MaxTransactions int

	// Wait is how long a caller waits for one of them; 0 means 30 s.
	Wait time.Duration

	// Timeout limits a transaction with all its retries, and the wait for each row of a
	// stream; 0 means 30 s.
	Timeout time.Duration

	// RouteToLeader sends read-write transactions directly to the leader replica, by the
	// header x-goog-spanner-route-to-leader.
	RouteToLeader bool

	// Observe, if set, is called for every read and write with its name, its duration,
	// including the wait for its turn, and its error.
	Observe func(name string, d time.Duration, err error)

	// Mutations, if set, is called for every commit with the predicted number of
	// mutations and the number that Spanner counted; 0 if it reports none, as the
	// emulator.
	Mutations func(name string, predicted, counted int)

	// Fault, if set, is called at every point where the engine can fail: before a
	// statement, with its name, and before a commit, with "commit". Its error is treated
	// as an error of the engine. For tests only.
	Fault func(point string) error

	// Client has further options of the driver, for tests.
	Client []option.ClientOption
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	client   atomic.Pointer[spanner.Client]
	renewing sync.Mutex
	opts     Options
	slots    chan struct{} // one for each open transaction
	alone    chan struct{} // for the only transaction on an emulator, see enterAlone; nil: any number

	waits   atomic.Int64
	waiting atomic.Int64 // nanoseconds
}

// Open checks the options and creates the client. It connects on first use, so it
// succeeds while Spanner is unavailable.
func Open(ctx context.Context, opts Options) (*DB, error) {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	orElse(&opts.Wait, 30*time.Second)
	orElse(&opts.Timeout, 30*time.Second)
	if opts.MaxTransactions <= 0 {
		opts.MaxTransactions = 10
	}
	db := &DB{opts: opts, slots: make(chan struct{}, opts.MaxTransactions)}
	if opts.EmulatorHost != "" {
		db.alone = make(chan struct{}, 1)
	}
	client, err := opts.connect(ctx)
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "cannot create the Spanner client", err)
	}
	db.client.Store(client)
	return db, nil
}

// Advice says how an operator fixes a database that cannot be used. setting names the setting with the URL.
func (o *Options) Advice(setting string) string {
	if o.EmulatorHost != "" {
		return "start the emulator on " + o.EmulatorHost + " and run: holdfast migrate"
	}
	return "check that the database exists and that the account may use it (gcloud auth application-default login, or a key named by GOOGLE_APPLICATION_CREDENTIALS), or correct " + setting
}

func (o *Options) connect(ctx context.Context) (*spanner.Client, error) {
	return spanner.NewClientWithConfig(ctx, o.Database, spanner.ClientConfig{
		DisableRouteToLeader: !o.RouteToLeader,
		DisableNativeMetrics: true, // Options.Observe replaces them
	}, o.client()...)
}

// lostSession distinguishes a lost session from other missing objects.
const lostSession = "Session not found"

// renew creates a new client if err says that the session of the old one does not
// exist any more: the database was restored under its name, or the emulator was
// restarted. The driver itself would keep that session for a week.
func (db *DB) renew(old *spanner.Client, err error) {
	if spanner.ErrCode(err) != codes.NotFound || !strings.Contains(spanner.ErrDesc(err), lostSession) {
		return
	}
	db.renewing.Lock()
	defer db.renewing.Unlock()
	if db.client.Load() != old {
		return // another request has renewed it
	}
	fresh, err := db.opts.connect(context.Background()) // the client outlives the request
	if err != nil {
		return // the next request tries again
	}
	db.client.Store(fresh)
	time.AfterFunc(db.opts.Timeout, old.Close) // other requests may still use it
}

// client returns the options of the driver.
func (o *Options) client() []option.ClientOption {
	if o.EmulatorHost == "" {
		return o.Client
	}
	return append([]option.ClientOption{
		option.WithEndpoint(o.EmulatorHost),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}, o.Client...)
}

// Close closes the client.
func (db *DB) Close() { db.client.Load().Close() }

// Connections returns the number of open transactions and the maximum; idle is always
// 0.
func (db *DB) Connections() (active, idle, most int) { return len(db.slots), 0, cap(db.slots) }

// Waits returns how many callers have waited for their turn, and for how long in
// total.
func (db *DB) Waits() (n int64, total time.Duration) {
	return db.waits.Load(), time.Duration(db.waiting.Load())
}

var errBusy = errcode.New(errcode.Unavailable, "too many open transactions")

// enter waits for a slot, or for the emulator.
func (db *DB) enter(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	start := time.Now()
	defer func() {
		db.waits.Add(1)
		db.waiting.Add(int64(time.Since(start)))
	}()
	timer := time.NewTimer(db.opts.Wait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-timer.C:
		return errBusy
	case <-ctx.Done():
		return classify(ctx.Err())
	}
}

func leave(slots chan struct{}) { <-slots }

// observe reports a statement that began at start, and maps its error to a code.
func (db *DB) observe(name string, start time.Time, err error) error {
	err = classify(err)
	if db.opts.Observe != nil {
		db.opts.Observe(name, time.Since(start), err)
	}
	return err
}

// fault calls Options.Fault.
func (db *DB) fault(point string) error {
	if db.opts.Fault == nil {
		return nil
	}
	return db.opts.Fault(point)
}
