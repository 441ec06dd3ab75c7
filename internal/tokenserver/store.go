package tokenserver

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// Store stores the accounts, their storage users and the nodes. Every method is one atomic
// operation. Every method with an Account returns errcode.Denied if Account.Check does.
//
// Other processes may write the tables services, nodes and users at any time, so a store
// must not cache them. Operations of this service on one account are serialized across all
// processes.
//
// Any method may return errcode.Unavailable if the engine is unavailable, its connections
// are used up, or its disk is full.
//
// The suite in storetest tests this contract.
type Store interface {
	Users
	Nodes
	Admission
	Labels

	// Ping checks that the engine is available and has the schema that this binary needs.
	// The error is errcode.Unavailable.
	Ping(ctx context.Context) error
}

// Users is the table users.
type Users interface {
	// SignIn reads the account, applies Decide and writes the plan: the node, the row, the
	// replacement of older rows. It returns the current user. Errors: *Refusal, ErrNoNode.
	// With an error it writes nothing, except that it records an account that is
	// NotAdmitted without being on the deny list.
	SignIn(ctx context.Context, a Account, s SignIn) (User, error)

	// AccountState returns the stored state of an account with its newest MaxUsers rows.
	// An unknown account has no rows and is Unlisted.
	AccountState(ctx context.Context, a Account) (AccountState, error)

	// ListUsers returns at most limit rows with a UID greater than after, ordered by UID.
	// It includes replaced rows only if replaced is set.
	ListUsers(ctx context.Context, after int64, limit int, replaced bool) ([]User, error)

	// FindUsers returns at most limit rows that are not replaced of accounts whose ID begins
	// with prefix, ordered by User.Email: those with a greater one than after, or the first
	// ones if that is "". The prefix has 1 to 31 lower-case hexadecimal digits, otherwise the
	// error is errcode.Invalid.
	FindUsers(ctx context.Context, prefix, after string, limit int) ([]User, error)

	// Replace marks all rows of an account as replaced at now and returns the number of
	// rows that were not. The account may sign in again as another storage user. With
	// retire all rows also get the generation Retired, and then it may not, until its rows
	// are cleaned up; its label is deleted.
	Replace(ctx context.Context, a Account, now time.Time, retire bool) (int, error)

	// Delete sets the generation of all rows of an account to Deleted, marks unreplaced
	// rows as replaced at now, deletes its label, and returns all rows, newest first.
	Delete(ctx context.Context, a Account, now time.Time) ([]User, error)

	// Revoked returns the users whose unexpired tokens are revoked: all users of accounts
	// that are Denied, and users whose account was deleted since the given time, here or at
	// the accounts server.
	Revoked(ctx context.Context, since time.Time) (Revoked, error)

	// ChangePassword raises the generation of the unreplaced rows of an account, so that
	// tokens from before the change are refused. It never lowers a generation. It returns
	// the number of changed rows.
	ChangePassword(ctx context.Context, a Account, generation int64) (int, error)

	// Due returns at most limit due rows after the row after, longest replaced first. It
	// skips rows on a node that is down, because nothing can be deleted there.
	Due(ctx context.Context, d Deadlines, after DueUser, limit int) ([]DueUser, error)

	// Forget deletes a row if it is replaced, and with the last row of an account that is neither
	// Allowed nor Denied its label. It is not an error if the row is not replaced or does not exist.
	Forget(ctx context.Context, uid int64) error

	// SkipUIDs makes new users skip the next n UIDs; see SkippedUIDs.
	SkipUIDs(ctx context.Context, n int64) error
}

// SkippedUIDs returns how many UIDs a restored database skips. After its data was copied, the lost server may have assigned
// them to new users, who have tokens and data on the nodes. The number grows with the age of the copy, so a second restore of
// the same copy skips those that the first restored server has assigned.
func SkippedUIDs(age time.Duration) int64 { return 1_000_000 + 1000*int64(age/time.Second) }

// Deadlines define which rows are due: those that were replaced before these times.
type Deadlines struct {
	Replaced time.Time // for rows in general
	Deleted  time.Time // for rows with the generation Deleted; not before Replaced
}

// DueUser is a replaced row whose storage is to be deleted.
type DueUser struct {
	User

	// KeysLive means that the unreplaced row of the account has the same key ID. In a
	// storage that is keyed by account and key ID, as on Spanner, the data is then in use.
	KeysLive bool
}

// Nodes is the table nodes.
type Nodes interface {
	// ListNodes returns all nodes, ordered by ID.
	ListNodes(ctx context.Context) ([]Node, error)

	// AddNode adds a node and returns it with its ID. It returns errcode.Conflict if the URL
	// exists.
	AddNode(ctx context.Context, n Node) (Node, error)

	// EnsureNode adds a node unless its URL exists.
	EnsureNode(ctx context.Context, n Node) (added bool, err error)

	// EnsureFirstNode adds a node if no call of this method has found or added one before.
	// So an operator can remove all nodes.
	EnsureFirstNode(ctx context.Context, n Node) (added bool, err error)

	// SetNode changes the node with this URL and returns it. The error is errcode.NotFound
	// if it does not exist.
	SetNode(ctx context.Context, url string, c NodeChange) (Node, error)
}

// NodeChange is a change of a node; nil fields stay unchanged.
type NodeChange struct {
	Available, Capacity *int64
	Downed, Backoff     *bool
}

// Admission decides which accounts may sign in.
type Admission interface {
	// SetAccess sets the rule of an account, Allowed or Denied with a note, or removes it
	// with Unlisted. It also removes the account from the refused ones. It returns
	// errcode.Invalid if Rule.Check does.
	SetAccess(ctx context.Context, a Account, r Rule, now time.Time) error

	// ListAccess returns at most limit rules of accounts with an ID greater than after,
	// ordered by ID.
	ListAccess(ctx context.Context, after string, limit int) ([]Rule, error)

	// Refused returns at most limit accounts that were not admitted, most recent first.
	Refused(ctx context.Context, limit int) ([]Refused, error)
}

// Rule is a row of the table account_access.
type Rule struct {
	FxAUID    string
	Access    Access
	Note      string // of the operator, at most MaxNote bytes
	CreatedAt int64  // ms since 1970
}

// MaxNote is the maximum length of a Rule's note in bytes.
const MaxNote = 255

// Refused is a row of the table refused_sign_ins.
type Refused struct {
	FxAUID   string
	FirstAt  int64 // ms since 1970
	LastAt   int64 // ms since 1970
	Attempts int64
}

// MaxRefused is the maximum number of rows in the table refused_sign_ins. A new row
// replaces the one that was refused longest ago. Without the limit, the millions of
// accounts of the accounts server could fill the table.
const MaxRefused = 1000

// Check returns errcode.Invalid for a note that the table cannot store.
func (r Rule) Check() error {
	if len(r.Note) > MaxNote || !utf8.ValidString(r.Note) || strings.ContainsRune(r.Note, 0) {
		return errcode.Newf(errcode.Invalid, "a note must be text of at most %d bytes", MaxNote)
	}
	return nil
}
