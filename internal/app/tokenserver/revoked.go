package tokenserver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/tokenserver"
)

// revokedEvery is the interval between reads of the revoked users. A denied account must not write for more than a
// second, and requests must not query the database.
const revokedEvery = 500 * time.Millisecond

// restFor returns the pause after a read. Reading a long list takes at most a tenth of the time, but the pause stays
// below a second.
func restFor(took time.Duration) time.Duration {
	return min(max(revokedEvery, 10*took), 900*time.Millisecond)
}

// firstLook limits the first read, which delays the start.
const firstLook = 2 * time.Second

// IsRevoked reports whether a user's unexpired tokens must be refused. It reads memory only. It returns false until the
// revoked users were read for the first time.
func (s *Accounts) IsRevoked(fxaUID string, uid int64) bool {
	r := s.revoked.Load()
	return r != nil && r.Has(fxaUID, uid)
}

// WatchBeside makes IsRevoked use another server's accounts in the storage database db, unless this server serves
// accounts itself. A SQLite file has no other server.
func (s *Accounts) WatchBeside(ctx context.Context, db *engine.Database, d *service.Deps) (stop func() error) {
	store, ok := engine.Beside(db, s.backends, engine.StoreOptions{})
	if !ok || s.cfg.Enabled || db.Embedded() {
		return func() error { return nil }
	}
	found := false
	return s.watchRevoked(ctx, func(ctx context.Context) (tokenserver.Revoked, error) {
		if !found {
			if err := store.Ping(ctx); err != nil {
				return tokenserver.Revoked{}, errNoAccounts
			}
			found = true
		}
		return store.Revoked(ctx, d.Clock().Add(-s.cfg.TokenLife()))
	}, d.Log)
}

// errNoAccounts means that the storage database contains no accounts, yet.
var errNoAccounts = errors.New("the database has no accounts")

// besideEvery is the pause while the database has no accounts: they may be added by another server at any time.
const besideEvery = 10 * time.Second

// watchRevoked keeps the last result while the database is unavailable.
func (s *Accounts) watchRevoked(
	ctx context.Context, revoked func(context.Context) (tokenserver.Revoked, error), log *slog.Logger,
) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	look := func(ctx context.Context) error {
		r, err := revoked(ctx)
		if err == nil {
			s.revoked.Store(&r)
		}
		return err
	}
	begun := time.Now()
	// The first read precedes the first request, so that requests do not see an empty list while the database is
	// available.
	first, done := context.WithTimeout(ctx, firstLook)
	err := look(first)
	done()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			pause, failed := restFor(time.Since(begun)), err != nil
			if errors.Is(err, errNoAccounts) {
				pause = besideEvery
			}
			if !clock.Sleep(ctx, pause) {
				return
			}
			begun = time.Now()
			if err = look(ctx); err != nil && !failed && ctx.Err() == nil {
				log.Warn("could not read revoked accounts, known accounts are still rejected", "error", err)
			}
		}
	}()
	return func() error {
		cancel()
		<-ended
		return nil
	}
}
