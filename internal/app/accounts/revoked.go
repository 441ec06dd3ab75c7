package accounts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/tokenserver"
	"holdfast/internal/tokenserver/postgres"
)

// revokedEvery is the pause between two looks at whose tokens are revoked. An
// operator expects that a denied account writes for a second at most, and a request
// must not ask the database.
const revokedEvery = 300 * time.Millisecond

// restFor is the pause after a look that took so long: reading a long list takes a tenth
// of the time at most, unless an operator's second would be missed.
func restFor(took time.Duration) time.Duration {
	return min(max(revokedEvery, 10*took), 900*time.Millisecond)
}

// firstLook bounds how long a server waits for its database before it starts.
const firstLook = 2 * time.Second

// IsRevoked reports whether the tokens of a storage user are refused though they
// have not expired.
func (s *Accounts) IsRevoked(fxaUID string, uid int64) bool {
	r := s.revoked.Load()
	return r != nil && r.Has(fxaUID, uid)
}

// WatchBeside makes IsRevoked report what another server's accounts say that are kept in
// db, the database of this server's storage, if there are any. It does nothing where
// this server has accounts itself. stop ends it.
func (s *Accounts) WatchBeside(ctx context.Context, db *pgdb.DB, d *service.Deps) (stop func() error) {
	if s.cfg.Enabled {
		return func() error { return nil }
	}
	store, found := postgres.New(db), false
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

// errNoAccounts means that the database has no accounts, or not yet.
var errNoAccounts = errors.New("no accounts are kept here")

// besideEvery is the pause before accounts are looked for again.
const besideEvery = 10 * time.Second

// watchRevoked keeps up to date what IsRevoked reports until stop is called. While
// the database is away, what was known last counts.
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
			if !clock.Rest(ctx, pause) {
				return
			}
			begun = time.Now()
			if err = look(ctx); err != nil && !failed && ctx.Err() == nil {
				log.Warn("could not read revoked accounts, known ones are still rejected", "error", err)
			}
		}
	}()
	return func() error {
		cancel()
		<-ended
		return nil
	}
}
