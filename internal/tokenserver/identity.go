package tokenserver

import (
	"context"
	"time"

	"holdfast/internal/errcode"
)

// Scope is required in access tokens.
const Scope = "https://identity.mozilla.com/apps/oldsync"

// Identity is the content of a verified access token.
type Identity struct {
	FxAUID     string
	Generation Mark

	Email      string // from the token or its verification, if known
	ReadsEmail bool   // a scope allows asking the profile server
}

// ErrAccountsUnavailable means that the accounts server did not answer. It is not a refusal, because browsers would
// then ask for the password.
var ErrAccountsUnavailable error = errcode.New(errcode.Unavailable, "the accounts server is unavailable")

// Verifier verifies tokens from the accounts server. Its methods return a *Refusal with BadCredentials, or
// ErrAccountsUnavailable. It is safe for concurrent use.
type Verifier interface {
	// AccessToken verifies a browser's OAuth token.
	AccessToken(ctx context.Context, token string) (Identity, error)

	// Email asks the profile server for the address of the token's user.
	Email(ctx context.Context, token string) (string, error)

	// Events verifies a security event token and returns its events.
	Events(ctx context.Context, token string) ([]Event, error)
}

// Event is an account event from the accounts server.
type Event struct {
	Kind   EventKind
	FxAUID string
	At     int64 // set for PasswordChanged only: ms since 1970
}

type EventKind uint8

// Event kinds.
const (
	OtherEvent EventKind = iota // irrelevant here
	AccountDeleted
	PasswordChanged
)

var eventKinds = [...]string{"other", "account_deleted", "password_changed"}

// String returns the name in metrics.
func (k EventKind) String() string { return eventKinds[k] }

// generation returns the minimum generation of valid tokens after the event: one below the event's time, because the
// change itself has that time as its generation. A future time counts as now, because otherwise no token would be
// accepted until then.
func (e Event) generation(now time.Time) int64 { return max(min(e.At, millis(now))-1, 0) }
