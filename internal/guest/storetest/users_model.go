package storetest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

// userMachine signs users in and out at random, and compares lists and sessions with a model.
type userMachine struct {
	*user
	base     time.Time
	names    []string
	owners   map[guest.ID]*user
	rows     map[guest.ID]map[string]guest.Wish
	answers  map[guest.ID]int
	sessions []userRow
	links    map[guest.ID]linkRequest
}

type userRow struct {
	guest.UserSession
	ended bool
}

type linkRequest struct {
	guest.Link
	result guest.Linked
}

func randomUserSteps(t *testing.T, u *user) {
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t, u.profile = rt, rapid.SampledFrom(profiles).Draw(rt, "profile")
		run := ident.New()
		m := &userMachine{
			user: &u, base: clock.System().UTC().Truncate(time.Microsecond), names: []string{"a-" + run, "b-" + run}, owners: map[guest.ID]*user{},
			rows: map[guest.ID]map[string]guest.Wish{}, answers: map[guest.ID]int{}, links: map[guest.ID]linkRequest{},
		}
		for range 3 {
			m.own(m.other())
		}
		return map[string]func(*rapid.T){
			"add": m.stepAdd, "add more": m.stepAdd, "remove": m.stepRemove, "link": m.stepLink, "link more": m.stepLink, "repeat": m.stepRepeat,
			"end": m.stepEnd, "seen": m.stepSeen, "expire": m.stepExpire, "erase": m.stepErase, "": m.compare,
		}
	})
}

func (m *userMachine) own(u *user) {
	m.owners[u.session] = u
	if m.rows[u.session] == nil {
		m.rows[u.session] = map[string]guest.Wish{}
	}
}

func (m *userMachine) owner(rt *rapid.T) *user {
	o := m.owners[rapid.SampledFrom(slices.Sorted(maps.Keys(m.owners))).Draw(rt, "owner")]
	o.t = rt
	return o
}

func (m *userMachine) guest(rt *rapid.T) *user {
	for {
		o := m.owner(rt)
		if !slices.ContainsFunc(m.names, func(name string) bool { return m.list(name) == o.session }) {
			return o
		}
	}
}

func (m *userMachine) list(name string) guest.ID {
	for _, s := range m.sessions {
		if s.User == name {
			return s.List
		}
	}
	return ""
}

func (m *userMachine) stepAdd(rt *rapid.T) {
	o := m.owner(rt)
	w := o.wish(items.Draw(rt, "item"))
	w.Quantity = o.quantity(rapid.SampledFrom([]int{1, 2, 98}).Draw(rt, "quantity"))
	w.Note = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "note")
	w.Tenant = rapid.SampledFrom([]string{tenant, tenant, tenant, second}).Draw(rt, "tenant")
	r, err := o.tryAdd(w)
	before, exists := m.rows[o.session][w.Item]
	_, tooMany := errors.AsType[*guest.QuantityError](err)
	if err == nil || tooMany || errors.Is(err, guest.ErrOtherTenant) {
		m.answers[o.session]++
	}
	switch {
	case exists && before.Tenant != w.Tenant:
		if !errors.Is(err, guest.ErrOtherTenant) {
			rt.Fatalf("AddWish of another tenant: %v", err)
		}
	case exists && before.Removed.IsZero() && before.Quantity+w.Quantity > o.quantity(shop.MaxQuantity):
		suite.Equal(rt, "refused", tooMany, true)
	case exists && before.Removed.IsZero():
		suite.Must(rt, "AddWish", err)
		want := guest.AddedWish{Outcome: guest.WishKept, Wish: before}
		if o.profile == shop {
			want.Outcome = guest.WishIncreased
			want.Wish.Quantity += w.Quantity
			m.rows[o.session][w.Item] = want.Wish
		}
		suite.Equal(rt, "AddWish", r, want)
	default:
		suite.Must(rt, "AddWish", err)
		w.Added, w.ID = r.Wish.Added, cmp.Or(before.ID, w.ID)
		suite.Equal(rt, "AddWish", r, guest.AddedWish{Outcome: guest.WishAdded, Wish: w})
		m.rows[o.session][w.Item] = w
	}
}

func (m *userMachine) stepRemove(rt *rapid.T) {
	o, n := m.owner(rt), items.Draw(rt, "item")
	w, exists := m.rows[o.session][o.item(n)]
	live := exists && w.Removed.IsZero()
	suite.Equal(rt, "removed", o.remove(n), live)
	m.answers[o.session]++
	if live {
		w.Removed = clock.System()
		m.rows[o.session][w.Item] = w
	}
}

func (m *userMachine) stepLink(rt *rapid.T) {
	o, rule := m.guest(rt), rapid.SampledFrom(guest.MergeRules).Draw(rt, "rule")
	l := newLink(o, rapid.SampledFrom(m.names).Draw(rt, "user"))
	l.Profile = merging(o.profile, rule)
	want := guest.Linked{User: l.User, Session: l.Next, List: cmp.Or(m.list(l.User), l.List)}
	if m.rows[want.List] == nil {
		m.own(o.of(want.List))
	}
	m.merge(rule, o.session, &want)
	got := o.link(l)
	suite.Equal(rt, "deleted answers", len(got.Answers), m.answers[o.session])
	want.Answers = got.Answers
	suite.Equal(rt, "Link by "+string(rule), got, want)
	m.answers[o.session] = 1 // its own answer
	m.rows[o.session] = map[string]guest.Wish{}
	want.User, want.Answers = "", nil
	m.links[o.session] = linkRequest{l, want}
	s, found, err := m.h.Store.UserSession(rt.Context(), l.Next)
	suite.Must(rt, "UserSession", err)
	suite.Equal(rt, "UserSession", found, true)
	suite.Equal(rt, "UserSession", s, guest.UserSession{ID: l.Next, User: l.User, List: want.List, Linked: s.Linked, Seen: s.Linked})
	m.sessions = append(m.sessions, userRow{UserSession: s})
	slices.SortFunc(m.sessions, func(a, b userRow) int { return cmp.Compare(a.ID, b.ID) })
}

func (m *userMachine) merge(rule guest.MergeRule, from guest.ID, r *guest.Linked) {
	list := m.rows[r.List]
	kept := rule == guest.MergeKeep && slices.ContainsFunc(slices.Collect(maps.Values(list)), func(w guest.Wish) bool { return w.Removed.IsZero() })
	for item, w := range m.rows[from] {
		if !w.Removed.IsZero() {
			continue
		}
		user, exists := list[item]
		live := exists && user.Removed.IsZero()
		merged := w
		if exists {
			merged.ID = user.ID
		}
		switch {
		case kept, exists && user.Tenant != w.Tenant:
			r.Dropped++
			continue
		case !live:
			r.Added++
		case rule == guest.MergeNewest && w.Added.After(user.Added):
			r.Changed++
		case rule == guest.MergeSum && m.profile == shop && user.Quantity < shop.MaxQuantity:
			r.Changed++
			merged = user
			merged.Quantity = min(user.Quantity+w.Quantity, shop.MaxQuantity)
		default:
			r.Dropped++
			continue
		}
		list[item] = merged
	}
}

func (m *userMachine) stepRepeat(rt *rapid.T) {
	if len(m.links) == 0 {
		rt.Skip("nobody has signed in")
	}
	r := m.links[rapid.SampledFrom(slices.Sorted(maps.Keys(m.links))).Draw(rt, "session")]
	again := newLink(m.user, r.User)
	again.Mutation = r.Mutation
	o, err := m.h.Store.LinkUser(rt.Context(), again)
	suite.Must(rt, "repeat", err)
	suite.Equal(rt, "repeated", o, guest.Once[guest.Linked]{Result: r.result, Replayed: true})
}

func (m *userMachine) stepEnd(rt *rapid.T) {
	e := guest.EndUserSessions{User: rapid.SampledFrom(m.names).Draw(rt, "user")}
	if len(m.sessions) > 0 {
		id := rapid.SampledFrom(m.sessions).Draw(rt, "session").ID
		switch rapid.IntRange(0, 2).Draw(rt, "which") {
		case 0:
			e.Session = id
		case 1:
			e.Except = id
		}
	}
	want := 0
	for i, s := range m.sessions {
		if !s.ended && s.User == e.User && (e.Session == "" || s.ID == e.Session) && s.ID != e.Except {
			m.sessions[i].ended = true
			want++
		}
	}
	n, err := m.h.Store.EndUserSessions(rt.Context(), e)
	suite.Must(rt, "EndUserSessions", err)
	suite.Equal(rt, "ended", n, want)
}

func (m *userMachine) day(rt *rapid.T) time.Time {
	return m.base.Add(time.Duration(rapid.IntRange(1, 3).Draw(rt, "day")) * hours24)
}

func (m *userMachine) stepSeen(rt *rapid.T) {
	if len(m.sessions) == 0 {
		rt.Skip("nobody has signed in")
	}
	i := rapid.IntRange(0, len(m.sessions)-1).Draw(rt, "session")
	s, at := &m.sessions[i], m.day(rt)
	suite.Must(rt, "MarkSeen", m.h.Store.MarkSeen(rt.Context(), []guest.ID{s.ID}, at))
	if s.Seen.Before(at) {
		s.Seen = at
	}
}

// stepExpire ends sessions. A user without sessions gets a new list later.
func (m *userMachine) stepExpire(rt *rapid.T) {
	before := m.day(rt)
	_, err := m.h.Store.Drop(rt.Context(), retention.JobUsers, before, retention.MaxStep)
	suite.Must(rt, "Drop", err)
	m.sessions = slices.DeleteFunc(m.sessions, func(s userRow) bool { return s.Seen.Before(before) })
}

// stepErase erases a user's list, which ends the user's sessions.
func (m *userMachine) stepErase(rt *rapid.T) {
	o := m.owner(rt)
	erased, _, err := m.h.Store.Erase(rt.Context(), o.session)
	suite.Must(rt, "Erase", err)
	suite.Equal(rt, "erased", []int{erased.Wishes, erased.Answers}, []int{len(m.rows[o.session]), m.answers[o.session]})
	m.rows[o.session], m.answers[o.session] = map[string]guest.Wish{}, 0
	delete(m.links, o.session)
	m.sessions = slices.DeleteFunc(m.sessions, func(s userRow) bool { return s.List == o.session })
}

func (m *userMachine) compare(rt *rapid.T) {
	for _, o := range m.owners {
		o.t = rt
		var want []guest.Wish
		for _, w := range m.rows[o.session] {
			if w.Removed.IsZero() {
				want = append(want, w)
			}
		}
		slices.SortFunc(want, newestFirst)
		suite.Equal(rt, "wishes", o.wishes(4), want)
	}
	for _, name := range m.names {
		list, found, err := m.h.Store.UserList(rt.Context(), name)
		suite.Must(rt, "UserList", err)
		want := m.list(name)
		suite.Equal(rt, "list of a user", list, want)
		suite.Equal(rt, "list of a user", found, want != "")
		var sessions []guest.UserSession
		for _, s := range m.sessions {
			if s.User == name && !s.ended {
				sessions = append(sessions, s.UserSession)
			}
		}
		got, err := m.h.Store.UserSessions(rt.Context(), guest.UserSessionQuery{User: name, Limit: 100})
		suite.Must(rt, "UserSessions", err)
		suite.Equal(rt, "sessions of a user", got, sessions)
	}
	for _, s := range m.sessions {
		_, found, err := m.h.Store.UserSession(rt.Context(), s.ID)
		suite.Must(rt, "UserSession", err)
		suite.Equal(rt, "session", found, !s.ended)
	}
}
