package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
)

// Database is a service's open database. Functions that the engine does not support are nil.
type Database struct {
	Service string
	Target  Target
	Where   string        // for messages, without secrets
	Wait    time.Duration // how long a request waits for its turn: the statement timeout

	// Hung reports, without blocking, whether the server stopped answering; requests then wait only HungWait for
	// their turn.
	Hung     func() bool
	HungWait time.Duration // the pool's connection timeout

	// Pooler is pgdb.DB.Pooler.
	Pooler func(context.Context) (pooled, prepares bool, err error)

	// Size returns the bytes on disk.
	Size func(context.Context) (int64, error)

	// AfterMigrate does work that SQL migrations cannot, and returns its description, or "" if nothing was left to
	// do. It must be idempotent.
	AfterMigrate func(context.Context) (made string, err error)
	// AfterBackup prepares a copy of a SQLite file.
	AfterBackup func(context.Context, *sqlitedb.DB) error
	// MigrateAtStart is for database servers; SQLite files always migrate.
	MigrateAtStart bool

	sets []migrate.Set // the server's migrations, then the service's
	conn connection
	file *sqlitedb.DB // nil for a database server

	rounds sweepRounds // nil if only a single process sweeps

	verify func(context.Context) (problems []string, how string, err error)
	advice string // for a database that cannot be reached, see Advice
}

// pool is the part that all engines' handles share.
type pool interface {
	Migrate(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Pending(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Connections() (active, idle, most int)
	Waits() (n int64, total time.Duration)
	SecretHashes(ctx context.Context, service string) (map[string]string, error)
	SetSecretHash(ctx context.Context, service, setting, old, hash string) (changed bool, err error)
}

type sweepRounds interface {
	BeginRound(ctx context.Context, job string, every time.Duration) (bool, error)
	AbortRound(ctx context.Context, job string) error
}

// connection is a pool that Close ends.
type connection interface {
	pool
	Close() error
}

// closing gives a pool without an error in Close the right form.
type closing struct {
	pool
	close func()
}

func (c closing) Close() error { c.close(); return nil }

// pool returns the engine's handle.
func (d *Database) pool() any {
	if c, ok := d.conn.(closing); ok {
		return c.pool
	}
	return d.conn
}

// Rows returns the database for copies. owners are needed on Spanner only, where the tokenserver's database knows the
// owners.
func (d *Database) Rows(owners rows.Owners) rows.Database {
	switch c := d.pool().(type) {
	case *sqlitedb.DB:
		return c.Rows()
	case *pgdb.DB:
		return c.Rows()
	case *spannerdb.DB:
		return c.Rows(owners)
	}
	return nil
}

// Traits returns the engine's properties for copies.
func (d *Database) Traits() Traits { return d.Target.Kind.Traits() }

// Embedded reports whether this is a SQLite file.
func (d *Database) Embedded() bool { return d.file != nil }

// Disk returns the free bytes and the size of a SQLite file's disk.
func (d *Database) Disk() (free, size float64, err error) {
	return durable.Space(filepath.Dir(d.Target.Path))
}

// File returns the handle of a SQLite file, or nil.
func (d *Database) File() *sqlitedb.DB { return d.file }

// Migrate applies the server's and the service's migrations, and returns those that it applied, also with an error.
// It refuses to make new tables where a dump's restore was interrupted.
func (d *Database) Migrate(ctx context.Context) (applied []migrate.Migration, err error) {
	if err := d.CheckRestored(ctx); errors.Is(err, errNotRestored) {
		return nil, err
	}
	applied, err = d.eachSet(ctx, d.conn.Migrate)
	if d.file == nil {
		if fix := d.Remedy(err); fix != "" {
			err = fmt.Errorf("%w: %s", err, fix)
		}
	}
	return applied, err
}

// Pending returns the migrations that Migrate would apply, or the reason why it would refuse.
func (d *Database) Pending(ctx context.Context) ([]migrate.Migration, error) {
	if err := d.CheckRestored(ctx); errors.Is(err, errNotRestored) {
		return nil, err
	}
	return d.eachSet(ctx, d.conn.Pending)
}

// Unmigrated reports whether no migration of the service was ever applied, so that the database is empty.
func (d *Database) Unmigrated(ctx context.Context) (bool, error) {
	own := d.sets[len(d.sets)-1]
	pending, err := d.conn.Pending(ctx, own)
	return len(pending) == len(own.Migrations), err
}

// Relations returns pgdb.DB.Relations, and an error for other engines.
func (d *Database) Relations(ctx context.Context) (r pgdb.Relations, err error) {
	pg, ok := d.pool().(*pgdb.DB)
	if !ok {
		return r, fmt.Errorf("%s is no PostgreSQL database", d.Where)
	}
	return pg.Relations(ctx)
}

// BeginRestore is pgdb.DB.BeginRestore.
func (d *Database) BeginRestore(ctx context.Context, moment time.Time) error {
	return d.postgres(func(pg *pgdb.DB) error { return pg.BeginRestore(ctx, moment) })
}

// EndRestore is pgdb.DB.EndRestore for the service.
func (d *Database) EndRestore(ctx context.Context) error {
	return d.postgres(func(pg *pgdb.DB) error { return pg.EndRestore(ctx, d.Service) })
}

// AbandonRestore is pgdb.DB.AbandonRestore.
func (d *Database) AbandonRestore(ctx context.Context) error {
	return d.postgres(func(pg *pgdb.DB) error { return pg.AbandonRestore(ctx) })
}

// postgres calls fn if this is a PostgreSQL database: only dumps are restored in a place where a server finds them
// before they are prepared.
func (d *Database) postgres(fn func(*pgdb.DB) error) error {
	if pg, ok := d.pool().(*pgdb.DB); ok {
		return fn(pg)
	}
	return nil
}

// ErrUnfinishedRestore means that a dump was restored, and not prepared for clients that have seen later writes.
var ErrUnfinishedRestore = errors.New("the restore of its database was interrupted")

// errNotRestored is an ErrUnfinishedRestore of a restore that wrote nothing.
var errNotRestored = fmt.Errorf("%w before it wrote anything: run holdfast restore again", ErrUnfinishedRestore)

// CheckRestored returns an ErrUnfinishedRestore, with what to do, for a service that must not use its database yet.
func (d *Database) CheckRestored(ctx context.Context) error {
	return d.postgres(func(pg *pgdb.DB) error {
		u, err := pg.UnfinishedRestore(ctx, d.Service)
		switch {
		case err != nil || u == nil:
			return err
		case u.IsEmpty:
			return errNotRestored
		}
		return fmt.Errorf("%w: run holdfast finish-restore --time %s --service %s", ErrUnfinishedRestore, u.Moment.UTC().Format(time.RFC3339), d.Service)
	})
}

// eachSet calls fn with each set, in order, until it fails.
func (d *Database) eachSet(
	ctx context.Context, fn func(context.Context, migrate.Set) ([]migrate.Migration, error),
) (all []migrate.Migration, err error) {
	for _, set := range d.sets {
		some, err := fn(ctx, set)
		all = append(all, some...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// SecretHashes returns the hashes by setting, or nil before the first migration.
func (d *Database) SecretHashes(ctx context.Context) (map[string]string, error) {
	return d.conn.SecretHashes(ctx, d.Service)
}

// SetSecretHash replaces a secret's hash if it is still old ("" if none is stored). It returns false if another
// process replaced it first.
func (d *Database) SetSecretHash(ctx context.Context, setting, old, hash string) (changed bool, err error) {
	return d.conn.SetSecretHash(ctx, d.Service, setting, old, hash)
}

// BeginRound reports whether this process should sweep now; see sweep.Job. Only database servers have several
// processes.
func (d *Database) BeginRound(ctx context.Context, job string, every time.Duration) (bool, error) {
	if d.rounds == nil {
		return true, nil
	}
	return d.rounds.BeginRound(ctx, job, every)
}

// AbortRound allows another round at once, after a failure.
func (d *Database) AbortRound(ctx context.Context, job string) error {
	if d.rounds == nil {
		return nil
	}
	return d.rounds.AbortRound(ctx, job)
}

// Connections returns how many connections are used and idle, and how many there may be.
func (d *Database) Connections() (active, idle, most int) { return d.conn.Connections() }

// turns is the number of turns for a SQLite file, whose writer commits waiting writes as a group. Few reads run at
// once.
const turns = 32

// Turns returns how many requests the database serves at once, for fairshare.NewTurns.
func (d *Database) Turns() int {
	_, _, limit := d.conn.Connections()
	if d.Embedded() {
		return min(limit, turns)
	}
	return limit
}

// Waits returns how many calls waited for a connection, and how long all together.
func (d *Database) Waits() (n int64, total time.Duration) { return d.conn.Waits() }

// Queued returns how many writes wait in a SQLite file's queue.
func (d *Database) Queued() int {
	if d.file == nil {
		return 0
	}
	return d.file.Queued()
}

// connMemory is the memory for a connection's buffers and cached statements, in bytes.
const connMemory = 256 << 10

// Memory returns the connections' maximum memory, in bytes, in the Go heap and outside (SQLite).
func (d *Database) Memory() (heap, outside int64) {
	if d.file != nil {
		return 0, d.file.CacheBytes()
	}
	_, _, limit := d.Connections()
	return int64(limit) * connMemory, 0
}

// Backup copies a SQLite file to a new path and completes the copy with AfterBackup.
func (d *Database) Backup(ctx context.Context, path string) error {
	if err := d.file.Backup(ctx, path); err != nil || d.AfterBackup == nil {
		return err
	}
	copied, err := sqlitedb.Open(ctx, sqlitedb.Options{Path: path})
	if err != nil {
		return err
	}
	return errors.Join(d.AfterBackup(ctx, copied), copied.Close())
}

// fileSize returns the bytes of a SQLite file and its WAL.
func fileSize(path string) (size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	size = info.Size()
	if info, err := os.Stat(path + "-wal"); err == nil {
		size += info.Size()
	}
	return size, nil
}

// Verify reads the whole database, which stays in use. It returns up to 20 problems, and how it checked.
func (d *Database) Verify(ctx context.Context) (problems []string, how string, err error) {
	switch {
	case d.file != nil:
		problems, err = d.file.Verify(ctx)
		return problems, "every page and index was read", err
	case d.verify != nil:
		return d.verify(ctx)
	}
	return nil, "not read: the engine verifies its data itself", nil
}

// Distribution returns pgdb.DB.Distribution, or nil for other engines.
func (d *Database) Distribution(ctx context.Context) (*pgdb.Distribution, error) {
	pg, ok := d.pool().(*pgdb.DB)
	if !ok {
		return nil, nil
	}
	return pg.Distribution(ctx, d.sets[len(d.sets)-1])
}

// Remedy returns a fix for a SQLite file or a rejected connection, and "" for other errors.
func (d *Database) Remedy(err error) string {
	if errors.Is(err, migrate.ErrDevelopment) {
		return migrate.DevelopmentFix
	}
	if d.file == nil {
		return pgdb.Remedy(err, d.Service+".database_url")
	}
	return sqlitedb.Remedy(err, d.Where)
}

// Advice returns what an operator can do about an error: never "".
func (d *Database) Advice(err error) string {
	return cmp.Or(d.Remedy(err), d.advice, "start the database, or correct "+d.Service+".database_url")
}

// Ready returns a readiness check that names the database in its error.
func (d *Database) Ready(ping func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := ping(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.Where, err)
		}
		return nil
	}
}

func (d *Database) Close() error { return d.conn.Close() }
