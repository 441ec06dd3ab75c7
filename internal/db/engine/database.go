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

// Database is the open database of a service, for everything that the server itself
// does with it.
type Database struct {
	Service string
	Target  Target
	Where   string        // for messages: the path or URL, without secrets
	Wait    time.Duration // maximum wait of a request for its turn at the database

	// Hung reports, without blocking, whether the server does not answer. A request then waits for its turn no
	// longer than HungWait. nil: not supported by the engine.
	Hung     func() bool
	HungWait time.Duration

	// Pooler reports whether a connection pooler is in between, and whether statements
	// are prepared. nil: not supported by the engine.
	Pooler func(context.Context) (pooled, prepares bool, err error)

	// Size returns how much disk space the database uses, in bytes. nil: not supported by
	// the engine.
	Size func(context.Context) (int64, error)

	// Set by the service, optional.

	// AfterMigrate does what migrations cannot, and describes it; "" if there was nothing
	// to do. It is idempotent.
	AfterMigrate func(context.Context) (made string, err error)
	// AfterBackup changes the copy of a SQLite file, and AfterRestore a restored database whose copy has this age, so that it
	// does not issue the numbers that the original issues after it was copied.
	AfterBackup  func(context.Context, *sqlitedb.DB) error
	AfterRestore func(ctx context.Context, age time.Duration) error
	// MigrateAtStart migrates a database server at every start. A SQLite file is always
	// migrated.
	MigrateAtStart bool

	sets []migrate.Set // of the server and of the service
	conn connection
	file *sqlitedb.DB // nil for a database server

	rounds sweepRounds // nil: of one process, or without sweeps

	verify func(context.Context) (problems []string, how string, err error) // of a database server; nil: not supported
	advice string                                                           // about errors for which Remedy has none
}

// pool is the common interface of all engines.
type pool interface {
	Migrate(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Pending(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Connections() (active, idle, most int)
	Waits() (n int64, total time.Duration)
	SecretHashes(ctx context.Context, service string) (map[string]string, error)
	SetSecretHash(ctx context.Context, service, setting, old, hash string) (changed bool, err error)
}

// sweepRounds are the rounds of sweeps in a database that several processes share.
type sweepRounds interface {
	BeginRound(ctx context.Context, job string, every time.Duration) (bool, error)
	AbortRound(ctx context.Context, job string) error
}

// connection is a pool that can be closed.
type connection interface {
	pool
	Close() error
}

// closing adapts an engine that closes without an error.
type closing struct {
	pool
	close func()
}

func (c closing) Close() error { c.close(); return nil }

// pool returns the connections without the function that closes them.
func (d *Database) pool() any {
	if c, ok := d.conn.(closing); ok {
		return c.pool
	}
	return d.conn
}

// Rows returns the access to the rows of tables. owners is for the rows of owners on
// Spanner; nil for everything else.
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

// Traits returns the traits of the engine.
func (d *Database) Traits() Traits { return d.Target.Kind.Traits() }

// Embedded reports whether the database is a SQLite file.
func (d *Database) Embedded() bool { return d.file != nil }

// Disk returns the free space for the server and the size of the disk of a SQLite file, in bytes.
func (d *Database) Disk() (free, size float64, err error) {
	return durable.Space(filepath.Dir(d.Target.Path))
}

// File returns the SQLite file; nil for a database server.
func (d *Database) File() *sqlitedb.DB { return d.file }

// Migrate applies the pending migrations. The error of a server that refuses the connection says what an operator
// can do about it.
func (d *Database) Migrate(ctx context.Context) (applied []migrate.Migration, err error) {
	applied, err = d.eachSet(ctx, d.conn.Migrate)
	if d.file == nil {
		if fix := d.Remedy(err); fix != "" {
			err = fmt.Errorf("%w: %s", err, fix)
		}
	}
	return applied, err
}

// Pending returns the migrations that have not been applied.
func (d *Database) Pending(ctx context.Context) ([]migrate.Migration, error) {
	return d.eachSet(ctx, d.conn.Pending)
}

// Unmigrated reports whether the database has no table of the service.
func (d *Database) Unmigrated(ctx context.Context) (bool, error) {
	own := d.sets[len(d.sets)-1]
	pending, err := d.conn.Pending(ctx, own)
	return len(pending) == len(own.Migrations), err
}

// Relations counts the tables of a PostgreSQL database.
func (d *Database) Relations(ctx context.Context) (r pgdb.Relations, err error) {
	pg, ok := d.pool().(*pgdb.DB)
	if !ok {
		return r, fmt.Errorf("%s is no PostgreSQL database", d.Where)
	}
	return pg.Relations(ctx)
}

// eachSet calls fn for the migrations of the server and for those of the service.
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

// SecretHashes returns the hashes (package secrethash) of the secrets that the data of
// the service depends on, by setting; nil if their table does not exist.
func (d *Database) SecretHashes(ctx context.Context) (map[string]string, error) {
	return d.conn.SecretHashes(ctx, d.Service)
}

// SetSecretHash replaces the hash old of a secret; "" if there is none. It returns
// false if another process was faster.
func (d *Database) SetSecretHash(ctx context.Context, setting, old, hash string) (changed bool, err error) {
	return d.conn.SetSecretHash(ctx, d.Service, setting, old, hash)
}

// BeginRound implements sweep.Rounds. A SQLite file has one process, which runs every round.
func (d *Database) BeginRound(ctx context.Context, job string, every time.Duration) (bool, error) {
	if d.rounds == nil {
		return true, nil
	}
	return d.rounds.BeginRound(ctx, job, every)
}

// AbortRound implements sweep.Rounds.
func (d *Database) AbortRound(ctx context.Context, job string) error {
	if d.rounds == nil {
		return nil
	}
	return d.rounds.AbortRound(ctx, job)
}

// Connections returns the number of connections in use, the number of idle ones, and
// the maximum.
func (d *Database) Connections() (active, idle, most int) { return d.conn.Connections() }

// turns is how many callers a SQLite file can use at once: its writer commits waiting
// writes as a group, and few reads run at once.
const turns = 32

// Turns returns how many callers can use the database at once.
func (d *Database) Turns() int {
	_, _, most := d.conn.Connections()
	if d.Embedded() {
		return min(most, turns)
	}
	return most
}

// Waits returns how often, and for how long in total, callers waited for a connection.
func (d *Database) Waits() (n int64, total time.Duration) { return d.conn.Waits() }

// Queued returns the number of writes waiting for the writer of a SQLite file; 0 on
// database servers.
func (d *Database) Queued() int {
	if d.file == nil {
		return 0
	}
	return d.file.Queued()
}

// connMemory is the approximate memory of a connection to a database server: buffers
// and statement descriptions.
const connMemory = 256 << 10

// Memory returns the maximum memory of connections and their caches in bytes: in the
// heap of the Go runtime, and outside of it, where SQLite allocates.
func (d *Database) Memory() (heap, outside int64) {
	if d.file != nil {
		return 0, d.file.CacheBytes()
	}
	_, _, most := d.Connections()
	return int64(most) * connMemory, 0
}

// Backup copies a SQLite file to path while it is in use.
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

// fileSize returns the size of a SQLite file with its write-ahead log, in bytes.
func fileSize(path string) (size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	size = info.Size()
	if info, err := os.Stat(path + "-wal"); err == nil { // it may not exist
		size += info.Size()
	}
	return size, nil
}

// Verify reads the whole database while it is in use, and returns what is damaged, at most
// 20 lines, and what was checked.
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

// Distribution returns how Citus distributes the tables of the service; nil without Citus.
func (d *Database) Distribution(ctx context.Context) (*pgdb.Distribution, error) {
	pg, ok := d.pool().(*pgdb.DB)
	if !ok {
		return nil, nil
	}
	return pg.Distribution(ctx, d.sets[len(d.sets)-1]) // the migrations of the service
}

// Remedy says how an operator fixes an error of a SQLite file, or of a server that refuses a connection; "" for other
// errors of a database server.
func (d *Database) Remedy(err error) string {
	if d.file == nil {
		return pgdb.Remedy(err, d.Service+".database_url")
	}
	return sqlitedb.Remedy(err, d.Where)
}

// Advice is Remedy, and general advice about other errors.
func (d *Database) Advice(err error) string {
	return cmp.Or(d.Remedy(err), d.advice, "start the database, or correct "+d.Service+".database_url")
}

// Ready returns a check of the database by ping. Its errors name the database.
func (d *Database) Ready(ping func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := ping(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.Where, err)
		}
		return nil
	}
}

// Close closes the database.
func (d *Database) Close() error { return d.conn.Close() }
