package extstorage

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/fault"
)

// Token is what is known of the token of a request.
type Token struct {
	ID      string    // its jti, by which it can be revoked; empty: it has none
	Service bool      // it is of a service, which speaks for all installs of its tenant
	Issued  time.Time // zero: it does not say
	Ends    time.Time // from then on it is refused; zero: never
}

// RevokedToken is a token whose access an operator has ended.
type RevokedToken struct {
	ID        string
	ExpiresAt Moment // from then on the token is refused by its times, and the entry is swept
	RevokedAt Moment
}

// Services is the owner of the tokens of a tenant's services. No install has its ID.
func Services(t TenantID) Owner { return Owner{t, nilUUID} }

// maxRevocation is how long a revocation is kept at most, in milliseconds.
const maxRevocation Moment = 100 * 365 * 24 * 60 * 60 * 1000

// Bounds of what an operator revokes.
const (
	MaxTokenID       = 256  // bytes of a jti
	MaxRevokedTokens = 1000 // of an install, or of a tenant's services, that have not expired
)

// ErrTokenRevoked is a token whose access an operator has ended.
var ErrTokenRevoked error = fault.New(fault.Denied, "the token has been revoked")

// ErrTokenExpired is a token that has expired while its request waited.
var ErrTokenExpired error = fault.New(fault.Denied, "the token has expired")

// Tokens keeps which tokens were revoked. The owner is an install, or Services.
type Tokens interface {
	// RevokedTokens lists the revoked tokens that have not expired, in the order of
	// the bytes of their IDs.
	RevokedTokens(ctx context.Context, o Owner, now Moment) ([]RevokedToken, error)

	// RevokeToken adds a token. One that is revoked already keeps its RevokedAt and
	// the later of both ExpiresAt. ErrInstallDeleted.
	RevokeToken(ctx context.Context, o Owner, t RevokedToken) error
}

// RevokeToken ends the access of one token: here at once, on other processes within
// a second. expires is when it is refused by its times; 0 stands for the latest
// moment that a token of now may have. It returns the entry.
func (s *Service) RevokeToken(ctx context.Context, o Owner, id string, expires Moment) (RevokedToken, error) {
	now := s.moment()
	if err := checkTokenID(id); err != nil {
		return RevokedToken{}, err
	}
	c := &s.opts.Config
	switch {
	case expires == 0:
		expires = now + Moment((c.TokenMaxLifetime + 2*c.TokenLeeway).Milliseconds())
	case expires > now+maxRevocation:
		expires = now + maxRevocation
	case expires <= now:
		return RevokedToken{}, &ValidationError{Pointer: "/expires", Reason: "must be in the future: an expired token need not be revoked"}
	}
	have, err := s.opts.Tokens.RevokedTokens(ctx, o, now)
	if err != nil {
		return RevokedToken{}, err
	}
	if len(have) >= MaxRevokedTokens {
		return RevokedToken{}, fault.Newf(fault.Quota, "%d revoked tokens have not expired yet, which is the limit: revoke the install, or rotate the signing key", len(have))
	}
	t := RevokedToken{ID: id, ExpiresAt: expires, RevokedAt: now}
	defer s.signals.notify(o)  // clients that wait for changes with this token
	defer s.installs.remove(o) // also of an error, which may have come too late
	return t, s.opts.Tokens.RevokeToken(ctx, o, t)
}

// RevokedTokens lists the revoked tokens of an install, or of Services, that have not
// expired, by ID.
func (s *Service) RevokedTokens(ctx context.Context, o Owner) ([]RevokedToken, error) {
	return s.opts.Tokens.RevokedTokens(ctx, o, s.moment())
}

func checkTokenID(id string) error {
	if id == "" || len(id) > MaxTokenID || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return &ValidationError{Pointer: "/id", Reason: "must be the jti claim of a token: 1 to 256 bytes of UTF-8 without control characters"}
	}
	return nil
}

// await waits at most d for a change that this process makes. It ends with the token:
// ErrTokenExpired and the errors of pass.
func (s *Service) await(ctx context.Context, g *Grant, made <-chan struct{}, d time.Duration) error {
	for d > 0 {
		p, err := s.pass(ctx, *g)
		if err != nil {
			return err
		}
		now := s.opts.Clock()
		step := min(d, max(p.reread.Sub(now), leastStep))
		if ends := g.Token.Ends; !ends.IsZero() {
			left := ends.Sub(now)
			if left <= 0 {
				return ErrTokenExpired
			}
			step = min(step, left)
		}
		select {
		case <-made:
			return nil
		case <-s.opts.After(step):
			d -= step
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// leastStep is the least time between two looks at whether a token is still good.
const leastStep = 50 * time.Millisecond
