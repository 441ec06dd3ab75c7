package engine

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
)

// Database is the open database of a service: what the server does with it
// besides handing it to the service's store.
type Database struct {
	Service string
	Target  Target
	Where   string        // for people: the path or URL, without secrets
	Wait    time.Duration // longest that a caller waits for a connection

	// Pooler reports whether a connection pooler is in between, and whether
	// statements are prepared. nil: the engine has none.
	Pooler func(context.Context) (pooled, prepares bool, err error)

	// What the service may add.

	// AfterMigrate makes what migrations do not, and names it; "" when there was
	// nothing to do. It is idempotent.
	AfterMigrate func(context.Context) (made string, err error)
	// AfterBackup changes the copy of a SQLite file so that it does not give out
	// the numbers that the original gives out after the backup.
	AfterBackup func(context.Context, *sqlitedb.DB) error
	// MigrateAtStart migrates a database server whenever the service starts; a
	// SQLite file always is.
	MigrateAtStart bool

	sets []migrate.Set // of the server and of the service
	conn connection
	file *sqlitedb.DB // nil: not embedded
}

// pool is what all engines have.
type pool interface {
	Migrate(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Pending(ctx context.Context, set migrate.Set) ([]migrate.Migration, error)
	Connections() (active, idle, most int)
	Waits() (n int64, total time.Duration)
	SecretHashes(ctx context.Context, service string) (map[string]string, error)
	SetSecretHash(ctx context.Context, service, setting, old, hash string) (changed bool, err error)
}

// connection is a pool that can be closed.
type connection interface {
	pool
	Close() error
}

// closing is the pool of an engine that closes without an error.
type closing struct {
	pool
	close func()
}

func (c closing) Close() error { c.close(); return nil }

// Embedded reports whether the database is a SQLite file.
func (d *Database) Embedded() bool { return d.file != nil }

// Migrate applies the migrations that the database still needs.
func (d *Database) Migrate(ctx context.Context) (applied []migrate.Migration, err error) {
	return d.eachSet(ctx, d.conn.Migrate)
}

// Pending returns the migrations that the database still needs.
func (d *Database) Pending(ctx context.Context) ([]migrate.Migration, error) {
	return d.eachSet(ctx, d.conn.Pending)
}

// eachSet calls fn for the tables of the server and for those of the service.
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
// the service depends on, by setting; nil while the table of them is missing.
func (d *Database) SecretHashes(ctx context.Context) (map[string]string, error) {
	return d.conn.SecretHashes(ctx, d.Service)
}

// SetSecretHash replaces the hash old of a secret, "" for none. It reports whether it
// did: another process may have been faster.
func (d *Database) SetSecretHash(ctx context.Context, setting, old, hash string) (changed bool, err error) {
	return d.conn.SetSecretHash(ctx, d.Service, setting, old, hash)
}

// Connections counts the connections in use, the idle ones, and how many there
// may be.
func (d *Database) Connections() (active, idle, most int) { return d.conn.Connections() }

// turns is how many callers a SQLite file has use for: its one writer commits those
// that wait as a group, and few readers work at once.
const turns = 32

// Turns is how many callers can use the database at once.
func (d *Database) Turns() int {
	_, _, most := d.conn.Connections()
	if d.Embedded() {
		return min(most, turns)
	}
	return most
}

// Waits counts how often, and how long in total, a caller waited for a
// connection.
func (d *Database) Waits() (n int64, total time.Duration) { return d.conn.Waits() }

// Queued counts the writes that wait for a SQLite file's writer; 0 on database
// servers.
func (d *Database) Queued() int {
	if d.file == nil {
		return 0
	}
	return d.file.Queued()
}

// connMemory is about what a connection to a database server keeps: buffers and the
// descriptions of its statements.
const connMemory = 256 << 10

// Memory is the most that connections and their caches take, in bytes: in the heap of
// the runtime and outside of it, where SQLite has its own.
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

// Close closes the database.
func (d *Database) Close() error { return d.conn.Close() }
