// Package spanner lets sync storage keep its data in Cloud Spanner.
package spanner

import (
	"context"
	"fmt"
	"os"

	"holdfast/internal/db/engine"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/engines"
	"holdfast/internal/syncstorage"
	sync "holdfast/internal/syncstorage/spanner"
)

// Engine returns Spanner with the backend of sync storage.
func Engine() engines.Engine {
	return engines.Engine{
		Sync: engine.NewBackend(Driver(), sync.Migrations, func(db *spannerdb.DB, _ engine.StoreOptions) syncstorage.Store { return sync.New(db) }),
	}
}

// Driver opens Spanner databases.
func Driver() engine.Driver {
	return engine.Driver{Kind: engine.Spanner, Migrations: spannerdb.ServerMigrations, Open: open}
}

// open is the Open of the driver.
func open(ctx context.Context, o *engine.Opener, d *engine.Database, s engine.Settings) (c engine.Connection, err error) {
	// The client prefers this variable to its options, but only the configuration may select an emulator.
	if err := os.Unsetenv("SPANNER_EMULATOR_HOST"); err != nil {
		return c, err
	}
	setting := d.Service + ".database_url"
	options := spannerdb.Options{
		Database: d.Target.URL, MaxTransactions: s.PoolMaxSize, Wait: s.PoolConnectionTimeout, Timeout: s.StatementTimeout,
		EmulatorHost: s.Spanner.EmulatorHost, RouteToLeader: s.Spanner.RouteToLeader, Mutations: s.Spanner.Mutations,
		Observe: o.Metrics.Database(d.Service, string(engine.Spanner)),
	}
	advice := options.Advice(setting)
	db, err := spannerdb.Open(ctx, options)
	if err != nil {
		return c, &engine.ServerError{Err: fmt.Errorf("%s: %w", setting, err), Advice: advice}
	}
	return engine.Connection{
		Handle: db, Pool: db, Where: "spanner://" + d.Target.URL, Unreachable: advice,
		Rows: db.Rows,
		Verify: func(context.Context) ([]string, string, error) {
			return nil, "not read: the engine verifies its data itself", nil
		},
		Recognize: func(error) string { return "" },
		Close:     func() error { db.Close(); return nil },
	}, nil
}
