package app

import (
	"context"
	"time"

	"holdfast/internal/sweep"
	"holdfast/internal/syncstorage"
	syncpostgres "holdfast/internal/syncstorage/postgres"
	syncspanner "holdfast/internal/syncstorage/spanner"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
)

const syncRoom = "syncstorage"

// openSync opens the room of Firefox Sync's records.
func (a *App) openSync(ctx context.Context, create bool) error {
	cfg := a.cfg.Syncstorage
	store, err := a.syncStore(ctx, cfg, create)
	if err != nil {
		return err
	}
	over := a.metrics.Counter("holdfast_sync_over_quota_total", "Writes of users over a quota that is not enforced.")
	// A client that takes a large listing slowly holds a connection; half of
	// them are for everybody else.
	_, _, connections := a.databases[len(a.databases)-1].connections()
	a.storage = syncstorage.NewService(store, cfg, connections/2, func(o syncstorage.Owner, used int64) {
		over.WithLabelValues().Inc()
		a.log.Warn("a user is over the quota, which is not enforced", "uid", o.UID, "bytes", used)
	})
	a.checks = append(a.checks, readiness{syncRoom, a.storage.Ping})
	if a.cfg.OnSpanner() {
		return nil // Spanner sweeps by itself
	}
	a.jobs = append(a.jobs, sweep.Job{
		Name: "expired records and batches", Every: cfg.SweepEvery, Limit: cfg.SweepLimit,
		Run: func(ctx context.Context, now time.Time, limit int) (int, error) {
			return a.storage.Sweep(ctx, syncstorage.At(now.Add(-cfg.SweepAfter)), limit)
		},
	})
	return nil
}

func (a *App) syncStore(ctx context.Context, cfg syncstorage.Config, create bool) (syncstorage.Store, error) {
	t, err := parseTarget(syncRoom, cfg.DatabaseURL, a.data)
	if err != nil {
		return nil, err
	}
	if t.engine == engineSQLite {
		set, err := syncsqlite.Migrations()
		if err != nil {
			return nil, err
		}
		db, err := a.openSQLite(ctx, syncRoom, t.path, create)
		if err != nil {
			return nil, err
		}
		a.addSQLite(syncRoom, db, t.path, set)
		return syncsqlite.New(db), nil
	}
	if t.engine == engineSpanner {
		set, err := syncspanner.Migrations()
		if err != nil {
			return nil, err
		}
		db, err := a.openSpanner(ctx, syncRoom, t.url, cfg)
		if err != nil {
			return nil, err
		}
		a.addSpanner(syncRoom, db, t.url, set)
		return syncspanner.New(db), nil
	}
	set, err := syncpostgres.Migrations()
	if err != nil {
		return nil, err
	}
	db, err := a.openPostgres(ctx, syncRoom, t.url,
		pool{maxConns: cfg.PoolMaxSize, wait: cfg.PoolConnectionTimeout, lifespan: cfg.PoolLifespan, idle: cfg.PoolMaxIdle, long: cfg.StatementTimeout})
	if err != nil {
		return nil, err
	}
	a.addPostgres(syncRoom, db, t.url, set)
	return syncpostgres.New(db), nil
}
