package storetest

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/guest"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

func guardChecks() []check {
	return []check{{"Tags", tags}, {"Guards", guards}, {"Repeats", guardedRepeats}, {"OneWins", oneWins}}
}

// guarded is a change with a guard.
type guarded struct {
	name string
	list bool // the guard is about the list; otherwise about the entry
	do   func(u *user, m guest.Mutation) (replayed bool, err error)
}

// guardedSteps are all wishlist changes, to the item with the number standing.
func guardedSteps() []guarded {
	return []guarded{
		{"AddWish", true, func(u *user, m guest.Mutation) (bool, error) {
			o, err := u.addWish(m, u.wish(standing+1))
			return o.Replayed, err
		}},
		{"ChangeWish", false, func(u *user, m guest.Mutation) (bool, error) {
			o, err := u.h.Store.ChangeWish(u.t.Context(), guest.ChangeWish{Mutation: m, Item: u.item(standing), Note: new("guarded"), Event: newEvent()})
			return o.Replayed, err
		}},
		{"RemoveWish", false, func(u *user, m guest.Mutation) (bool, error) {
			o, err := u.h.Store.RemoveWish(u.t.Context(), guest.RemoveWish{Mutation: m, Item: u.item(standing), Event: newEvent()})
			return o.Replayed, err
		}},
		{"Clear", true, func(u *user, m guest.Mutation) (bool, error) {
			o, err := u.h.Store.Clear(u.t.Context(), guest.Clear{Mutation: m})
			return o.Replayed, err
		}},
		{"LinkUser", true, func(u *user, m guest.Mutation) (bool, error) {
			l := newLink(u, "user-"+ident.New())
			l.Mutation = m
			o, err := u.h.Store.LinkUser(u.t.Context(), l)
			return o.Replayed, err
		}},
	}
}

func (u *user) listTag() string {
	u.t.Helper()
	return guest.ListTag(u.wishes(guest.MaxWishes))
}

// tagOf returns the tag of the item's entry, or "".
func (u *user) tagOf(item string) string {
	u.t.Helper()
	all := u.wishes(guest.MaxWishes)
	i := slices.IndexFunc(all, func(w guest.Wish) bool { return w.Item == item })
	if i < 0 {
		return ""
	}
	return all[i].Tag()
}

func (s guarded) tag(u *user) string {
	if s.list {
		return u.listTag()
	}
	return u.tagOf(u.item(standing))
}

func oneTag(tags ...string) *guest.Tags { return &guest.Tags{Tags: tags} }

var anyTag = &guest.Tags{Any: true}

// tags checks that every change gives the list and the entry new tags, and that results carry the stored tags.
func tags(_ *testing.T, u *user) {
	seen := map[string]bool{u.listTag(): true}
	fresh := func(what string, result guest.Wish) {
		u.t.Helper()
		list, entry := u.listTag(), u.tagOf(u.item(1))
		if seen[list] || entry != "" && seen[entry] {
			u.t.Errorf("%s: a tag has not changed", what)
		}
		suite.Equal(u.t, what, result.Tag(), entry)
		seen[list], seen[entry] = true, true
	}
	fresh("added", u.add(u.wish(1)))
	changed := func(what string, c guest.ChangeWish) {
		u.t.Helper()
		c.Mutation, c.Item, c.Event = u.mutation(), u.item(1), newEvent()
		o, err := u.h.Store.ChangeWish(u.t.Context(), c)
		suite.Must(u.t, what, err)
		fresh(what, o.Result.Wish)
	}
	changed("note", guest.ChangeWish{Note: new("a")})
	if u.profile == shop {
		changed("quantity", guest.ChangeWish{Quantity: 5})
		r, err := u.tryAdd(u.wish(1))
		suite.Must(u.t, "AddWish", err)
		fresh("increased", r.Wish)
	}
	u.remove(1)
	suite.Equal(u.t, "removed", u.tagOf(u.item(1)), "")
	fresh("added again", u.add(u.wish(1)))
}

// guards walks all changes with all guard kinds. A refused change has no effect.
func guards(_ *testing.T, u *user) {
	u.ring()
	for _, s := range guardedSteps() {
		for name, c := range map[string]struct {
			guard   func(tag string) guest.Guard
			holds   bool // the guard holds for a list, and for an entry that exists
			missing bool // the guard holds for a missing entry
		}{
			"no guard":          {guard: func(string) guest.Guard { return guest.Guard{} }, holds: true, missing: true},
			"right":             {guard: func(tag string) guest.Guard { return guest.Guard{Match: oneTag(tag)} }, holds: true},
			"one is right":      {guard: func(tag string) guest.Guard { return guest.Guard{Match: oneTag("stale", tag)} }, holds: true},
			"any":               {guard: func(string) guest.Guard { return guest.Guard{Match: anyTag} }, holds: true},
			"stale":             {guard: func(string) guest.Guard { return guest.Guard{Match: oneTag("stale")} }},
			"none":              {guard: func(string) guest.Guard { return guest.Guard{Match: oneTag()} }},
			"not any":           {guard: func(string) guest.Guard { return guest.Guard{NoneMatch: anyTag} }, missing: true},
			"not this":          {guard: func(tag string) guest.Guard { return guest.Guard{NoneMatch: oneTag(tag)} }, missing: true},
			"not another":       {guard: func(string) guest.Guard { return guest.Guard{NoneMatch: oneTag("stale")} }, holds: true, missing: true},
			"right, not any":    {guard: func(tag string) guest.Guard { return guest.Guard{Match: oneTag(tag), NoneMatch: anyTag} }},
			"right, not others": {guard: func(tag string) guest.Guard { return guest.Guard{Match: oneTag(tag), NoneMatch: oneTag("stale")} }, holds: true},
		} {
			for _, exists := range []bool{true, false} {
				one := u.other()
				if exists {
					one.add(one.wish(standing))
				}
				holds, tag := c.holds, s.tag(one)
				if !exists && !s.list {
					holds = c.missing
				}
				m := one.mutation()
				m.Guard = c.guard(tag)
				before := one.see()
				_, err := s.do(one, m)
				what := s.name + " with " + name
				changed, refused := errors.AsType[*guest.ChangedError](err)
				switch {
				case holds && s.name == "ChangeWish" && !exists:
					suite.Equal(u.t, what, errors.Is(err, guest.ErrNoWish), true)
				case holds:
					suite.Must(u.t, what, err)
				case !refused || changed.Tag != tag:
					u.t.Errorf("%s, exists %t: %v", what, exists, err)
				default:
					suite.Equal(u.t, what+" without effect", one.see(), before)
					m.Guard = guest.Guard{}
					if _, err := s.do(one, m); err != nil && !errors.Is(err, guest.ErrNoWish) {
						u.t.Errorf("%s: the refusal is kept for the key: %v", what, err)
					}
				}
			}
		}
	}
}

// guardedRepeats checks that a repeated request gets its answer, although the first one changed the tag.
func guardedRepeats(_ *testing.T, u *user) {
	for _, s := range guardedSteps() {
		one := u.other()
		one.add(one.wish(standing))
		m := one.mutation()
		m.Guard = guest.Guard{Match: oneTag(s.tag(one))}
		for i := range 3 {
			replayed, err := s.do(one, m)
			suite.Must(u.t, s.name, err)
			suite.Equal(u.t, s.name, replayed, i > 0)
		}
	}
}

// oneWins checks that exactly one change happens if several carry the same guard.
func oneWins(_ *testing.T, u *user) {
	for _, s := range guardedSteps() {
		one := u.other()
		one.add(one.wish(standing))
		guard := guest.Guard{Match: oneTag(s.tag(one))}
		var mu sync.Mutex
		won := 0
		var all sync.WaitGroup
		for n := range 4 {
			racer := one.racer(n)
			all.Go(func() {
				m := racer.mutation()
				m.Guard = guard
				_, err := s.do(racer, m)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					won++
				} else if !errors.Is(err, guest.ErrChanged) {
					u.t.Errorf("%s: %v", s.name, err)
				}
			})
		}
		all.Wait()
		suite.Equal(u.t, s.name, won, 1)
	}
}

// edit is a client's change. Its guard refers to the tags that the client read.
type edit struct {
	kind     string // add, set, remove or clear
	item     string
	quantity int
	most     int
	guard    string // "", right, stale, any or none
}

// listState models a list: quantities, and whether the clients' tags are still current.
type listState struct {
	rows    map[string]int
	changed map[string]bool // by item; "" for the list
}

// apply returns an edit's outcome.
func (s *listState) apply(e edit, quantities bool) string {
	of := e.item
	if e.kind == "add" || e.kind == "clear" {
		of = ""
	}
	n, live := s.rows[e.item]
	exists := of == "" || live
	switch {
	case e.guard == "right" && (!exists || s.changed[of]), e.guard == "stale", e.guard == "any" && !exists, e.guard == "none" && exists:
		return "refused"
	case e.kind == "clear":
		for item := range s.rows {
			s.changed[item], s.changed[""] = true, true
		}
		clear(s.rows)
		return "cleared"
	case e.kind == "remove" && !live, e.kind == "set" && !live:
		return "missing"
	case e.kind == "remove":
		delete(s.rows, e.item)
	case e.kind == "set":
		if s.rows[e.item] = e.quantity; n == e.quantity {
			return "done"
		}
	case live && !quantities:
		return "kept"
	case n+e.quantity > e.most:
		return "too many"
	default:
		s.rows[e.item] = n + e.quantity
	}
	s.changed[e.item], s.changed[""] = true, true
	return "done"
}

// outcome names an edit's result like apply.
func outcome(err error, result string) string {
	_, tooMany := errors.AsType[*guest.QuantityError](err)
	switch {
	case err == nil:
		return result
	case errors.Is(err, guest.ErrChanged):
		return "refused"
	case errors.Is(err, guest.ErrNoWish):
		return "missing"
	case tooMany:
		return "too many"
	}
	return err.Error()
}

// run makes an edit. list and entry are the tags that the client read.
func (e edit) run(u *user, m guest.Mutation, list, entry string) string {
	tag := entry
	if e.kind == "add" || e.kind == "clear" {
		tag = list
	}
	m.Guard = map[string]guest.Guard{
		"": {}, "right": {Match: oneTag(tag)}, "stale": {Match: oneTag("stale")}, "any": {Match: anyTag}, "none": {NoneMatch: anyTag},
	}[e.guard]
	ctx := u.t.Context()
	switch e.kind {
	case "add":
		w := u.wish(0)
		w.Item, w.Quantity = e.item, e.quantity
		o, err := u.h.Store.AddWish(ctx, guest.AddWish{Mutation: m, Wish: w, Most: e.most, Event: newEvent()})
		if err == nil {
			err = o.Result.Err()
		}
		if o.Result.Outcome == guest.WishKept {
			return "kept"
		}
		return outcome(err, "done")
	case "set":
		c := guest.ChangeWish{Mutation: m, Item: e.item, Quantity: e.quantity, Event: newEvent()}
		_, err := u.h.Store.ChangeWish(ctx, c)
		return outcome(err, "done")
	case "remove":
		o, err := u.h.Store.RemoveWish(ctx, guest.RemoveWish{Mutation: m, Item: e.item, Event: newEvent()})
		if err == nil && !o.Result.Removed {
			return "missing"
		}
		return outcome(err, "done")
	}
	_, err := u.h.Store.Clear(ctx, guest.Clear{Mutation: m})
	return outcome(err, "cleared")
}

// twoClients lets two clients with the same view of a list change it at once: the results and the list are those of the
// two changes one after the other, in either order.
func twoClients(t *testing.T, u *user) {
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		u := *u
		u.t, u.profile = rt, rapid.SampledFrom(profiles).Draw(rt, "profile")
		one := u.other()
		m := listState{rows: map[string]int{}}
		draw := func(rt *rapid.T) edit {
			kinds := []string{"add", "add", "add", "remove", "clear"}
			if one.profile == shop {
				kinds = append(kinds, "set", "set")
			}
			return edit{
				kind: rapid.SampledFrom(kinds).Draw(rt, "kind"), item: one.item(rapid.IntRange(0, 2).Draw(rt, "item")),
				quantity: one.quantity(rapid.IntRange(1, 3).Draw(rt, "quantity")), most: one.quantity(rapid.IntRange(3, 9).Draw(rt, "most")),
				guard: rapid.SampledFrom([]string{"", "", "right", "right", "stale", "any", "none"}).Draw(rt, "guard"),
			}
		}
		return map[string]func(*rapid.T){"both": func(rt *rapid.T) {
			one.t = rt
			edits := [2]edit{draw(rt), draw(rt)}
			list, entries := one.listTag(), [2]string{one.tagOf(edits[0].item), one.tagOf(edits[1].item)}
			var got [2]string
			var all sync.WaitGroup
			for i, e := range edits {
				mutation := one.mutation()
				all.Go(func() { got[i] = e.run(one, mutation, list, entries[i]) })
			}
			all.Wait()
			rows := map[string]int{}
			for _, w := range one.wishes(guest.MaxWishes) {
				rows[w.Item] = w.Quantity
			}
			for _, order := range [][2]int{{0, 1}, {1, 0}} {
				s := listState{maps.Clone(m.rows), map[string]bool{}}
				var want [2]string
				for _, i := range order {
					want[i] = s.apply(edits[i], one.profile == shop)
				}
				if want == got && maps.Equal(s.rows, rows) {
					m.rows = rows
					return
				}
			}
			rt.Fatalf("from %v, %+v gave %v and %v: no order does", m.rows, edits, got, rows)
		}}
	})
}
