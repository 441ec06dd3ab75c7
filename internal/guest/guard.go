package guest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"holdfast/internal/errcode"
)

// Guard is the condition of a change (RFC 9110, section 13.1): the change happens only if the list or entry that it
// changes has the expected entity tag. The store checks it in the transaction of the change, after Begin: a repeated
// request gets its answer even if the tag has changed since. The zero value always holds.
type Guard struct {
	Match     *Tags // If-Match: nil, or the current tag is one of these
	NoneMatch *Tags // If-None-Match: nil, or the current tag is none of these
}

// Tags are the entity tags of a condition.
type Tags struct {
	Any  bool     // any tag: the list or entry exists
	Tags []string // without quotes
}

// match reports whether tag is one of these. tag is "" if there is no entry.
func (t *Tags) match(tag string) bool {
	return tag != "" && (t.Any || slices.Contains(t.Tags, tag))
}

// IsZero reports whether the guard always holds.
func (g Guard) IsZero() bool { return g == Guard{} }

// Check returns *ChangedError unless the guard holds for the current tag, which is "" if there is no entry.
func (g Guard) Check(tag string) error {
	if g.Match != nil && !g.Match.match(tag) || g.NoneMatch != nil && g.NoneMatch.match(tag) {
		return &ChangedError{tag}
	}
	return nil
}

// ErrChanged means that a guard does not hold.
var ErrChanged = errcode.New(errcode.Conflict, "the wishlist or entry does not match the condition: read it again")

// ChangedError is ErrChanged with the current tag, "" if there is no entry.
type ChangedError struct{ Tag string }

func (e *ChangedError) Error() string { return ErrChanged.Error() }

func (e *ChangedError) Unwrap() error { return ErrChanged }

// Tag returns the entity tag of an entry, which every change of the entry changes. It is "" unless the entry is live.
func (w *Wish) Tag() string {
	if !w.isLive() {
		return ""
	}
	return tagOf(*w)
}

// ListTag returns the entity tag of a wishlist, which every change of its entries changes. live is the whole list, in the
// order of Store.Wishes. An empty list has a tag, too: every session has a list.
func ListTag(live []Wish) string { return tagOf(append([]Wish{}, live...)) } // nil is the same list as an empty slice

// tagOf hashes a value. Equal content has equal tags: a change that was undone needs no new decision of the client.
func tagOf(value any) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(value) // strings, numbers and times always have an encoding
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}
