// Package postgres lets services keep their data in PostgreSQL, also with the Citus extension.
package postgres

import (
	"context"
	"fmt"

	bucketsbackend "holdfast/internal/buckets/backend"
	buckets "holdfast/internal/buckets/postgres"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/engines"
	extbackend "holdfast/internal/extstorage/backend"
	ext "holdfast/internal/extstorage/postgres"
	guestbackend "holdfast/internal/guest/backend"
	guest "holdfast/internal/guest/postgres"
	"holdfast/internal/syncstorage"
	sync "holdfast/internal/syncstorage/postgres"
	"holdfast/internal/tokenserver"
	accounts "holdfast/internal/tokenserver/postgres"
)

// Engine returns PostgreSQL with every service's backend.
func Engine() engines.Engine {
	return engines.Engine{
		Sync:     backend(sync.Migrations, func(db *pgdb.DB, _ engine.StoreOptions) syncstorage.Store { return sync.New(db) }),
		Accounts: backend(accounts.Migrations, func(db *pgdb.DB, _ engine.StoreOptions) tokenserver.Store { return accounts.New(db) }),
		Extensions: backend(ext.Migrations, func(db *pgdb.DB, o engine.StoreOptions) extbackend.Store {
			return ext.New(db, ext.Options{Waker: o.Waker})
		}),
		Buckets: backend(buckets.Migrations, func(db *pgdb.DB, _ engine.StoreOptions) bucketsbackend.Store { return buckets.New(db) }),
		Guest:   backend(guest.Migrations, func(db *pgdb.DB, o engine.StoreOptions) guestbackend.Store { return guest.New(db, o.Waker) }),
	}
}

// Driver opens PostgreSQL databases.
func Driver() engine.Driver {
	return engine.Driver{Kind: engine.Postgres, Migrations: pgdb.ServerMigrations, Open: open}
}

// backend is a service's store on this driver. history loads the migrations of its tables.
func backend[S any](history func() (migrate.Set, error), store func(*pgdb.DB, engine.StoreOptions) S) engine.Backend[S] {
	return engine.NewBackend(Driver(), history, store)
}

// open is the Open of the driver.
func open(ctx context.Context, o *engine.Opener, d *engine.Database, s engine.Settings) (c engine.Connection, err error) {
	setting := d.Service + ".database_url"
	db, err := pgdb.Open(ctx, pgdb.Options{
		URL: d.Target.URL, MaxConns: s.PoolMaxSize, ConnectTimeout: s.PoolConnectionTimeout, MaxLifetime: s.PoolLifespan, MaxIdle: s.PoolMaxIdle,
		StatementTimeout: s.StatementTimeout, ApplicationName: "holdfast " + d.Service, Observe: o.Metrics.Database(d.Service, string(engine.Postgres)),
	})
	if err != nil {
		return c, fmt.Errorf("%s: %w", setting, err)
	}
	return engine.Connection{
		Handle: db, Pool: db, Where: db.Where(),
		Rows:   func(rows.Owners) rows.Database { return db.Rows() },
		Verify: db.Verify, Size: db.Size, Pooler: db.Pooler, Rounds: db,
		Recognize: func(err error) string { return pgdb.Remedy(err, setting) },
		Close:     func() error { db.Close(); return nil },
		Hung:      db.Hung, HungWait: s.PoolConnectionTimeout,
		Relations: func(ctx context.Context) (engine.Relations, error) {
			r, err := db.Relations(ctx)
			return engine.Relations(r), err
		},
		Restores: marks{db},
		Distribution: func(ctx context.Context) (*engine.Distribution, error) {
			actual, err := db.Distribution(ctx, d.Migrations())
			return distribution(actual), err
		},
	}, nil
}

// marks is pgdb.DB as engine.RestoreMarks.
type marks struct{ *pgdb.DB }

// UnfinishedRestore returns nil for a database without a mark.
func (m marks) UnfinishedRestore(ctx context.Context, service string) (*engine.UnfinishedRestore, error) {
	u, err := m.DB.UnfinishedRestore(ctx, service)
	return (*engine.UnfinishedRestore)(u), err
}

// distribution returns nil for nil.
func distribution(actual *pgdb.Distribution) *engine.Distribution {
	if actual == nil {
		return nil
	}
	d := &engine.Distribution{
		Version: actual.Version, Tables: actual.Tables, Shards: actual.Shards, Group: actual.Group, Others: actual.Others, Separate: actual.Separate,
	}
	for _, p := range actual.Problems {
		d.Problems = append(d.Problems, engine.DistributionProblem(p))
	}
	return d
}
