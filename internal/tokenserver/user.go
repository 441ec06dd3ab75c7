package tokenserver

import (
	"math"
	"time"
)

// ServiceName is the only service in the table services.
const ServiceName = "sync-1.5"

// Retired is the generation of an account deleted by the accounts server. No token contains it.
const Retired = math.MaxInt64

// Deleted is the generation of rows whose account the operator deleted. Decide ignores these rows; Cleanup deletes
// data that was written with their tokens since then.
const Deleted = -1

// MaxUsers is how many of an account's newest rows are read. Older keys are unknown.
const MaxUsers = 20

// User is a row in users: an account's current or former storage user.
type User struct {
	UID           int64 // never reused
	Email         string
	Generation    int64 // ms by the accounts server's clock; or Deleted or Retired
	ClientState   string
	CreatedAt     int64 // ms since 1970
	Replaced      bool
	ReplacedAt    int64 // ms since 1970, if Replaced
	NodeID        int64
	KeysChangedAt Mark

	Node string // URL, or "" if the node does not exist
}

func (u *User) Account() Account { return accountOf(u.Email) }

func (u *User) IsDeleted() bool { return u.Generation == Deleted }

func (u *User) KeyID() KeyID { return KeyID{u.KeysChangedAt, u.ClientState} }

// needsNode reports whether an operator moved the account, by replacing its row without a successor, or its node does
// not exist.
func (u *User) needsNode() bool { return u.Replaced || u.Node == "" }

type Access uint8

// Access values.
const (
	Unlisted Access = iota // allow_new_users decides
	Allowed                // may sign in, even as a new account
	Denied                 // may not sign in, even with a row
)

// String returns the value in account_access, which has no Unlisted.
func (a Access) String() string {
	switch a {
	case Allowed:
		return "allow"
	case Denied:
		return "deny"
	}
	return "unlisted"
}

// ParseAccess parses the result of String. Unknown values are Denied, because they must not allow an account.
func ParseAccess(s string) Access {
	switch s {
	case "allow":
		return Allowed
	case "unlisted":
		return Unlisted
	}
	return Denied
}

func millis(t time.Time) int64 { return t.UnixMilli() }
