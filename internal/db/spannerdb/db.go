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

	// EmulatorHost is the Spanner emulator's host:port, used in plain text and without credentials. The emulator
	// allows a single read-write transaction at a time, so they are serialized.
	EmulatorHost string

	// MaxTransactions limits the open transactions, including reads. The default is 10.
	MaxTransactions int

	// Wait limits the wait for a transaction slot. The default is 30 s.
	Wait time.Duration

	// Timeout limits a transaction with all its retries, and the wait for each streamed row. The default is 30 s.
	Timeout time.Duration

	// RouteToLeader sends read-write transactions directly to the leader replica (header
	// x-goog-spanner-route-to-leader).
	RouteToLeader bool

	// Observe, if set, is called for every read and write. The duration includes the wait for a slot.
	Observe func(name string, d time.Duration, err error)

	// Mutations, if set, gets each commit's predicted and counted mutations. For tests.
	Mutations func(name string, predicted, counted int)

	// Fault is like pgdb.Options.Fault.
	Fault func(point string) error

	// Client contains more driver options, for tests.
	Client []option.ClientOption
}

// DB is an open database, safe for concurrent use.
type DB struct {
	client   atomic.Pointer[spanner.Client]
	renewing sync.Mutex // held while a client is replaced
	opts     Options
	slots    chan struct{} // one per open transaction
	alone    chan struct{} // the emulator's only transaction, see enterAlone; otherwise nil

	waits   atomic.Int64 // calls that waited for a slot
	waiting atomic.Int64 // their time, nanoseconds
}

// Open creates the client, which connects on first use: Spanner may be down.
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

// Advice returns what an operator can do if the database cannot be reached. setting names the database's URL.
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

const lostSession = "Session not found"

// renew replaces a client whose session is gone: the database was restored under its name, or the emulator restarted.
// The driver would keep the session for a week.
func (db *DB) renew(old *spanner.Client, err error) {
	if spanner.ErrCode(err) != codes.NotFound || !strings.Contains(spanner.ErrDesc(err), lostSession) {
		return
	}
	db.renewing.Lock()
	defer db.renewing.Unlock()
	if db.client.Load() != old {
		return
	}
	fresh, err := db.opts.connect(context.Background()) // the client outlives the request
	if err != nil {
		return
	}
	db.client.Store(fresh)
	time.AfterFunc(db.opts.Timeout, old.Close) // other requests may still use it
}

// client returns the driver's options.
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

// Connections returns how many transactions are open, and how many there may be. Spanner has no idle ones.
func (db *DB) Connections() (active, idle, maximum int) { return len(db.slots), 0, cap(db.slots) }

// Waits returns how many calls waited for a transaction, and how long all together.
func (db *DB) Waits() (n int64, total time.Duration) {
	return db.waits.Load(), time.Duration(db.waiting.Load())
}

var errBusy = errcode.New(errcode.Unavailable, "too many open transactions")

// enter takes a slot, and waits for it up to Options.Wait.
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

// observe classifies the error, reports it to Options.Observe and returns it.
func (db *DB) observe(name string, start time.Time, err error) error {
	err = classify(err)
	if db.opts.Observe != nil {
		db.opts.Observe(name, time.Since(start), err)
	}
	return err
}

// fault asks Options.Fault.
func (db *DB) fault(point string) error {
	if db.opts.Fault == nil {
		return nil
	}
	return db.opts.Fault(point)
}
