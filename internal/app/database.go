package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/syncstorage"
)

// database is what the app does with a room's open engine besides handing it
// to the room's backend.
type database struct {
	room    string
	engine  engine
	where   string // for people, without secrets
	set     migrate.Set
	migrate func(context.Context, migrate.Set) ([]migrate.Migration, error)
	pending func(context.Context, migrate.Set) ([]migrate.Migration, error)
	backup  func(ctx context.Context, path string) error // nil: not embedded
	close   func() error

	connections func() (active, idle, most int)
	waits       func() (n int64, total time.Duration) // for a connection
	pooler      func(context.Context) (pooled, prepares bool, err error)
	queued      func() int // writes that wait for their turn; nil: not embedded
	file        string     // "" when not embedded

	extra   func(context.Context) (made string, err error) // what a migration makes besides; nil: nothing
	inspect func(context.Context) ([]Finding, error)       // how the tables stand; nil: nobody looks
}

// pool is what the settings of a room say of its connections.
type pool struct {
	maxConns                   int
	wait, lifespan, idle, long time.Duration
}

// openSQLite opens a room's file; only with create in a folder that may have to
// be made.
func (a *App) openSQLite(ctx context.Context, room, path string, create bool) (*sqlitedb.DB, error) {
	if create {
		if err := makeData(filepath.Dir(path)); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("the %s database %s is not there; --data says where the server keeps it", room, path)
	}
	group := a.metrics.Groups(room)
	db, err := sqlitedb.Open(ctx, sqlitedb.Options{
		Path: path, Observe: a.metrics.Database(room, string(engineSQLite)),
		ObserveGroup: func(g sqlitedb.Group) { group(g.Steps, g.Wait, g.Commit) },
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return db, nil
}

func (a *App) addSQLite(room string, db *sqlitedb.DB, path string, set migrate.Set) {
	where := path
	if abs, err := filepath.Abs(path); err == nil {
		where = abs
	}
	a.databases = append(a.databases, &database{
		room: room, engine: engineSQLite, where: where, set: set,
		migrate: db.Migrate, pending: db.Pending, backup: db.Backup, close: db.Close,
		connections: db.Connections, waits: db.Waits, queued: db.Queued, file: path,
	})
}

func (a *App) openPostgres(ctx context.Context, room, url string, p pool) (*pgdb.DB, error) {
	db, err := pgdb.Open(ctx, pgdb.Options{
		URL: url, MaxConns: p.maxConns, ConnectTimeout: p.wait, MaxLifetime: p.lifespan, MaxIdle: p.idle,
		StatementTimeout: p.long, ApplicationName: "holdfast " + room, Observe: a.metrics.Database(room, string(enginePostgres)),
	})
	if err != nil {
		return nil, fmt.Errorf("%s.database_url: %w", room, err)
	}
	return db, nil
}

func (a *App) addPostgres(room string, db *pgdb.DB, url string, set migrate.Set) {
	a.databases = append(a.databases, &database{
		room: room, engine: enginePostgres, where: redact(url), set: set,
		migrate: db.Migrate, pending: db.Pending,
		close:       func() error { db.Close(); return nil },
		connections: db.Connections, waits: db.Waits, pooler: db.Pooler,
	})
}

// openSpanner opens a room's database in Cloud Spanner, or in the emulator of
// it.
func (a *App) openSpanner(ctx context.Context, room, name string, cfg syncstorage.Config) (*spannerdb.DB, error) {
	// The driver lets this variable win over what it is told. Whether it counts
	// was decided when the configuration was read.
	if err := os.Unsetenv("SPANNER_EMULATOR_HOST"); err != nil {
		return nil, err
	}
	predicted := a.metrics.Counter("holdfast_sync_spanner_predicted_mutations_total", "Mutations that commits on Spanner were predicted to have, by step.", "step")
	counted := a.metrics.Counter("holdfast_sync_spanner_mutations_total", "Mutations that Spanner has counted in commits, by step; the emulator counts none.", "step")
	db, err := spannerdb.Open(ctx, spannerdb.Options{
		Database: name, EmulatorHost: cfg.EmulatorHost, RouteToLeader: cfg.RouteToLeader,
		MaxTransactions: cfg.PoolMaxSize, Wait: cfg.PoolConnectionTimeout, Timeout: cfg.StatementTimeout,
		Observe: a.metrics.Database(room, string(engineSpanner)),
		Mutations: func(step string, foretold, count int) {
			predicted.WithLabelValues(step).Add(float64(foretold))
			counted.WithLabelValues(step).Add(float64(count))
			if count != 0 && count != foretold {
				a.log.Warn("Spanner counts the mutations of a commit otherwise than this release", "step", step, "predicted", foretold, "counted", count)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s.database_url: %w", room, err)
	}
	return db, nil
}

func (a *App) addSpanner(room string, db *spannerdb.DB, name string, set migrate.Set) {
	a.databases = append(a.databases, &database{
		room: room, engine: engineSpanner, where: "spanner://" + name, set: set,
		migrate: db.Migrate, pending: db.Pending,
		close:       func() error { db.Close(); return nil },
		connections: db.Connections, waits: db.Waits,
	})
}

// Migrate applies what the databases still need and says what it did, a line
// for each change. It goes on to the next room when one fails.
func (a *App) Migrate(ctx context.Context) ([]string, error) {
	lines, err := migrateAll(ctx, a.databases)
	if err == nil {
		err = a.afterMigrations(ctx)
	}
	return lines, err
}

func migrateAll(ctx context.Context, databases []*database) (lines []string, err error) {
	for _, d := range databases {
		applied, failed := d.migrate(ctx, d.set)
		for _, m := range applied {
			lines = append(lines, fmt.Sprintf("%s: applied %04d_%s to %s", d.room, m.Version, m.Name, d.where))
		}
		if failed == nil && d.extra != nil {
			var made string
			if made, failed = d.extra(ctx); made != "" {
				lines = append(lines, fmt.Sprintf("%s: made %s in %s", d.room, made, d.where))
			}
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", d.room, d.where, failed))
		}
	}
	return lines, err
}

// settle does what a start has to do as soon as the databases can be reached:
// the migrations that were asked for, and the first node.
func (a *App) settle(ctx context.Context) error {
	var asked []*database
	for _, d := range a.databases {
		if a.migrate || d.room == tokenRoom && a.cfg.Tokenserver.RunMigrations {
			asked = append(asked, d)
		}
	}
	lines, err := migrateAll(ctx, asked)
	for _, line := range lines {
		a.log.Info(line)
	}
	return errors.Join(err, a.afterMigrations(ctx))
}

// migrateEmbedded brings the files up to date that no other verb would.
func (a *App) migrateEmbedded(ctx context.Context) error {
	for _, d := range a.databases {
		if d.engine != engineSQLite {
			continue
		}
		if _, err := d.migrate(ctx, d.set); err != nil {
			return fmt.Errorf("%s: %s: %w", d.room, d.where, err)
		}
	}
	return nil
}
