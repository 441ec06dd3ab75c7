package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holdfast/internal/clock"
	"holdfast/internal/conf/settings"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/obs"
	"holdfast/internal/outbox"
)

// Driver opens the databases of one engine. Package engine contains SQLite, and the package that a program names for
// another engine offers its driver, so that a program links no other engine.
type Driver struct {
	Kind Kind // the engine whose URLs it opens

	// Migrations loads the migrations of the server's own tables, which all services share.
	Migrations func() (migrate.Set, error)

	// Open opens d.Target for d.Service. A database server may be down: it is connected on first use.
	Open func(ctx context.Context, o *Opener, d *Database, s Settings) (Connection, error)
}

// Settings are the settings of a database, and the parts of the server that its store needs.
type Settings struct {
	settings.Database
	Spanner SpannerSettings // of sync storage, for Spanner only
	Store   StoreOptions    // goes to Backend.New
}

// SpannerSettings are fields of spannerdb.Options, which this package does not import.
type SpannerSettings struct {
	EmulatorHost  string // host:port of an emulator; "": Google's service
	RouteToLeader bool   // send transactions that write directly to the leader replica
	// Mutations is called after each commit of a step with the predicted number of mutations and Spanner's.
	Mutations func(name string, predicted, counted int)
}

// StoreOptions are parts of the server that a store may need besides its database. Not every store uses every field.
type StoreOptions struct {
	Clock clock.Clock   // the server's, for stores that set times themselves
	Waker *outbox.Waker // wakes this process's relay after a mutation with events; may be nil
}

// Backend is a service's store S on the driver's engine. The zero value means that the service does not support the
// engine.
type Backend[S any] struct {
	Driver  Driver                      // opens the database for New
	History func() (migrate.Set, error) // the migrations of the service's tables

	// New makes the store. handle is the Connection.Handle of any database of the driver, not only of one that was
	// opened for this service.
	New func(handle any, o StoreOptions) S
}

// NewBackend makes a backend whose store takes a driver's handle of type DB.
func NewBackend[DB, S any](d Driver, history func() (migrate.Set, error), store func(db DB, o StoreOptions) S) Backend[S] {
	return Backend[S]{Driver: d, History: history, New: func(handle any, o StoreOptions) S {
		return store(handle.(DB), o) // the driver's type
	}}
}

// OnSQLite makes a backend on SQLite.
func OnSQLite[S any](history func() (migrate.Set, error), store func(*sqlitedb.DB, StoreOptions) S) Backend[S] {
	return NewBackend(Driver{SQLite, sqlitedb.ServerMigrations, openSQLite}, history, store)
}

// kinds lists the engines of backends.
func kinds[S any](backends []Backend[S]) (all []Kind) {
	for _, b := range backends {
		if b.New != nil {
			all = append(all, b.Driver.Kind)
		}
	}
	return all
}

// Beside makes a service's store on a database that was opened for another service. It returns false if the service
// has no backend on that engine.
func Beside[S any](d *Database, backends []Backend[S], o StoreOptions) (store S, ok bool) {
	for _, b := range backends {
		if b.New != nil && b.Driver.Kind == d.Target.Kind {
			return b.New(d.Handle, o), true
		}
	}
	return store, false
}

// Opener opens the databases of a process. Close releases what it opened besides them.
type Opener struct {
	Data   string // for SQLite files without a database_url
	Create bool   // create a missing SQLite file and its folder
	// Temporary replaces a missing SQLite file with an empty file in a temporary folder, which Close removes.
	Temporary bool
	Lock      bool // lock SQLite files against other servers
	Copies    bool // the process only copies databases
	Metrics   *obs.Metrics

	locks     []*sqlitedb.Lock
	temporary []string
	redis     []*redisdb.DB
}

// Close closes Redis, releases the locks and removes temporary folders. Close the databases first.
func (o *Opener) Close() (err error) {
	for _, db := range o.redis {
		db.Close()
	}
	for _, l := range o.locks {
		err = errors.Join(err, l.Release())
	}
	for _, dir := range o.temporary {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	o.redis, o.locks, o.temporary = nil, nil, nil
	return err
}

// lock locks a SQLite file once, although several services may use it.
func (o *Opener) lock(ctx context.Context, service, path string) error {
	held := func(l *sqlitedb.Lock) bool { return l.Locks(path) }
	if !o.Lock || slices.ContainsFunc(o.locks, held) {
		return nil
	}
	l, err := sqlitedb.AcquireLock(ctx, path)
	if _, inUse := errors.AsType[*sqlitedb.InUseError](err); inUse {
		return fmt.Errorf("%s: %w: stop it first, or choose another file with --data or %[1]s.database_url", service, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", service, err)
	}
	o.locks = append(o.locks, l)
	return nil
}

// File returns the SQLite file that a service uses without a database_url.
func (o *Opener) File(service string) string { return filepath.Join(o.Data, FileName(service)) }

const fileSuffix = ".db"

// FileName names a service's SQLite file in the data folder, backups and replicas.
func FileName(service string) string { return service + fileSuffix }

// ServiceOf inverts FileName.
func ServiceOf(file string) (service string, ok bool) { return strings.CutSuffix(file, fileSuffix) }

// URLError reports an invalid database_url.
type URLError struct {
	Setting string // e.g. "sync.database_url"
	err     error
}

func (e *URLError) Error() string { return e.Setting + ": " + e.err.Error() }

func (e *URLError) Unwrap() error { return e.err }

// Open opens the database that s.DatabaseURL selects with the backend of its engine, and makes the service's store on
// it. It does not migrate. Database servers may be down: they are connected on first use. The error is a *URLError,
// *FileError, *MissingError or *ServerError if an operator can do something about it.
func Open[S any](ctx context.Context, o *Opener, service string, s Settings, backends ...Backend[S]) (store S, db *Database, err error) {
	t, err := Parse(s.DatabaseURL, o.File(service), kinds(backends)...)
	if err != nil {
		return store, nil, &URLError{Setting: service + ".database_url", err: err}
	}
	db = &Database{Service: service, Target: t, Wait: s.StatementTimeout}
	i := slices.IndexFunc(backends, func(b Backend[S]) bool { return b.New != nil && b.Driver.Kind == t.Kind })
	if i < 0 { // without a database_url, and without SQLite
		return store, nil, &URLError{Setting: service + ".database_url", err: errors.New("must be set")}
	}
	b := backends[i]
	for _, load := range []func() (migrate.Set, error){b.Driver.Migrations, b.History} {
		set, err := load()
		if err != nil {
			return store, nil, err
		}
		db.sets = append(db.sets, set)
	}
	if db.Connection, err = b.Driver.Open(ctx, o, db, s); err != nil {
		return store, nil, err
	}
	return b.New(db.Handle, s.Store), db, nil
}

// openSQLite is the Open of SQLite's driver.
func openSQLite(ctx context.Context, o *Opener, d *Database, _ Settings) (c Connection, err error) {
	path := d.Target.Path
	c.Where = path
	if abs, err := filepath.Abs(path); err == nil {
		c.Where = abs
	}
	if path, err = o.prepare(d.Service, path); err != nil {
		return c, err
	}
	if err := o.lock(ctx, d.Service, c.Where); err != nil {
		return c, err
	}
	group := o.Metrics.Groups(d.Service)
	db, err := sqlitedb.Open(ctx, sqlitedb.Options{
		Path: path, SmallCache: o.Copies, Observe: o.Metrics.Database(d.Service, string(SQLite)),
		ObserveGroup: func(g sqlitedb.Group) { group(g.Steps, g.Wait, g.Commit) },
	})
	if err != nil {
		return c, &FileError{Path: path, err: err}
	}
	d.file = db
	c.Handle, c.Pool, c.Close = db, db, db.Close
	c.Rows = func(rows.Owners) rows.Database { return db.Rows() }
	c.Size = func(context.Context) (int64, error) { return fileSize(path) }
	c.Recognize = func(err error) string { return sqlitedb.Remedy(err, c.Where) }
	c.Verify = func(ctx context.Context) ([]string, string, error) {
		problems, err := db.Verify(ctx)
		return problems, "every page and index was read", err
	}
	return c, nil
}

// prepare returns the path to open: path, or an empty file's if Temporary allows it.
func (o *Opener) prepare(service, path string) (string, error) {
	if o.Create {
		return path, MakeFolder(filepath.Dir(path))
	}
	_, err := os.Stat(path)
	switch {
	case err == nil:
		return path, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case !o.Temporary:
		return "", &MissingError{Service: service, Path: path}
	}
	dir, err := os.MkdirTemp("", "holdfast-")
	if err != nil {
		return "", fmt.Errorf("cannot create a temporary folder: %w", err)
	}
	o.temporary = append(o.temporary, dir)
	return filepath.Join(dir, filepath.Base(path)), nil
}

// FileError means that a SQLite file did not open.
type FileError struct {
	Path string
	err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.err.Error() }

func (e *FileError) Unwrap() error { return e.err }

// Remedy returns advice for an operator.
func (e *FileError) Remedy() string { return sqlitedb.Remedy(e.err, e.Path) }

// ServerError means that a database client was not created.
type ServerError struct {
	Err    error
	Advice string // for an operator
}

// Error has no advice, because Remedy is shown apart from it.
func (e *ServerError) Error() string { return e.Err.Error() }

func (e *ServerError) Unwrap() error { return e.Err }

// Remedy returns Advice.
func (e *ServerError) Remedy() string { return e.Advice }

// MissingError means that a SQLite file is missing and must not be created.
type MissingError struct{ Service, Path string }

func (e *MissingError) Error() string {
	path := e.Path
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return fmt.Sprintf("the %s database %s does not exist; %s", e.Service, path, Elsewhere)
}

// Elsewhere completes an error about data that a command did not find: the command may have looked in the wrong place.
const Elsewhere = "name the server's data folder with --data or HOLDFAST_DATA, and its configuration with --config or HOLDFAST_CONFIG"

// MakeFolder durably creates a folder with mode 0700 unless it exists.
func MakeFolder(path string) error {
	if err := durable.MakeFolder(path); err != nil {
		return fmt.Errorf("cannot create the data folder: %w", err)
	}
	return nil
}
