package tokenserver

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/fault"
)

// Store keeps the accounts, their storage users and the nodes. Every method is
// one step that happens whole or not at all, and every method that takes an
// Account refuses what Account.Check refuses, with fault.Denied.
//
// The tables services, nodes and users may be written by other processes at
// any time, so nothing of them outlives a step. What two steps of this service do
// to one account happens one after the other, in however many processes.
//
// Any method may fail with fault.Unavailable when the engine is away, its
// connections are used up, or its disk is full.
//
// The contract is the suite in storetest.
type Store interface {
	Users
	Nodes
	Admission

	// Ping reaches the engine and finds the schema that this binary needs, or
	// says with fault.Unavailable what is missing.
	Ping(ctx context.Context) error
}

// Users is the table users.
type Users interface {
	// SignIn looks up the account, applies Decide, and writes what it plans: a
	// place on a node, the row, the replacement of older rows. A refused
	// account that was NotAdmitted, and is not Denied by name, is recorded.
	// *Refusal, ErrNoNode; nothing else is written then.
	SignIn(ctx context.Context, a Account, s SignIn) (User, error)

	// AccountState is what the tables say of an account, with its newest MaxUsers
	// rows. An account that nobody has heard of has none and is Unlisted.
	AccountState(ctx context.Context, a Account) (AccountState, error)

	// ListUsers is a page of the table: at most limit rows with a UID greater
	// than after, in their order; replaced rows only when asked for.
	ListUsers(ctx context.Context, after int64, limit int, replaced bool) ([]User, error)

	// Replace marks all rows of an account as replaced at now and returns how
	// many were not. The account may come back, as another storage user. With
	// retire they get the generation Retired too: then it may not, until its
	// rows are cleaned up.
	Replace(ctx context.Context, a Account, now time.Time, retire bool) (int, error)

	// Delete gives all rows of an account the generation Deleted, marks those that
	// are not replaced as replaced at now, and returns all of them, the newest
	// first.
	Delete(ctx context.Context, a Account, now time.Time) ([]User, error)

	// Revoked returns whose tokens are refused though they have not expired: the
	// accounts that are Denied, and the storage users whose account was deleted,
	// here or at the accounts server, since a moment.
	Revoked(ctx context.Context, since time.Time) (Revoked, error)

	// ChangePassword lifts the generation of an account's unreplaced rows, so
	// that tokens from before the change are refused; it never lowers it. It
	// returns how many rows it lifted.
	ChangePassword(ctx context.Context, a Account, generation int64) (int, error)

	// Due is a page of the rows that are due, at most limit of them behind after,
	// longest replaced first. Rows on a node that is down are left out: nothing
	// can be deleted there.
	Due(ctx context.Context, d Deadlines, after DueUser, limit int) ([]DueUser, error)

	// Forget deletes a row that is replaced; a row that is not, or that is not
	// there, stays as it is.
	Forget(ctx context.Context, uid int64) error
}

// Deadlines say which rows are due: those that were replaced before a moment.
type Deadlines struct {
	Replaced time.Time // of rows in general
	Deleted  time.Time // of rows with the generation Deleted; not before Replaced
}

// DueUser is a replaced row whose storage is to be deleted.
type DueUser struct {
	User

	// KeysLive: the account's unreplaced row has the same key id. A storage
	// that is keyed by account and key id, as on Spanner, then keeps under it
	// what is in use.
	KeysLive bool
}

// Nodes is the table nodes.
type Nodes interface {
	// ListNodes is all nodes by id.
	ListNodes(ctx context.Context) ([]Node, error)

	// AddNode adds a node and returns it with its id. fault.Conflict when its
	// URL is there already.
	AddNode(ctx context.Context, n Node) (Node, error)

	// EnsureNode adds a node unless its URL is there, and says whether it did.
	EnsureNode(ctx context.Context, n Node) (added bool, err error)

	// EnsureFirstNode adds a node if the table has never had one that this
	// method saw, and says whether it did: an operator who has removed all
	// nodes does not get one back.
	EnsureFirstNode(ctx context.Context, n Node) (added bool, err error)

	// SetNode changes what a node takes: Capacity, Available, Downed and
	// Backoff, of the node with this URL. fault.NotFound.
	SetNode(ctx context.Context, url string, c NodeChange) (Node, error)
}

// NodeChange is what an operator changes of a node; nil stays as it is.
type NodeChange struct {
	Available, Capacity *int64
	Downed, Backoff     *bool
}

// Admission is who may have an account here.
type Admission interface {
	// SetAccess lists an account as Allowed or Denied, with the operator's
	// note, or with Unlisted takes it off the list. Either way it is no longer
	// among the refused. What Rule.Check refuses is fault.Invalid.
	SetAccess(ctx context.Context, a Account, r Rule, now time.Time) error

	// ListAccess is a page of the list: at most limit rules of accounts with
	// an id greater than after, in their order.
	ListAccess(ctx context.Context, after string, limit int) ([]Rule, error)

	// Refused is the accounts that were not admitted, at most limit, the last
	// refused first.
	Refused(ctx context.Context, limit int) ([]Refused, error)
}

// Rule is a row of the table account_access.
type Rule struct {
	FxAUID    string
	Access    Access
	Note      string // the operator's, at most MaxNote bytes
	CreatedAt int64  // ms since 1970
}

// MaxNote is the length of a Rule's note in bytes.
const MaxNote = 255

// Refused is a row of the table refused_sign_ins.
type Refused struct {
	FxAUID   string
	FirstAt  int64 // ms since 1970
	LastAt   int64 // ms since 1970
	Attempts int64
}

// MaxRefused is how many accounts the table refused_sign_ins holds; one more
// pushes out the one that was refused the longest ago. Whoever has an account
// at the accounts server can get into it, and these are millions.
const MaxRefused = 1000

// Check refuses, with fault.Invalid, a note that the table cannot hold.
func (r Rule) Check() error {
	if len(r.Note) > MaxNote || !utf8.ValidString(r.Note) || strings.ContainsRune(r.Note, 0) {
		return fault.Newf(fault.Invalid, "a note must be text of at most %d bytes", MaxNote)
	}
	return nil
}
