package guest

import (
	"context"
	"encoding/json"
	"time"
)

// Hot is session and request state that may be lost. Missing state is not an error. While the store is unavailable,
// methods return errcode.Unavailable, even if the operation took effect; see Degraded.Without.
//
// Methods are safe for concurrent use. They neither change nor keep slices in parameters. Slices in results may be
// shared: callers must not change them.
type Hot interface {
	HotSessions
	HotMirror
	HotAnswers
	HotLimits
}

// HotSessions stores sessions, their lists and their searches. All methods but PutSearch and DropSession extend the
// lives of the session, its lists and its mirror.
type HotSessions interface {
	// Session reads a session, applies change and notes the use. A missing session starts at the time in its ID,
	// without preferences.
	Session(ctx context.Context, id ID, change Change) (Session, error)

	// PutAttributes replaces a session's attributes if their version is still was ("" without attributes). A missing
	// session starts, as in Session.
	PutAttributes(ctx context.Context, id ID, was string, next Attributes) (stored bool, err error)

	// Push puts an item at the front of a list. It removes a previous item with the same key, and a full list's last
	// item.
	Push(ctx context.Context, id ID, list List, item Item) error

	// Items returns a list, latest first.
	Items(ctx context.Context, id ID, list List) ([]Item, error)

	// PutSearch stores a search for SearchLife.
	PutSearch(ctx context.Context, s Search) error

	// Search returns found = false for a search that expired or was dropped. The caller compares Search.Session.
	Search(ctx context.Context, id ID) (s Search, found bool, err error)

	// DropSession deletes a session, its lists, its mirror and the given searches, not atomically. Blocks of the mirror
	// stay. It deletes searches whatever their session is; nil deletes none.
	DropSession(ctx context.Context, id ID, searches []ID) error
}

// Session is a guest's state, as Hot keeps it.
type Session struct {
	ID       ID
	Created  time.Time // in milliseconds, as in the ID
	LastSeen time.Time // previous use, in milliseconds
	Preferences
	Attributes Attributes // only with Change.ReadAttributes
}

// Preferences are a guest's settings and the latest campaign that brought the guest here. "" means unset.
type Preferences struct {
	Locale   string // BCP 47, e.g. de-AT
	Currency string
	Campaign string // JSON object
}

// Change replaces the preferences that are not nil.
type Change struct {
	Locale   *string `json:"locale"`
	Currency *string `json:"currency"`
	Campaign *string `json:"-"`

	ReadAttributes bool   `json:"-"`
	KnownVersion   string `json:"-"` // skips reading attributes of this version; "": always read
}

// Hot state lifetimes.
const (
	SessionLife = 30 * 24 * time.Hour // since the last use
	SearchLife  = time.Hour
)

// List names a list in a session.
type List string

// Session lists.
const (
	RecentlyViewed List = "recent"
	SearchHistory  List = "history"
)

// Most returns the maximum length, in items: 25 searches, and 50 in any other list.
func (l List) Most() int {
	if l == SearchHistory {
		return 25
	}
	return 50
}

// Item is an element of a list.
type Item struct {
	Key   string          `json:"key"` // unique in the list, without spaces
	Value json.RawMessage `json:"value"`
}

// Search is a query that a guest may continue.
type Search struct {
	ID      ID
	Session ID
	Query   json.RawMessage // as the client sent it
	Created time.Time       // in milliseconds
}

// HotMirror caches whole wishlists. Storing a copy requires a lease and an unchanged wishlist, so slow readers and
// crashed writers never leave an old copy behind.
type HotMirror interface {
	// Mirror reads a wishlist copy. If it is missing and nobody else fills or blocks it, the caller gets a lease and
	// should fill it. Mirror extends lives like HotSessions.
	Mirror(ctx context.Context, id ID) (m Mirror, err error)

	// FillMirror stores a copy if the lease is still valid. Otherwise it does nothing.
	FillMirror(ctx context.Context, id ID, lease string, wishes json.RawMessage) error

	// BlockMirror deletes the copy and all leases before the wishlist changes. Blocks are counted, so that a finished
	// writer does not unblock another's change: the mirror stays empty until as many UnblockMirror calls, or for
	// BlockLife after the last block. It extends lives like HotSessions.
	BlockMirror(ctx context.Context, id ID) error

	// UnblockMirror ends a BlockMirror after the change was written, and deletes the copy.
	UnblockMirror(ctx context.Context, id ID) error

	// DropMirror deletes the copy and all leases, but not blocks.
	DropMirror(ctx context.Context, id ID) error
}

// Mirror is the state of a wishlist copy.
type Mirror struct {
	Wishes json.RawMessage // nil: no copy
	Filled time.Time       // in milliseconds
	Lease  string          // permits the caller to fill the copy; "": do not fill it
}

// Mirror lifetimes.
const (
	LeaseLife = 5 * time.Second // for reading the wishlist from the database
	BlockLife = time.Minute     // in case the writer died
)

// HotAnswers caches mutation answers in front of the database.
type HotAnswers interface {
	// ClaimAnswer reads an answer. If neither an answer nor a claim exists, owner claims it for ClaimLife.
	ClaimAnswer(ctx context.Context, key, owner string) (AnswerClaim, error)

	// PutAnswer stores an answer for MutationLife, regardless of claims.
	PutAnswer(ctx context.Context, key string, digest [32]byte, a StoredAnswer) error

	// ReleaseAnswer ends owner's claim without an answer, so that a retry need not wait. It does nothing to an answer, or to
	// another owner's claim. owner is unique for each request.
	ReleaseAnswer(ctx context.Context, key, owner string) error

	// DropAnswers deletes answers, e.g. when a session is erased.
	DropAnswers(ctx context.Context, keys []string) error
}

// AnswerClaim is an answer's state: claimed by the caller, claimed by another caller, or done.
type AnswerClaim struct {
	Claimed bool // by the caller
	Done    bool
	Digest  [32]byte // of the request, if Done
	Answer  StoredAnswer
}

// ClaimLife limits how long duplicates wait for a process that died.
const ClaimLife = 30 * time.Second

// HotLimits implements rate limits with the store's clock.
type HotLimits interface {
	// Take takes a token from each bucket. The result has an element for each bucket, in the same order. Empty buckets
	// refuse; the others still lose a token.
	Take(ctx context.Context, buckets []Bucket) ([]Taken, error)
}
