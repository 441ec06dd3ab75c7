package extstorage

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// Token is the verified token of a request.
type Token struct {
	ID      string    // the jti, for revocation; may be ""
	Service bool      // true for services, which act for all installs of the tenant
	Issued  time.Time // zero if unknown
	Ends    time.Time // expiration; zero means never
}

// RevokedToken is a token that is refused although it is not expired.
type RevokedToken struct {
	ID        string
	ExpiresAt Moment // the token's own expiry, when the entry is swept
	RevokedAt Moment
}

// Services returns the owner that stands for a tenant's services, with the nil UUID as install.
func Services(t TenantID) Owner { return Owner{t, ident.NilUUID} }

const maxRevocation Moment = 100 * 365 * 24 * 60 * 60 * 1000 // 100 years

// Revocation limits.
const (
	MaxTokenID       = 256  // bytes in a jti
	MaxRevokedTokens = 1000 // unexpired, per install or per tenant's services
)

// ErrTokenRevoked means that an operator revoked the token.
var ErrTokenRevoked error = errcode.New(errcode.Denied, "the token has been revoked")

// ErrTokenExpired means that the token expired while its request waited.
var ErrTokenExpired error = errcode.New(errcode.Denied, "the token has expired")

// Tokens stores revoked tokens. The owner is an install, or Services.
type Tokens interface {
	// RevokedTokens returns the unexpired tokens, ordered by ID bytes.
	RevokedTokens(ctx context.Context, o Owner, now Moment) ([]RevokedToken, error)

	// RevokeToken adds a token, or extends its ExpiresAt; RevokedAt stays. It does not apply MaxRevokedTokens: the Service
	// does. It returns ErrInstallDeleted after Deletions.Close.
	RevokeToken(ctx context.Context, o Owner, t RevokedToken) error
}

// RevokeToken revokes a token until its own expiry; 0 means the latest possible expiry of a token issued now.
func (s *Service) RevokeToken(ctx context.Context, o Owner, id string, expires Moment) (RevokedToken, error) {
	now := s.moment()
	if err := checkTokenID(id); err != nil {
		return RevokedToken{}, err
	}
	c := s.config.Load()
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
		return RevokedToken{}, errcode.Newf(errcode.Quota, "%d revoked tokens have not expired yet, which is the limit: revoke the install, or rotate the signing key", len(have))
	}
	t := RevokedToken{ID: id, ExpiresAt: expires, RevokedAt: now}
	defer s.signals.notify(o) // wake clients waiting for changes with this token
	defer s.installs.remove(o)
	return t, s.opts.Tokens.RevokeToken(ctx, o, t)
}

// RevokedTokens lists unexpired revoked tokens.
func (s *Service) RevokedTokens(ctx context.Context, o Owner) ([]RevokedToken, error) {
	return s.opts.Tokens.RevokedTokens(ctx, o, s.moment())
}

// checkTokenID validates a jti.
func checkTokenID(id string) error {
	if id == "" || len(id) > MaxTokenID || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return &ValidationError{Pointer: "/id", Reason: "must be a token's jti claim: 1 to 256 bytes of UTF-8 without control characters"}
	}
	return nil
}

// await waits for a change or until d is over. It checks the grant again whenever the cached registration is too old,
// so a revocation ends the wait within a second.
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

// leastStep keeps a wait from checking in a loop.
const leastStep = 50 * time.Millisecond
