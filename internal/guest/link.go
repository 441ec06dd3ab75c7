package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// UserSession joins a browser to a site's user. All sessions of a user share a list, which belongs to a session whose
// cookie nobody holds.
type UserSession struct {
	ID     ID     // with UserSessionPrefix
	User   string // ID at the site
	List   ID     // session whose list all sessions of the user share
	Linked time.Time
	Seen   time.Time // approximate last use
}

// MergeRule says how a session's list is merged into a user's.
type MergeRule string

// The merge rules.
const (
	MergeUnion  MergeRule = "union"  // all entries; the user's entry wins
	MergeNewest MergeRule = "newest" // all entries; the entry added last wins
	MergeSum    MergeRule = "sum"    // all entries; quantities are added up
	MergeKeep   MergeRule = "keep"   // the user's list, unless it is empty
)

// MergeRules lists all rules.
var MergeRules = []MergeRule{MergeUnion, MergeNewest, MergeSum, MergeKeep}

// Link joins the mutation's session to a user.
type Link struct {
	Mutation
	User  string // verified
	Next  ID     // the user session to create
	List  ID     // used if the user is new
	Event ID     // ID for the event
}

// Linked is the result of LinkUser.
type Linked struct {
	User    string   `json:"-"` // "" if replayed, as answers outlive an erasure
	Session ID       `json:"session"`
	List    ID       `json:"list"`
	Added   int      `json:"added"` // session entries that were new to the user
	Changed int      `json:"changed"`
	Dropped int      `json:"dropped"` // session entries dropped by the rule or the size limit
	Answers []string `json:"-"`       // composite keys of the session's deleted answers; nil if replayed
}

// Decide merges two lists. kept holds rows of the user's list: live entries, and removed entries for items in moved,
// the session's live entries. The store deletes the session's list and stores put in the user's; a removed row keeps
// its ID. Decide neither changes nor keeps the slices, whose order does not matter.
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

// merge returns the merged entry, and whether to store it. user may be removed or lack an ID.
func (m MergeRule) merge(user, session Wish, maxQuantity int) (Wish, bool) {
	switch {
	case !user.isLive():
		return session, true
	case m == MergeNewest && session.Added.After(user.Added):
		return session, true
	case m == MergeSum && session.Quantity > 0 && user.Quantity < maxQuantity:
		user.Quantity = min(user.Quantity+session.Quantity, maxQuantity)
		return user, true
	}
	return user, false
}

// event returns the event without the user, because events may outlive an erasure.
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

// UserStore joins sessions to users.
type UserStore interface {
	// LinkUser merges the lists, deletes the session's list and answers, and adds a user session. It excludes
	// mutations of the user's list. The guard is about the session's list.
	LinkUser(ctx context.Context, l Link) (Once[Linked], error)

	// UserList returns a user's list if any session of the user, even an ended one, is known.
	UserList(ctx context.Context, user string) (list ID, found bool, err error)

	// UserSession returns found = false for a session that ended or never existed.
	UserSession(ctx context.Context, id ID) (s UserSession, found bool, err error)

	// UserSessions returns live sessions, ordered by ID.
	UserSessions(ctx context.Context, q UserSessionQuery) ([]UserSession, error)

	// EndUserSessions ends the selected sessions and returns their number. Lists stay.
	EndUserSessions(ctx context.Context, e EndUserSessions) (int, error)
}

// UserSessionQuery selects a page of sessions.
type UserSessionQuery struct {
	User  string // "" for all users
	After ID     // exclusive; "" means from the start
	Limit int    // at least 1
}

// EndUserSessions selects sessions by user, by session, or both. The zero value selects none.
type EndUserSessions struct {
	User    string // "": the session of any user; without a session nobody's
	Session ID     // "": all of the user's
	Except  ID     // a session to keep, or ""; without effect if Session is set
}
