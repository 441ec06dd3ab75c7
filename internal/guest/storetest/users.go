package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

func userChecks() []check {
	return []check{{"Link", link}, {"LinkOnce", linkOnce}, {"LinkFull", linkFull}, {"LinkConcurrently", linkConcurrently}, {"LinkRevives", linkRevives}, {"UserSessions", userSessions}, {"EraseUser", eraseUser}}
}

func newLink(u *user, name string) guest.Link {
	now := clock.System()
	return guest.Link{Mutation: u.mutation(), User: name, Next: guest.NewID(guest.UserSessionPrefix, now), List: guest.NewID(guest.SessionPrefix, now), Event: newEvent()}
}

func (u *user) link(l guest.Link) guest.Linked {
	u.t.Helper()
	o, err := u.h.Store.LinkUser(u.t.Context(), l)
	r, err := first(u, o, err)
	suite.Must(u.t, "Link", err)
	return r
}

func (u *user) of(list guest.ID) *user {
	return &user{t: u.t, h: u.h, session: list, profile: u.profile}
}

func (u *user) items() (all []string) {
	u.t.Helper()
	for _, w := range u.wishes(guest.MaxWishes) {
		all = append(all, u.number(w.Item)+w.Note)
	}
	return all
}

func merging(p *guest.Profile, rule guest.MergeRule) *guest.Profile {
	if p == nil {
		p = guest.Hotel
	}
	changed := *p
	changed.Merge = rule
	return &changed
}

func link(_ *testing.T, u *user) {
	name := "user-" + ident.New()
	id := u.add(u.wish(1)).ID
	u.add(u.wish(2))
	u.remove(2)
	l := newLink(u, name)
	r := u.link(l)
	suite.Equal(u.t, "first", r, guest.Linked{User: name, Session: l.Next, List: l.List, Added: 1, Answers: r.Answers})
	suite.Equal(u.t, "deleted answers", len(r.Answers), 3)
	suite.Equal(u.t, "list of the session", u.items(), nil)
	list := u.of(r.List)
	suite.Equal(u.t, "list of the user", list.items(), []string{"1"})
	suite.Equal(u.t, "the entry keeps its ID", list.wishes(10)[0].ID, id)
	events := u.h.Events(u.t, r.List)
	suite.Equal(u.t, "event", string(events[0].Payload), fmt.Sprintf(`{"sessionId":"%s","formerSessionId":"%s","added":1,"changed":0,"dropped":0}`, r.List, u.session))

	other := u.other()
	other.add(other.wish(3))
	other.add(other.wish(1))
	_, err := other.note(1, "other")
	suite.Must(u.t, "note", err)
	second := other.link(newLink(other, name))
	suite.Equal(u.t, "second", second, guest.Linked{User: name, Session: second.Session, List: r.List, Added: 1, Dropped: 1, Answers: second.Answers})
	suite.Equal(u.t, "both", list.items(), []string{"3", "1"})

	newer := u.other()
	newer.add(newer.wish(1))
	_, err = newer.note(1, "newer")
	suite.Must(u.t, "note", err)
	m := newLink(newer, name)
	m.Profile = merging(u.profile, guest.MergeNewest)
	suite.Equal(u.t, "changed", newer.link(m).Changed, 1)
	suite.Equal(u.t, "newest", list.items(), []string{"1newer", "3"})
	suite.Equal(u.t, "still the ID", list.wishes(1)[0].ID, id)

	found, ok, err := u.h.Store.UserList(u.t.Context(), name)
	suite.Must(u.t, "UserList", err)
	suite.Equal(u.t, "UserList", ok, true)
	suite.Equal(u.t, "UserList", found, r.List)
	_, ok, err = u.h.Store.UserList(u.t.Context(), name+"x")
	suite.Must(u.t, "UserList", err)
	suite.Equal(u.t, "UserList of nobody", ok, false)
}

func linkOnce(_ *testing.T, u *user) {
	u.add(u.wish(1))
	l := newLink(u, "user-"+ident.New())
	r := u.link(l)
	u.of(r.List).remove(1)
	again := newLink(u, l.User)
	again.Mutation = l.Mutation
	again.Denied = guest.ErrUserToken // the token has expired since
	o, err := u.h.Store.LinkUser(u.t.Context(), again)
	suite.Must(u.t, "again", err)
	r.User, r.Answers = "", nil
	suite.Equal(u.t, "again", o, guest.Once[guest.Linked]{Result: r, Replayed: true})
	suite.Equal(u.t, "list", u.of(r.List).items(), nil)
	denied := newLink(u, l.User)
	denied.Denied = guest.ErrUserToken
	_, err = u.h.Store.LinkUser(u.t.Context(), denied)
	suite.Equal(u.t, "denied", errors.Is(err, guest.ErrUserToken), true)
	empty := u.link(newLink(u, l.User))
	suite.Equal(u.t, "a session that was linked before has nothing left", empty.Added+empty.Changed+empty.Dropped, 0)
}

// linkFull checks that a session's latest entries fill up the user's list.
func linkFull(_ *testing.T, u *user) {
	name := "user-" + ident.New()
	for n := range 60 {
		u.add(u.wish(n))
	}
	r := u.link(newLink(u, name))
	suite.Equal(u.t, "added", r.Added, 60)
	other := u.other()
	for n := 40; n < 110; n++ {
		other.add(other.wish(n))
	}
	second := other.link(newLink(other, name))
	suite.Equal(u.t, "added", second.Added, 40)
	suite.Equal(u.t, "dropped", second.Dropped, 30)
	all := u.of(r.List).wishes(200)
	suite.Equal(u.t, "entries", len(all), guest.MaxWishes)
	suite.Equal(u.t, "the newest", all[0].Item, u.item(109))
}

func linkConcurrently(_ *testing.T, u *user) {
	name := "user-" + ident.New()
	const n = 6
	lists := make([]guest.ID, n)
	var all sync.WaitGroup
	for i := range n {
		one := u.other()
		one.add(one.wish(i))
		all.Go(func() {
			lists[i] = one.link(newLink(one, name)).List
			owner := one.of(lists[i])
			owner.keys = 100 * (i + 1) // all owners share a list, so their keys must differ
			owner.add(owner.wish(50 + i))
		})
	}
	all.Wait()
	for _, list := range lists {
		suite.Equal(u.t, "list", list, lists[0])
	}
	suite.Equal(u.t, "entries", len(u.of(lists[0]).wishes(100)), 2*n)
	sessions, err := u.h.Store.UserSessions(u.t.Context(), guest.UserSessionQuery{User: name, Limit: 100})
	suite.Must(u.t, "UserSessions", err)
	suite.Equal(u.t, "sessions", len(sessions), n)
}

func linkRevives(_ *testing.T, u *user) {
	name := "user-" + ident.New()
	id := u.add(u.wish(1)).ID
	list := u.of(u.link(newLink(u, name)).List)
	list.remove(1)
	other := u.other()
	other.add(other.wish(1))
	foreign := other.wish(2)
	foreign.Tenant = second
	other.add(foreign)
	suite.Equal(u.t, "added", other.link(newLink(other, name)).Added, 2)
	for _, w := range list.wishes(10) {
		suite.Equal(u.t, "ID of "+w.Item, w.ID == id, w.Item == u.item(1))
	}
	third := u.other()
	third.add(third.wish(2))
	suite.Equal(u.t, "dropped", third.link(newLink(third, name)).Dropped, 1)
}

func userSessions(_ *testing.T, u *user) {
	ctx, name := u.t.Context(), "user-"+ident.New()
	var ids []guest.ID
	var list guest.ID
	for range 4 {
		one := u.other()
		r := one.link(newLink(one, name))
		ids, list = append(ids, r.Session), r.List
	}
	slices.Sort(ids)
	get := func(id guest.ID) (guest.UserSession, bool) {
		s, found, err := u.h.Store.UserSession(ctx, id)
		suite.Must(u.t, "UserSession", err)
		return s, found
	}
	sessions := func(q guest.UserSessionQuery) (found []guest.ID) {
		all, err := u.h.Store.UserSessions(ctx, q)
		suite.Must(u.t, "UserSessions", err)
		for _, s := range all {
			found = append(found, s.ID)
		}
		return found
	}
	end := func(e guest.EndUserSessions) int {
		n, err := u.h.Store.EndUserSessions(ctx, e)
		suite.Must(u.t, "EndUserSessions", err)
		return n
	}
	s, found := get(ids[0])
	suite.Equal(u.t, "found", found, true)
	suite.Equal(u.t, "session", s, guest.UserSession{ID: ids[0], User: name, List: list, Linked: s.Linked, Seen: s.Linked})
	_, found = get(guest.NewID(guest.UserSessionPrefix, clock.System()))
	suite.Equal(u.t, "unknown", found, false)
	tomorrow := s.Linked.Add(hours24)
	suite.Must(u.t, "MarkSeen", u.h.Store.MarkSeen(ctx, []guest.ID{ids[0], list}, tomorrow))
	suite.Must(u.t, "MarkSeen", u.h.Store.MarkSeen(ctx, []guest.ID{ids[0]}, s.Linked))
	s, _ = get(ids[0])
	suite.Equal(u.t, "seen", s.Seen, tomorrow)

	suite.Equal(u.t, "page", sessions(guest.UserSessionQuery{User: name, After: ids[0], Limit: 2}), ids[1:3])
	suite.Equal(u.t, "of all", sessions(guest.UserSessionQuery{After: ids[0], Limit: 1}) != nil, true)
	suite.Equal(u.t, "of another", end(guest.EndUserSessions{User: name + "x", Session: ids[1]}), 0)
	suite.Equal(u.t, "one", end(guest.EndUserSessions{User: name, Session: ids[1]}), 1)
	suite.Equal(u.t, "again", end(guest.EndUserSessions{Session: ids[1]}), 0)
	suite.Equal(u.t, "nobody's", end(guest.EndUserSessions{}), 0)
	_, found = get(ids[1])
	suite.Equal(u.t, "ended", found, false)
	suite.Equal(u.t, "others", end(guest.EndUserSessions{User: name, Except: ids[2]}), 2)
	suite.Equal(u.t, "left", sessions(guest.UserSessionQuery{User: name, Limit: 10}), []guest.ID{ids[2]})
	suite.Equal(u.t, "all", end(guest.EndUserSessions{User: name}), 1)
	one := u.other()
	suite.Equal(u.t, "the list outlives the sessions", one.link(newLink(one, name)).List, list)
}

func eraseUser(_ *testing.T, u *user) {
	name := "user-" + ident.New()
	u.add(u.wish(1))
	r := u.link(newLink(u, name))
	_, _, err := u.h.Store.Erase(u.t.Context(), r.List)
	suite.Must(u.t, "Erase", err)
	_, found, err := u.h.Store.UserSession(u.t.Context(), r.Session)
	suite.Must(u.t, "UserSession", err)
	suite.Equal(u.t, "session", found, false)
	suite.Equal(u.t, "rows with the user", u.h.Find(u.t, name), map[string]int{})
	other := u.other()
	if list := other.link(newLink(other, name)).List; list == r.List {
		u.t.Error("the user has the erased list")
	}
}

func dropUsers(_ *testing.T, u *user) {
	r := u.link(newLink(u, "user-"+ident.New()))
	s, _, err := u.h.Store.UserSession(u.t.Context(), r.Session)
	suite.Must(u.t, "UserSession", err)
	suite.Equal(u.t, "young", u.drop(retention.JobUsers, s.Seen, 100), 0)
	suite.Equal(u.t, "old", u.drop(retention.JobUsers, s.Seen.Add(time.Microsecond), 100), 1)
}
