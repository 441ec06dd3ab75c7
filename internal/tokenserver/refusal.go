package tokenserver

import "holdfast/internal/errcode"

// Reason is why the protocol refuses a sign-in.
type Reason uint8

// Reasons.
const (
	BadCredentials   Reason = iota // invalid access token, or malformed key ID
	BadKeyID                       // missing key ID, or not text
	BadClientState                 // keys that do not follow the known keys
	BadGeneration                  // token from before the account's last change
	BadKeysChangedAt               // key time that does not fit the known keys or the token
	NotAdmitted
)

var reasons = [...]string{
	"invalid-credentials", "invalid-key-id", "invalid-client-state",
	"invalid-generation", "invalid-keysChangedAt", "new-users-disabled",
}

// String returns the protocol's status.
func (r Reason) String() string { return reasons[r] }

// Refusal is a refused sign-in. Its error code is errcode.Denied.
type Refusal struct {
	Reason Reason
	Detail string // protocol message, if more specific
	Cause  error  // for logs; never contains a token
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

// Is matches any Refusal with the same reason.
func (r *Refusal) Is(target error) bool {
	other, ok := target.(*Refusal)
	return ok && other.Reason == r.Reason
}

// ErrorCode returns errcode.Denied.
func (r *Refusal) ErrorCode() errcode.Code { return errcode.Denied }
