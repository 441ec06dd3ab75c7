package tokenserver

import "holdfast/internal/fault"

// Reason is why somebody is not let in, in the protocol's distinctions: a
// browser acts on them (asks for the password again, fetches a new access
// token, waits for its keys).
type Reason uint8

// The reasons.
const (
	BadCredentials   Reason = iota // the access token, or a key id of the wrong form
	BadKeyID                       // no key id, or one that is no text
	BadClientState                 // keys that do not follow on those that were seen
	BadGeneration                  // a token from before the account's last change
	BadKeysChangedAt               // a time of the keys that does not follow on those that were seen
	NotAdmitted                    // the operator does not have this account here
)

var reasons = [...]string{
	"invalid-credentials", "invalid-key-id", "invalid-client-state",
	"invalid-generation", "invalid-keysChangedAt", "new-users-disabled",
}

// String is the reason as the protocol spells it.
func (r Reason) String() string { return reasons[r] }

// Refusal is the answer to a sign-in that is not let in. Its code is
// fault.Denied.
type Refusal struct {
	Reason Reason
	Detail string // the protocol's words, where it has more than the reason
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

// FaultCode implements fault.Coder.
func (r *Refusal) FaultCode() fault.Code { return fault.Denied }
