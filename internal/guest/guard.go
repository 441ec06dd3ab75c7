package guest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"holdfast/internal/errcode"
)

// Guard is the condition for a change (RFC 9110, section 13.1): the change happens only if the entity tag of the list or
// entry matches. The store checks it in the change's transaction, after Begin: a repeated request gets its first answer
// even if the tag changed since. The zero value always holds.
type Guard struct {
	Match     *Tags // If-Match: nil, or it must contain the current tag
	NoneMatch *Tags // If-None-Match: nil, or it must not contain the current tag
}

// Tags are a condition's entity tags.
type Tags struct {
	Any  bool     // any tag: the list or entry exists
	Tags []string // without quotes
}

// match reports whether t contains tag. tag is "" if there is no entry.
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

// Tag returns an entry's entity tag, which every change to the entry changes. It is "" unless the entry is live.
func (w *Wish) Tag() string {
	if !w.isLive() {
		return ""
	}
	return tagOf(*w)
}

// ListTag returns a wishlist's entity tag, which every change to its entries changes. live is the whole list, in
// Store.Wishes order. An empty list has a tag, too: every session has a list.
func ListTag(live []Wish) string {
	if live == nil {
		live = []Wish{} // the same list, but JSON has null for nil
	}
	return tagOf(live)
}

// tagOf hashes a value. Equal content means equal tags: if a change was undone, the client need not decide again.
func tagOf(value any) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(value) // strings, numbers and times can always be encoded
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}
