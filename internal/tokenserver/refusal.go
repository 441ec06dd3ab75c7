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

// words explain each reason in the log of refused requests.
var words = [...]string{
	"the access token or the key ID is not valid",
	"the header X-KeyID is missing or not valid",
	"the browser's encryption keys do not follow those that the account used last",
	"the access token is from before the account's last change, such as a new password: sign in again",
	"the time of the browser's encryption keys fits neither the account's keys nor the access token",
	"the account is denied, or it is new and not allowed: see tokenserver access allow",
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
	s := r.Reason.String() + ": " + words[r.Reason]
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
