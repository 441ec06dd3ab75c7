package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// UserSession joins a browser to a user of the site. All sessions of a user have one list: what the
// user keeps is that of a session whose cookie nobody has.
type UserSession struct {
	ID     ID // with UserSessionPrefix
	User   string
	List   ID // a session
	Linked time.Time
	Seen   time.Time // about when the last request came
}

// MergeRule says what becomes of the list of a session that is joined to a user.
type MergeRule string

// The merge rules.
const (
	MergeUnion  MergeRule = "union"  // entries of both; the user's entry of an item that is in both
	MergeNewest MergeRule = "newest" // likewise, but of an item that is in both, the entry that was added last
	MergeSum    MergeRule = "sum"    // likewise, but quantities of an item that is in both are added up
	MergeKeep   MergeRule = "keep"   // the user's list, unless it is empty
)

// MergeRules are all merge rules.
var MergeRules = []MergeRule{MergeUnion, MergeNewest, MergeSum, MergeKeep}

// Link is a request to join the session of the mutation to a user.
type Link struct {
	Mutation
	User  string
	Next  ID // ID of the new session of the user
	List  ID // the list of a user who has none
	Event ID // ID of the event that the session was linked
}

// Linked is the result of Link.
type Linked struct {
	User    string   `json:"-"`       // an answer outlives an erasure; "" if it was replayed
	Session ID       `json:"session"` // of the user
	List    ID       `json:"list"`
	Added   int      `json:"added"`   // entries of the session that were new to the user
	Changed int      `json:"changed"` // entries of the user
	Dropped int      `json:"dropped"` // entries of the session that did not fit, or not by the rule
	Answers []string `json:"-"`       // composite keys of the deleted answers of the session; none if it was replayed
}

// Decide merges two lists. list is that of the user, and kept has its rows: all live entries, and removed ones of
// items that are live entries of the session, which moved has. The store deletes what the session has, and stores the
// entries in put with the list; a removed row of an item keeps its ID.
func (l *Link) Decide(list ID, kept, moved []Wish, now time.Time) (r Linked, put []Wish, e Event, err error) {
	r = Linked{User: l.User, Session: l.Next, List: list}
	rule := l.Profile.site().merge()
	users := map[string]Wish{}
	live := 0
	for _, w := range kept {
		users[w.Item] = w
		if w.isLive() {
			live++
		}
	}
	if rule == MergeKeep && live > 0 {
		r.Dropped, moved = len(moved), nil
	}
	moved = slices.SortedFunc(slices.Values(moved), func(a, b Wish) int { return cmp.Or(b.Added.Compare(a.Added), cmp.Compare(a.ID, b.ID)) })
	for _, w := range moved {
		user, found := users[w.Item]
		merged, changes := rule.merge(user, w, l.Profile.maxQuantity())
		switch {
		case found && user.isLive() && !changes, found && user.Tenant != w.Tenant, !user.isLive() && live == MaxWishes:
			r.Dropped++
			continue
		case user.isLive():
			r.Changed++
		default:
			r.Added++
			live++
		}
		if user.ID != "" {
			merged.ID = user.ID
		}
		put = append(put, merged)
	}
	e, err = l.event(r, now)
	return r, put, e, err
}

// merge returns the entry of an item that a user and a session have. user may be removed or have no ID. It
// reports whether the user's list changes.
func (m MergeRule) merge(user, session Wish, most int) (Wish, bool) {
	switch {
	case !user.isLive():
		return session, true
	case m == MergeNewest && session.Added.After(user.Added):
		return session, true
	case m == MergeSum && session.Quantity > 0 && user.Quantity < most:
		user.Quantity = min(user.Quantity+session.Quantity, most)
		return user, true
	}
	return user, false
}

// event returns the event of a link. It does not have the user: an event may outlive an erasure.
func (l *Link) event(r Linked, now time.Time) (Event, error) {
	payload, err := json.Marshal(struct {
		SessionID ID  `json:"sessionId"`
		FormerID  ID  `json:"formerSessionId"`
		Added     int `json:"added"`
		Changed   int `json:"changed"`
		Dropped   int `json:"dropped"`
	}{r.List, l.Session, r.Added, r.Changed, r.Dropped})
	if err != nil {
		return Event{}, errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	return Event{ID: l.Event, Type: l.Profile.EventType("session.linked.v1"), Subject: string(r.List), Retention: Operational, Payload: payload, At: now}, nil
}

// UserStore stores the sessions of users.
type UserStore interface {
	// LinkUser joins a session to a user: it merges the lists, deletes the list and the answers of the session, and adds a
	// session of the user. It is a mutation, and excludes those of the user's list.
	LinkUser(ctx context.Context, l Link) (Once[Linked], error)

	// UserList returns the list of a user, if a session of the user is known, also one that has ended.
	UserList(ctx context.Context, user string) (list ID, found bool, err error)

	// UserSession returns a session of a user that has not ended.
	UserSession(ctx context.Context, id ID) (s UserSession, found bool, err error)

	// UserSessions returns sessions that have not ended, by their IDs.
	UserSessions(ctx context.Context, q UserSessionQuery) ([]UserSession, error)

	// EndUserSessions ends sessions, and returns their number.
	EndUserSessions(ctx context.Context, e EndUserSessions) (int, error)
}

// UserSessionQuery selects sessions of users.
type UserSessionQuery struct {
	User  string // "": of all users
	After ID     // only later ones
	Limit int
}

// EndUserSessions selects the sessions to end. It has a user, a session, or both.
type EndUserSessions struct {
	User    string
	Session ID // "": all of the user
	Except  ID // ""; or one of the user's that goes on
}
