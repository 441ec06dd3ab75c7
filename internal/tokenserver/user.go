package tokenserver

import (
	"math"
	"time"
)

// ServiceName is the only service in the table services.
const ServiceName = "sync-1.5"

// Retired is the generation of an account that the accounts server has deleted. No token
// has this generation.
const Retired = math.MaxInt64

// Deleted is the generation of a row whose account the operator has deleted. Decide
// ignores the row. It stays for Cleanup, which deletes the data that tokens of the storage
// user have written since.
const Deleted = -1

// MaxUsers is how many of the newest rows of an account are read. Older keys count as
// unknown, as they do when the rows are cleaned up.
const MaxUsers = 20

// User is a row of the table users: a current or former storage user of an account.
type User struct {
	UID           int64 // ID of the storage user; never reused
	Email         string
	Generation    int64
	ClientState   string
	CreatedAt     int64 // ms since 1970
	Replaced      bool
	ReplacedAt    int64 // ms since 1970, if Replaced
	NodeID        int64
	KeysChangedAt Mark

	Node string // URL of the node, from the table nodes; "" if the node does not exist
}

// Account returns the account of the row.
func (u *User) Account() Account { return accountOf(u.Email) }

// IsDeleted reports whether the operator has deleted the row's account.
func (u *User) IsDeleted() bool { return u.Generation == Deleted }

// KeyID returns the ID of the keys of the row.
func (u *User) KeyID() KeyID { return KeyID{u.KeysChangedAt, u.ClientState} }

// needsNode reports whether the account needs a new node: its row was replaced without a
// successor, which is how an operator moves an account, or its node does not exist.
func (u *User) needsNode() bool { return u.Replaced || u.Node == "" }

// Access is the rule of the operator for an account.
type Access uint8

// Values of Access.
const (
	Unlisted Access = iota // the setting allow_new_users decides
	Allowed                // may sign in, also as a new account
	Denied                 // may not sign in, even if it has a row
)

// String returns the value in the table account_access, which has no Unlisted.
func (a Access) String() string {
	switch a {
	case Allowed:
		return "allow"
	case Denied:
		return "deny"
	}
	return "unlisted"
}

// ParseAccess parses a result of String. Anything else is Denied: an unknown value in the
// table must not allow an account.
func ParseAccess(s string) Access {
	switch s {
	case "allow":
		return Allowed
	case "unlisted":
		return Unlisted
	}
	return Denied
}

// millis returns a time in the unit of the table users: ms since 1970.
func millis(t time.Time) int64 { return t.UnixMilli() }
