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
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
)

// Database is a service's open database.
type Database struct {
	Service string
	Target  Target
	Wait    time.Duration // how long a request waits for its turn: the statement timeout

	Connection

	// AfterMigrate does work that SQL migrations cannot, and returns its description, or "" if nothing was left to
	// do. It must be idempotent.
	AfterMigrate func(context.Context) (made string, err error)
	// AfterBackup prepares a copy of a SQLite file.
	AfterBackup func(context.Context, *sqlitedb.DB) error
	// MigrateAtStart is for database servers; SQLite files always migrate.
	MigrateAtStart bool

	sets []migrate.Set // the server's migrations, then the service's
	file *sqlitedb.DB  // nil for a database server
}

// Connection is an open database as its driver offers it. Handle, Pool, Where, Rows, Verify, Recognize and Close are
// required; other functions are nil if the engine does not support them.
type Connection struct {
	// Handle is the driver's own type, e.g. *pgdb.DB. Only Backend.New knows it.
	Handle any
	Pool   Pool
	Where  string // for messages, without secrets
	// Unreachable is the advice for a database that cannot be reached; "" gives general advice.
	Unreachable string

	// Rows returns the database for copies. owners are needed on Spanner only, where the tokenserver's database knows
	// the owners.
	Rows func(owners rows.Owners) rows.Database

	// Verify reads the whole database, which stays in use. It returns up to 20 problems, and how it checked.
	Verify func(context.Context) (problems []string, how string, err error)

	// Recognize returns advice for an error that the driver knows, e.g. a rejected password, and "" for others.
	Recognize func(err error) (fix string)

	Close func() error

	// Hung reports, without blocking, whether the server stopped answering; requests then wait only HungWait for
	// their turn.
	Hung     func() bool
	HungWait time.Duration // the pool's connection timeout

	// Pooler reports whether connections lead to a connection pooler such as PgBouncer, and whether it supports
	// prepared statements.
	Pooler func(context.Context) (pooled, prepares bool, err error)

	// Size returns the bytes on disk.
	Size func(context.Context) (int64, error)

	// Rounds lets only one of several processes sweep; nil if only a single process sweeps.
	Rounds SweepRounds

	// Relations counts the contents of a database before a dump is restored into it.
	Relations func(context.Context) (Relations, error)

	// Restores marks the database while a dump is restored into it; nil if no server finds it before it is prepared.
	Restores RestoreMarks

	// Distribution describes how the service's tables are distributed; nil without an error if they are not.
	Distribution func(context.Context) (*Distribution, error)
}

// Pool is the part that the handles of all engines have in common.
type Pool interface {
	Migrate(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Pending(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Connections() (active, idle, maximum int)
	Waits() (n int64, total time.Duration)
	SecretHashes(ctx context.Context, service string) (map[string]string, error)
	SetSecretHash(ctx context.Context, service, setting, old, hash string) (changed bool, err error)
}

// SweepRounds agrees with other processes on who sweeps; see Database.BeginRound.
type SweepRounds interface {
	BeginRound(ctx context.Context, job string, every time.Duration) (bool, error)
	AbortRound(ctx context.Context, job string) error
}

// RestoreMarks marks a database, so that no server uses a dump that is not prepared for clients.
type RestoreMarks interface {
	// BeginRestore marks the database before a dump with the state of a moment is restored. It may be repeated.
	BeginRestore(ctx context.Context, moment time.Time) error

	// EndRestore records that a service was prepared for clients. It may be repeated, and does nothing without a mark.
	EndRestore(ctx context.Context, service string) error

	// AbandonRestore removes the mark if nothing was restored.
	AbandonRestore(ctx context.Context) error

	// UnfinishedRestore returns nil unless a dump was restored and the service was not prepared for clients since.
	UnfinishedRestore(ctx context.Context, service string) (*UnfinishedRestore, error)
}

// UnfinishedRestore describes a restored dump that is not prepared for clients yet.
type UnfinishedRestore struct {
	Moment  time.Time // of the dump
	IsEmpty bool      // nothing was restored
}

// Relations counts the relations of a database outside the engine's own.
type Relations struct {
	Tables int  // also views and sequences
	Citus  bool // the extension is installed

	// Powerful means that SQL of the role can run programs or open files on the database server, at once or after
	// SET ROLE or GRANT.
	Powerful bool
}

// Distribution describes a service's tables on Citus.
type Distribution struct {
	Version string   // of Citus
	Tables  []string // distributed; the others are on the coordinator or on every node
	Shards  int      // of the first table
	Group   int      // the first table's colocation group
	Others  []string // other distributed tables in that group

	Problems []DistributionProblem

	// Separate is a transaction that moves tables and functions to their own colocation group; shards stay in place.
	Separate string
}

// DistributionProblem is a table or function that is not placed like the others of its service.
type DistributionProblem struct {
	Problem string // e.g. "t is not distributed by user_id"
	Fix     string // SQL statement that repairs it
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
	applied, err = d.eachSet(ctx, d.Pool.Migrate)
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
	return d.eachSet(ctx, d.Pool.Pending)
}

// Migrations returns the service's migrations on this engine.
func (d *Database) Migrations() migrate.Set { return d.sets[len(d.sets)-1] }

// Unmigrated reports whether no migration of the service was ever applied, so that the database is empty.
func (d *Database) Unmigrated(ctx context.Context) (bool, error) {
	own := d.Migrations()
	pending, err := d.Pool.Pending(ctx, own)
	return len(pending) == len(own.Migrations), err
}

// BeginRestore calls RestoreMarks.BeginRestore.
func (d *Database) BeginRestore(ctx context.Context, moment time.Time) error {
	if d.Restores == nil {
		return nil
	}
	return d.Restores.BeginRestore(ctx, moment)
}

// EndRestore calls RestoreMarks.EndRestore for the service.
func (d *Database) EndRestore(ctx context.Context) error {
	if d.Restores == nil {
		return nil
	}
	return d.Restores.EndRestore(ctx, d.Service)
}

// AbandonRestore calls RestoreMarks.AbandonRestore.
func (d *Database) AbandonRestore(ctx context.Context) error {
	if d.Restores == nil {
		return nil
	}
	return d.Restores.AbandonRestore(ctx)
}

// ErrUnfinishedRestore means that a dump was restored, and not prepared for clients that have seen later writes.
var ErrUnfinishedRestore = errors.New("the restore of its database was interrupted")

// errNotRestored is an ErrUnfinishedRestore of a restore that wrote nothing.
var errNotRestored = fmt.Errorf("%w before it wrote anything: run holdfast restore again", ErrUnfinishedRestore)

// CheckRestored returns an ErrUnfinishedRestore, with what to do, for a service that must not use its database yet.
func (d *Database) CheckRestored(ctx context.Context) error {
	if d.Restores == nil {
		return nil
	}
	u, err := d.Restores.UnfinishedRestore(ctx, d.Service)
	switch {
	case err != nil || u == nil:
		return err
	case u.IsEmpty:
		return errNotRestored
	}
	return fmt.Errorf("%w: run holdfast finish-restore --time %s --service %s", ErrUnfinishedRestore, u.Moment.UTC().Format(time.RFC3339), d.Service)
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
	return d.Pool.SecretHashes(ctx, d.Service)
}

// SetSecretHash replaces a secret's hash if it is still old ("" if none is stored). It returns false if another
// process replaced it first.
func (d *Database) SetSecretHash(ctx context.Context, setting, old, hash string) (changed bool, err error) {
	return d.Pool.SetSecretHash(ctx, d.Service, setting, old, hash)
}

// BeginRound reports whether this process should sweep now; see sweep.Job. Only database servers have several
// processes.
func (d *Database) BeginRound(ctx context.Context, job string, every time.Duration) (bool, error) {
	if d.Rounds == nil {
		return true, nil
	}
	return d.Rounds.BeginRound(ctx, job, every)
}

// AbortRound allows another round at once, after a failure.
func (d *Database) AbortRound(ctx context.Context, job string) error {
	if d.Rounds == nil {
		return nil
	}
	return d.Rounds.AbortRound(ctx, job)
}

// Connections returns how many connections are used and idle, and how many there may be.
func (d *Database) Connections() (active, idle, maximum int) { return d.Pool.Connections() }

// turns is the number of turns for a SQLite file, whose writer commits waiting writes as a group. Few reads run at
// once.
const turns = 32

// Turns returns how many requests the database serves at once, for fairshare.NewTurns.
func (d *Database) Turns() int {
	_, _, limit := d.Pool.Connections()
	if d.Embedded() {
		return min(limit, turns)
	}
	return limit
}

// Waits returns how many calls waited for a connection, and how long all together.
func (d *Database) Waits() (n int64, total time.Duration) { return d.Pool.Waits() }

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

// Remedy returns a fix for an error of a SQLite file or a rejected connection, and "" for other errors.
func (d *Database) Remedy(err error) string {
	if errors.Is(err, migrate.ErrDevelopment) {
		return migrate.DevelopmentFix
	}
	return d.Recognize(err)
}

// Advice returns what an operator can do about an error: never "".
func (d *Database) Advice(err error) string {
	return cmp.Or(d.Remedy(err), d.Unreachable, "start the database, or correct "+d.Service+".database_url")
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
