package tokenserver

import (
	"context"
	"time"

	"holdfast/internal/errcode"
)

// Scope is the scope that an access token must have.
const Scope = "https://identity.mozilla.com/apps/oldsync"

// Identity holds the claims of a verified access token.
type Identity struct {
	FxAUID     string
	Generation Mark

	Email      string // of the account, if the token or its verification has it
	ReadsEmail bool   // the token has a scope with which the profile server returns the address
}

// ErrAccountsUnavailable means that the accounts server returned neither keys nor a
// verification result. It is not a refusal, because a refusal would make the browser ask
// for the password.
var ErrAccountsUnavailable error = errcode.New(errcode.Unavailable, "the accounts server is unavailable")

// Verifier verifies tokens of the accounts server. Its errors are *Refusal with
// BadCredentials, and ErrAccountsUnavailable.
type Verifier interface {
	// AccessToken verifies the bearer token of a sign-in, including its Scope.
	AccessToken(ctx context.Context, token string) (Identity, error)

	// Email asks the profile server for the address of the account of an access token.
	Email(ctx context.Context, token string) (string, error)

	// Events verifies a security event token and returns its events.
	Events(ctx context.Context, token string) ([]Event, error)
}

// Event is an event of an account.
type Event struct {
	Kind   EventKind
	FxAUID string
	At     int64 // for PasswordChanged: time in ms since 1970
}

// EventKind is the kind of an event.
type EventKind uint8

// Kinds of events.
const (
	OtherEvent      EventKind = iota // not relevant for this service
	AccountDeleted                   // the account was deleted permanently
	PasswordChanged                  // earlier tokens are no longer valid
)

var eventKinds = [...]string{"other", "account_deleted", "password_changed"}

// String returns the name of the kind in logs and metrics.
func (k EventKind) String() string { return eventKinds[k] }

// generation returns the minimum generation that is accepted after the event. It is one
// less than the time of the event, because the token of the change itself has that time. A
// time in the future counts as now; otherwise no token would be accepted until then.
func (e Event) generation(now time.Time) int64 { return max(min(e.At, millis(now))-1, 0) }
