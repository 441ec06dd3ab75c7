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

	"holdfast/internal/conf/settings"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/obs"
)

// Backend creates a service's store S on an engine's handle DB.
type Backend[DB, S any] struct {
	Migrations func() (migrate.Set, error)
	New        func(DB) S // nil if the service does not support the engine
}

// Backends lists the engines that a service supports. It is a package variable in the service's folder in
// internal/app.
type Backends[S any] struct {
	SQLite   Backend[*sqlitedb.DB, S]
	Postgres Backend[*pgdb.DB, S]
	Spanner  Backend[*spannerdb.DB, S]

	// SpannerOptions, if set, completes the options from the service's own settings.
	SpannerOptions func(*spannerdb.Options)
}

// supported lists the engines with a backend.
func (b Backends[S]) supported() (kinds []Kind) {
	if b.SQLite.New != nil {
		kinds = append(kinds, SQLite)
	}
	if b.Postgres.New != nil {
		kinds = append(kinds, Postgres)
	}
	if b.Spanner.New != nil {
		kinds = append(kinds, Spanner)
	}
	return kinds
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

// Open opens the database that s.DatabaseURL selects, and makes the service's store on it. It does not migrate.
// Database servers may be down: they are connected on first use. The error is a *URLError, *FileError, *MissingError
// or *ServerError if an operator can do something about it.
func Open[S any](ctx context.Context, o *Opener, service string, s settings.Database, b Backends[S]) (store S, db *Database, err error) {
	t, err := Parse(s.DatabaseURL, o.File(service), b.supported()...)
	if err != nil {
		return store, nil, &URLError{Setting: service + ".database_url", err: err}
	}
	db = &Database{Service: service, Target: t, Wait: s.StatementTimeout}
	switch t.Kind {
	case SQLite:
		return openBackend(db, b.SQLite, sqlitedb.ServerMigrations, func() (*sqlitedb.DB, error) { return o.openSQLite(ctx, db) })
	case Spanner:
		return openBackend(db, b.Spanner, spannerdb.ServerMigrations, func() (*spannerdb.DB, error) { return o.openSpanner(ctx, db, s, b.SpannerOptions) })
	default:
		return openBackend(db, b.Postgres, pgdb.ServerMigrations, func() (*pgdb.DB, error) { return o.openPostgres(ctx, db, s) })
	}
}

// openBackend loads the migrations, opens the database and makes the store.
func openBackend[DB, S any](
	db *Database, b Backend[DB, S], server func() (migrate.Set, error), open func() (DB, error),
) (store S, _ *Database, err error) {
	for _, load := range []func() (migrate.Set, error){server, b.Migrations} {
		set, err := load()
		if err != nil {
			return store, nil, err
		}
		db.sets = append(db.sets, set)
	}
	opened, err := open()
	if err != nil {
		return store, nil, err
	}
	return b.New(opened), db, nil
}

func (o *Opener) openSQLite(ctx context.Context, d *Database) (*sqlitedb.DB, error) {
	path := d.Target.Path
	d.Where = path
	if abs, err := filepath.Abs(path); err == nil {
		d.Where = abs
	}
	path, err := o.prepare(d.Service, path)
	if err != nil {
		return nil, err
	}
	if err := o.lock(ctx, d.Service, d.Where); err != nil {
		return nil, err
	}
	group := o.Metrics.Groups(d.Service)
	db, err := sqlitedb.Open(ctx, sqlitedb.Options{
		Path: path, SmallCache: o.Copies, Observe: o.Metrics.Database(d.Service, string(SQLite)),
		ObserveGroup: func(g sqlitedb.Group) { group(g.Steps, g.Wait, g.Commit) },
	})
	if err != nil {
		return nil, &FileError{Path: path, err: err}
	}
	d.conn, d.file, d.Size = db, db, func(context.Context) (int64, error) { return fileSize(path) }
	return db, nil
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

func (o *Opener) openPostgres(ctx context.Context, d *Database, s settings.Database) (*pgdb.DB, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{
		URL: d.Target.URL, MaxConns: s.PoolMaxSize, ConnectTimeout: s.PoolConnectionTimeout, MaxLifetime: s.PoolLifespan, MaxIdle: s.PoolMaxIdle,
		StatementTimeout: s.StatementTimeout, ApplicationName: "holdfast " + d.Service, Observe: o.Metrics.Database(d.Service, string(Postgres)),
	})
	if err != nil {
		return nil, fmt.Errorf("%s.database_url: %w", d.Service, err)
	}
	d.Hung, d.HungWait = db.Hung, s.PoolConnectionTimeout
	d.conn, d.Pooler, d.Size, d.rounds, d.verify, d.Where = closing{db, db.Close}, db.Pooler, db.Size, db, db.Verify, db.Where()
	return db, nil
}

func (o *Opener) openSpanner(ctx context.Context, d *Database, s settings.Database, complete func(*spannerdb.Options)) (*spannerdb.DB, error) {
	// The driver prefers this variable to its options, but only the configuration may select an emulator.
	if err := os.Unsetenv("SPANNER_EMULATOR_HOST"); err != nil {
		return nil, err
	}
	options := spannerdb.Options{
		Database: d.Target.URL, MaxTransactions: s.PoolMaxSize, Wait: s.PoolConnectionTimeout, Timeout: s.StatementTimeout,
		Observe: o.Metrics.Database(d.Service, string(Spanner)),
	}
	if complete != nil {
		complete(&options)
	}
	d.advice = options.Advice(d.Service + ".database_url")
	db, err := spannerdb.Open(ctx, options)
	if err != nil {
		return nil, &ServerError{fmt.Errorf("%s.database_url: %w", d.Service, err), d.advice}
	}
	d.conn, d.Where = closing{db, db.Close}, "spanner://"+d.Target.URL
	return db, nil
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
	err    error
	advice string
}

func (e *ServerError) Error() string { return e.err.Error() }

func (e *ServerError) Unwrap() error { return e.err }

// Remedy returns advice for an operator.
func (e *ServerError) Remedy() string { return e.advice }

// MissingError means that a SQLite file is missing and must not be created.
type MissingError struct{ Service, Path string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the %s database %s does not exist; set --data to the data folder of the server", e.Service, e.Path)
}

// MakeFolder durably creates a folder with mode 0700 unless it exists.
func MakeFolder(path string) error {
	if err := durable.MakeFolder(path); err != nil {
		return fmt.Errorf("cannot create the data folder: %w", err)
	}
	return nil
}
