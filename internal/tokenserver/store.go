package tokenserver

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// Store stores accounts, their storage users, and nodes. Methods are atomic. Those with an Account return the error of
// Account.Check.
//
// Other processes may write the tables services, nodes and users, so stores must not cache them. Operations on an
// account are serialized across processes. Methods are safe for concurrent use. They neither change nor keep slices and
// pointers in parameters; results belong to the caller. A list with a limit is over when it returns fewer; limit 0
// returns nothing, and "" or 0 as the place to continue means from the start.
//
// Methods return errcode.Unavailable if the engine is unavailable, or out of connections or disk space, or if ctx ends.
// Package storetest defines the contract.
type Store interface {
	Users
	Nodes
	Admission
	Labels

	// Ping returns errcode.Unavailable if the database is unreachable or its schema has another version.
	Ping(ctx context.Context) error
}

// Users stores the rows of the table users. A row is a storage user: an account with particular keys on a node.
type Users interface {
	// SignIn applies Decide and writes the plan. It returns the current user, *Refusal or ErrNoNode. After an error
	// nothing is written except the record of an account that is NotAdmitted and not denied. It may read without a lock
	// first; the decision that is written is made under the account's lock.
	SignIn(ctx context.Context, a Account, s SignIn) (User, error)

	// AccountState reads the newest MaxUsers rows. Unknown accounts are Unlisted and have no rows.
	AccountState(ctx context.Context, a Account) (AccountState, error)

	// ListUsers returns at most limit rows after a UID, by UID. It omits replaced rows unless replaced is set.
	ListUsers(ctx context.Context, after int64, limit int, replaced bool) ([]User, error)

	// FindUsers returns at most limit unreplaced rows by account ID prefix, ordered by User.Email, after an email. It
	// returns errcode.Invalid unless the prefix is 1 to 31 lower-case hex digits.
	FindUsers(ctx context.Context, prefix, after string, limit int) ([]User, error)

	// Replace marks an account's rows as replaced and returns how many were not yet replaced. The account may sign in
	// again as another storage user. If retire is set, Replace also sets the generation Retired, deletes the label,
	// and forbids sign-ins until the rows are cleaned up. For an unknown account it returns 0.
	Replace(ctx context.Context, a Account, now time.Time, retire bool) (int, error)

	// Delete sets the generation Deleted on an account's rows, marks unreplaced rows as replaced, deletes the label,
	// and returns all rows, newest first, also those that were replaced or deleted before; none for an unknown account.
	Delete(ctx context.Context, a Account, now time.Time) ([]User, error)

	// Revoked returns the users whose unexpired tokens are revoked, because their account is Denied, or was deleted
	// since the given time.
	Revoked(ctx context.Context, since time.Time) (Revoked, error)

	// ChangePassword raises the generation of an account's unreplaced rows, and returns how many changed. Rows with the
	// same or a greater generation stay.
	ChangePassword(ctx context.Context, a Account, generation int64) (int, error)

	// Due returns at most limit due rows after a row, longest replaced first, except rows on nodes that are down. Of after,
	// only ReplacedAt and UID count.
	Due(ctx context.Context, d Deadlines, after DueUser, limit int) ([]DueUser, error)

	// Forget deletes a replaced row. It does nothing for an unknown UID, or if the row is not replaced. With the last row of
	// an Unlisted account, it also deletes the label.
	Forget(ctx context.Context, uid int64) error

	// SkipUIDs makes new users skip n UIDs, at least 0; see SkippedUIDs.
	SkipUIDs(ctx context.Context, n int64) error
}

// SkippedUIDs returns how many UIDs a restored database skips: the lost server may have assigned them after the
// backup.
func SkippedUIDs(age time.Duration) int64 { return 1_000_000 + 1000*int64(age/time.Second) }

// Deadlines contains two times: rows that were replaced or deleted before them are due for cleanup. Rows from exactly
// that millisecond are not.
type Deadlines struct {
	Replaced time.Time
	Deleted  time.Time // for rows with generation Deleted; not before Replaced, so both must be set
}

// DueUser is a replaced row whose data is to be deleted.
type DueUser struct {
	User

	// KeysLive means that the account's unreplaced row has the same key ID. In a storage keyed by account and key ID,
	// as on Spanner, the data is then in use.
	KeysLive bool
}

// Nodes stores the storage nodes and their counters.
type Nodes interface {
	// ListNodes lists by ID.
	ListNodes(ctx context.Context) ([]Node, error)

	// AddNode returns the node with its ID, which it chooses, or errcode.Conflict if the URL exists.
	AddNode(ctx context.Context, n Node) (Node, error)

	// EnsureNode adds a node unless the URL exists; then it changes nothing.
	EnsureNode(ctx context.Context, n Node) (added bool, err error)

	// EnsureFirstNode adds a node only once in the lifetime of the tables, so that operators can remove all nodes.
	EnsureFirstNode(ctx context.Context, n Node) (added bool, err error)

	// SetNode changes a node and returns it. It returns errcode.NotFound if no node has this URL. It does not compare
	// Available with Capacity.
	SetNode(ctx context.Context, url string, c NodeChange) (Node, error)
}

// NodeChange changes a node. nil fields leave the setting unchanged. Counters are accounts; see Node.
type NodeChange struct {
	Available, Capacity *int64
	Downed, Backoff     *bool
}

// Admission decides which accounts may sign in.
type Admission interface {
	// SetAccess sets an account's rule, or removes it if the rule is Unlisted, and removes its recorded refusals. The label
	// stays, except a profile's label of an Unlisted account that never signed in. Of r, only Access and Note count; the rule
	// is for a and from now. It returns the error of Rule.Check.
	SetAccess(ctx context.Context, a Account, r Rule, now time.Time) error

	// FindAccounts returns at most limit account IDs that begin with a prefix, ordered by ID: those of all storage users,
	// rules, refusals and labels. It returns errcode.Invalid as FindUsers does.
	FindAccounts(ctx context.Context, prefix string, limit int) ([]string, error)

	// ListAccess returns at most limit rules after an account ID, ordered by ID.
	ListAccess(ctx context.Context, after string, limit int) ([]Rule, error)

	// Refused returns at most limit accounts that were not admitted, most recent first. Only the latest MaxRefused are kept;
	// an older refusal is deleted with the profile's label, unless the account is listed or has rows.
	Refused(ctx context.Context, limit int) ([]Refused, error)
}

// Rule is an operator's decision about an account.
type Rule struct {
	FxAUID    string // set by ListAccess
	Access    Access
	Note      string // for operators
	CreatedAt int64  // ms since 1970, set by ListAccess
}

// MaxNote limits a Rule's note, in bytes.
const MaxNote = 255

// Refused is an account that was not admitted.
type Refused struct {
	FxAUID   string
	FirstAt  int64 // ms since 1970
	LastAt   int64 // ms since 1970
	Attempts int64
}

// MaxRefused limits refused_sign_ins, which strangers could otherwise fill.
const MaxRefused = 1000

// Check returns errcode.Invalid for a note that cannot be stored.
func (r Rule) Check() error {
	if len(r.Note) > MaxNote || !utf8.ValidString(r.Note) || strings.ContainsRune(r.Note, 0) {
		return errcode.Newf(errcode.Invalid, "a note must be text with at most %d bytes", MaxNote)
	}
	return nil
}
