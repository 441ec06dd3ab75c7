package guest

import (
	"context"
	"encoding/json"
	"time"
)

// Hot is the hot state of sessions and their requests: it may be lost at any time.
type Hot interface {
	HotSessions
	HotMirror
	HotAnswers
	HotLimits
}

// HotSessions are sessions, with their lists and their searches.
type HotSessions interface {
	// Session reads a session, after it has changed what change has. A session that is not
	// there begins at the time in its ID, without preferences. The life of the session, its
	// lists and its mirror is extended.
	Session(ctx context.Context, id ID, change Change) (Session, error)

	// PutAttributes replaces the attributes of a session if they still have a version; "" is the version of a session
	// without attributes. It extends lives as Session does.
	PutAttributes(ctx context.Context, id ID, was string, next Attributes) (stored bool, err error)

	// Push puts an item first in a list. An item with the same key is removed, and so is
	// the last one if the list is full. It extends lives as Session does.
	Push(ctx context.Context, id ID, list List, item Item) error

	// Items reads a list, newest first. It extends lives as Session does.
	Items(ctx context.Context, id ID, list List) ([]Item, error)

	// PutSearch stores a search session for SearchLife.
	PutSearch(ctx context.Context, s Search) error

	// Search reads a search session.
	Search(ctx context.Context, id ID) (s Search, found bool, err error)

	// DropSession deletes a session, its lists, its mirror, and the search sessions in
	// searches. It is not atomic.
	DropSession(ctx context.Context, id ID, searches []ID) error
}

// Session is the state of a session.
type Session struct {
	ID       ID
	Created  time.Time // to the millisecond, as in the ID
	LastSeen time.Time // when it was read or changed before; to the millisecond
	Preferences
	Attributes Attributes // with Change.ReadAttributes
}

// Preferences are what a guest has chosen, and what has brought the guest here. Empty:
// nothing.
type Preferences struct {
	Locale   string // BCP 47, such as de-AT
	Currency string // ISO 4217, such as EUR
	Campaign string // JSON object; the last one
}

// Change replaces those preferences that are not nil.
type Change struct {
	Locale   *string `json:"locale"`
	Currency *string `json:"currency"`
	Campaign *string `json:"-"`

	ReadAttributes bool   `json:"-"` // read the attributes, too
	KnownVersion   string `json:"-"` // of attributes whose value is not read; "": none
}

// Lives of hot state.
const (
	SessionLife = 30 * 24 * time.Hour // since the last use
	SearchLife  = time.Hour
)

// List is a list of a session.
type List string

// The lists.
const (
	RecentlyViewed List = "recent"
	SearchHistory  List = "history"
)

// Most returns how many items a list has at most.
func (l List) Most() int {
	if l == SearchHistory {
		return 25
	}
	return 50
}

// Item is an item of a list.
type Item struct {
	Key   string // without spaces; identifies it in its list
	Value json.RawMessage
}

// Search is a search session: a query that a guest may continue.
type Search struct {
	ID      ID
	Session ID
	Query   json.RawMessage
	Created time.Time // to the millisecond
}

// HotMirror has copies of whole wishlists. A copy is only ever stored by the caller that
// got the lease for it, and only if nothing has changed the wishlist since: readers that
// are slow, and writers that do not come to their end, leave no old copy behind.
type HotMirror interface {
	// Mirror reads the copy of a session's wishlist. If there is none, and nobody else fills
	// or blocks it, the caller gets a lease and should. It extends lives as Session does.
	Mirror(ctx context.Context, id ID) (m Mirror, err error)

	// FillMirror stores the copy if the lease is still valid.
	FillMirror(ctx context.Context, id ID, lease string, wishes json.RawMessage) error

	// BlockMirror deletes the copy before a change of the wishlist, and all leases. There is
	// none until UnblockMirror was called as often, or for BlockLife after the last block: a
	// writer that ends does not unblock what another one has blocked. It extends lives as
	// Session does.
	BlockMirror(ctx context.Context, id ID) error

	// UnblockMirror ends one block after the change.
	UnblockMirror(ctx context.Context, id ID) error

	// DropMirror deletes the copy, and all leases. What is blocked stays so.
	DropMirror(ctx context.Context, id ID) error
}

// Mirror is the result of HotMirror.Mirror.
type Mirror struct {
	Wishes json.RawMessage // nil: there is no copy
	Filled time.Time       // of the copy, to the millisecond
	Lease  string          // to fill it with; "" if another caller has it
}

// Lives of the states of a mirror.
const (
	LeaseLife = 5 * time.Second
	BlockLife = time.Minute
)

// HotAnswers are the answers of mutations, in front of those in the database.
type HotAnswers interface {
	// ClaimAnswer reads the answer of a mutation. If there is none, and nobody has claimed
	// it, it is claimed for its owner, for ClaimLife.
	ClaimAnswer(ctx context.Context, key, owner string) (AnswerClaim, error)

	// PutAnswer stores an answer for MutationLife, whoever has claimed it.
	PutAnswer(ctx context.Context, key string, digest [32]byte, a StoredAnswer) error

	// ReleaseAnswer ends a claim of the owner.
	ReleaseAnswer(ctx context.Context, key, owner string) error

	// DropAnswers deletes answers.
	DropAnswers(ctx context.Context, keys []string) error
}

// AnswerClaim is the result of ClaimAnswer: the caller has claimed the answer, or somebody else
// has, or there is an answer.
type AnswerClaim struct {
	Claimed bool
	Done    bool
	Digest  [32]byte // of the request that was answered, with Done
	Answer  StoredAnswer
}

// ClaimLife is how long the owner of a claim may take.
const ClaimLife = 30 * time.Second

// HotLimits counts. Its clock is that of the store.
type HotLimits interface {
	// Take takes a token from each of the buckets. A bucket without tokens refuses, and the
	// others still lose theirs.
	Take(ctx context.Context, buckets []Bucket) ([]Taken, error)
}
