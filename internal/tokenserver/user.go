package tokenserver

import (
	"math"
	"time"
)

// ServiceName is the only service there is, in the table services.
const ServiceName = "sync-1.5"

// Retired is the generation of an account that the accounts server has
// deleted. No token reaches it.
const Retired = math.MaxInt64

// Deleted is the generation of a row whose account the operator has deleted. It
// is no state of the account: Decide ignores the row. The row stays for Cleanup,
// which deletes again what the tokens of the storage user have written since.
const Deleted = -1

// MaxUsers is how many of an account's newest rows are looked at. Keys older
// than that are forgotten, as they are when the rows are cleaned up.
const MaxUsers = 20

// User is a row of the table users: a storage user that an account is, or was.
type User struct {
	UID           int64 // the storage user; never used twice
	Email         string
	Generation    int64
	ClientState   string
	CreatedAt     int64 // ms since 1970
	Replaced      bool
	ReplacedAt    int64 // ms since 1970, when Replaced
	NodeID        int64
	KeysChangedAt Mark

	Node string // the URL of the node, from the table nodes; "" when there is none
}

// Account is whose row it is.
func (u *User) Account() Account { return accountOf(u.Email) }

// IsDeleted reports whether the operator has deleted the row's account.
func (u *User) IsDeleted() bool { return u.Generation == Deleted }

// KeyID is the id of the keys that the row was made for.
func (u *User) KeyID() KeyID { return KeyID{u.KeysChangedAt, u.ClientState} }

// homeless reports whether the account needs a place: its row was replaced
// without a successor, which is how an operator moves an account, or its node
// is gone.
func (u *User) homeless() bool { return u.Replaced || u.Node == "" }

// Access is what the operator has said of an account.
type Access uint8

// The accesses.
const (
	Unlisted Access = iota // the setting allow_new_users decides
	Allowed                // may come, also as a new account
	Denied                 // may not, also when it has a row
)

// String is the access as the table account_access spells it; Unlisted is not
// in it.
func (a Access) String() string {
	switch a {
	case Allowed:
		return "allow"
	case Denied:
		return "deny"
	}
	return "unlisted"
}

// ParseAccess reads what String wrote; anything else is Denied, because a word
// that a foreign hand wrote into the table must not let anybody in.
func ParseAccess(s string) Access {
	switch s {
	case "allow":
		return Allowed
	case "unlisted":
		return Unlisted
	}
	return Denied
}

// millis is a moment as the table users has it.
func millis(t time.Time) int64 { return t.UnixMilli() }
