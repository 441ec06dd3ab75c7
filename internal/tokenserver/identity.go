package tokenserver

import (
	"context"
	"time"

	"holdfast/internal/fault"
)

// Scope is what an access token must be good for.
const Scope = "https://identity.mozilla.com/apps/oldsync"

// Identity is what a verified access token says.
type Identity struct {
	FxAUID     string
	Generation Mark
}

// ErrAccountsAway is the answer when neither keys nor a verdict can be had
// from the accounts server. It is not the browser's fault: a refusal would
// make it ask for the password.
var ErrAccountsAway error = fault.New(fault.Unavailable, "the accounts server is unavailable")

// Verifier judges what the accounts server has signed. Its errors are
// *Refusal with BadCredentials and ErrAccountsAway.
type Verifier interface {
	// AccessToken verifies the bearer token of a sign-in, its Scope included.
	AccessToken(ctx context.Context, token string) (Identity, error)

	// Events verifies a security event token and returns what it reports.
	Events(ctx context.Context, token string) ([]Event, error)
}

// Event is something that happened to an account.
type Event struct {
	Kind   EventKind
	FxAUID string
	At     int64 // PasswordChanged: when, in ms since 1970
}

// EventKind is what happened.
type EventKind uint8

// The kinds.
const (
	OtherEvent      EventKind = iota // nothing that concerns us
	AccountDeleted                   // the account is gone for good
	PasswordChanged                  // tokens from before are void
)

var eventKinds = [...]string{"other", "account_deleted", "password_changed"}

// String is the kind as it stands in logs and metrics.
func (k EventKind) String() string { return eventKinds[k] }

// generation is the least generation that is accepted after the event, which is
// reported at now: the token of the change itself bears the very moment. A change that
// is reported for the future counts as of now, or no token would be accepted until then.
func (e Event) generation(now time.Time) int64 { return max(min(e.At, millis(now))-1, 0) }
