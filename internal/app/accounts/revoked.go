package accounts

import (
	"context"
	"log/slog"
	"time"

	"holdfast/internal/clock"
)

// revokedEvery is the pause between two looks at whose tokens are revoked. An
// operator expects that a denied account writes for a second at most, and a request
// must not ask the database.
const revokedEvery = 300 * time.Millisecond

// firstLook bounds how long a server waits for its database before it starts.
const firstLook = 2 * time.Second

// IsRevoked reports whether the tokens of a storage user are refused though they
// have not expired.
func (s *Accounts) IsRevoked(fxaUID string, uid int64) bool {
	r := s.revoked.Load()
	return r != nil && r.Has(fxaUID, uid)
}

// watchRevoked keeps up to date what IsRevoked reports until stop is called. While
// the database is away, what was known last counts.
func (s *Accounts) watchRevoked(ctx context.Context, log *slog.Logger) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	first, done := context.WithTimeout(ctx, firstLook)
	failed := s.lookRevoked(first) != nil
	done()
	go func() {
		defer close(ended)
		for clock.Rest(ctx, revokedEvery) {
			err := s.lookRevoked(ctx)
			if err != nil && !failed && ctx.Err() == nil {
				log.Warn("revoked accounts cannot be read; those known stay refused", "error", err)
			}
			failed = err != nil
		}
	}()
	return func() error {
		cancel()
		<-ended
		return nil
	}
}

func (s *Accounts) lookRevoked(ctx context.Context) error {
	r, err := s.opened.Revoked(ctx)
	if err == nil {
		s.revoked.Store(&r)
	}
	return err
}
