package tokenserver

import "holdfast/internal/errcode"

// Reason is why a sign-in is refused, as the protocol distinguishes it. Browsers
// react to it: they ask for the password again, fetch a new access token, or wait
// for their keys.
type Reason uint8

// Reasons.
const (
	BadCredentials   Reason = iota // invalid access token, or a malformed key ID
	BadKeyID                       // missing key ID, or one that is not text
	BadClientState                 // keys that do not follow the known ones
	BadGeneration                  // a token from before the account's last change
	BadKeysChangedAt               // a key time that does not follow the known ones
	NotAdmitted                    // the operator does not admit the account
)

var reasons = [...]string{
	"invalid-credentials", "invalid-key-id", "invalid-client-state",
	"invalid-generation", "invalid-keysChangedAt", "new-users-disabled",
}

// String returns the reason as the protocol spells it.
func (r Reason) String() string { return reasons[r] }

// Refusal is the error of a refused sign-in. Its code is errcode.Denied.
type Refusal struct {
	Reason Reason
	Detail string // the protocol's message, if it is more specific than the reason
	Cause  error  // for logs; never holds a token
}

func (r *Refusal) Error() string {
	s := r.Reason.String()
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	if r.Cause != nil {
		s += ": " + r.Cause.Error()
	}
	return s
}

func (r *Refusal) Unwrap() error { return r.Cause }

// Is reports whether target is a Refusal with the same reason.
func (r *Refusal) Is(target error) bool {
	other, ok := target.(*Refusal)
	return ok && other.Reason == r.Reason
}

// ErrorCode implements errcode.Coder.
func (r *Refusal) ErrorCode() errcode.Code { return errcode.Denied }
