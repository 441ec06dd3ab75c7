package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/suite"
)

func wishChecks() []check {
	return []check{
		{"AddAndList", addAndList},
		{"AddAgain", addAgain},
		{"Revive", revive},
		{"OtherTenant", otherTenant},
		{"Note", note},
		{"RemoveMissing", removeMissing},
		{"Events", wishEvents},
		{"Full", fullList},
		{"CapUnderRaces", capUnderRaces},
		{"OneRowPerProperty", oneRowPerProperty},
		{"Clear", clearAll},
		{"Sessions", sessions},
		{"FindSessions", findSessions},
		{"Text", text},
		{"WrongRows", wrongWishes},
	}
}

func findSessions(_ *testing.T, u *user) {
	find := func(prefix string, limit int) []guest.ID {
		u.t.Helper()
		found, err := u.h.Store.FindSessions(u.t.Context(), prefix, limit)
		suite.Must(u.t, "FindSessions", err)
		return found
	}
	id := string(u.session)
	suite.Equal(u.t, "without a wishlist", len(find(id, 10)), 0)
	u.add(u.wish(1))
	other := u.other()
	other.add(other.wish(1))
	suite.Equal(u.t, "by the whole ID", find(id, 10), []guest.ID{u.session})
	suite.Equal(u.t, "by all but the last digit", find(id[:len(id)-1], 10), []guest.ID{u.session})
	all := find(guest.SessionPrefix, 1000)
	if !slices.IsSorted(all) || !slices.Contains(all, u.session) || !slices.Contains(all, other.session) {
		u.t.Errorf("all sessions are %v", all)
	}
	suite.Equal(u.t, "the first one", find(guest.SessionPrefix, 1), all[:1])
	for _, prefix := range []string{id + "0", "gms_%", "gms__", "gms_z"} {
		suite.Equal(u.t, prefix, len(find(prefix, 10)), 0)
	}
}

func addAndList(_ *testing.T, u *user) {
	var want []guest.Wish
	for n := range 7 {
		w := u.wish(n)
		w.Source, w.Note = guest.Sources[n%len(guest.Sources)], strings.Repeat("ä", n)
		got := u.add(w)
		if got.Added.IsZero() {
			u.t.Error("no time")
		}
		w.Added = got.Added
		suite.Equal(u.t, "AddWish", got, w)
		want = append(want, w)
	}
	slices.SortFunc(want, newestFirst)
	for _, size := range []int{1, 2, 3, 7, 100} {
		suite.Equal(u.t, "Wishes", u.wishes(size), want)
	}
}

func newestFirst(a, b guest.Wish) int {
	return cmp.Or(b.Added.Compare(a.Added), cmp.Compare(a.ID, b.ID))
}

func addAgain(_ *testing.T, u *user) {
	first := u.add(u.wish(1))
	other := u.wish(1)
	other.Note = "other"
	r, err := u.tryAdd(other)
	suite.Must(u.t, "AddWish", err)
	want, events := guest.AddedWish{Outcome: guest.WishKept, Wish: first}, 1
	if u.profile == shop {
		first.Quantity = 2
		want, events = guest.AddedWish{Outcome: guest.WishIncreased, Wish: first}, 2
	}
	suite.Equal(u.t, "AddWish", r, want)
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), events)
	suite.Equal(u.t, "Wishes", u.wishes(10), []guest.Wish{first})
}

func revive(_ *testing.T, u *user) {
	first := u.add(u.wish(1))
	suite.Equal(u.t, "removed", u.remove(1), true)
	suite.Equal(u.t, "Wishes", len(u.wishes(10)), 0)
	suite.Equal(u.t, "removed twice", u.remove(1), false)
	w := u.wish(1)
	w.Source, w.Note = "map", "again"
	again := u.add(w)
	w.ID, w.Added = first.ID, again.Added
	suite.Equal(u.t, "revived", again, w)
	if again.Added.Before(first.Added) {
		u.t.Errorf("added %v, before %v", again.Added, first.Added)
	}
	suite.Equal(u.t, "Wishes", u.wishes(10), []guest.Wish{again})
}

func otherTenant(_ *testing.T, u *user) {
	first := u.add(u.wish(1))
	w := u.wish(1)
	w.Tenant = second
	if _, err := u.tryAdd(w); !errors.Is(err, guest.ErrOtherTenant) {
		u.t.Errorf("got %v", err)
	}
	suite.Equal(u.t, "Wishes", u.wishes(10), []guest.Wish{first})
	u.remove(1)
	m := u.mutation()
	for i := range 2 {
		o, err := u.addWish(m, w)
		suite.Must(u.t, "of a removed entry", err)
		suite.Equal(u.t, "of a removed entry", o, guest.Once[guest.AddedWish]{Result: guest.AddedWish{Outcome: guest.WishOfOtherTenant}, Replayed: i == 1})
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 2)
}

func note(_ *testing.T, u *user) {
	first := u.add(u.wish(1))
	for _, text := range []string{"a", strings.Repeat("😀", guest.MaxNote), ""} {
		w, err := u.note(1, text)
		suite.Must(u.t, "ChangeWish", err)
		first.Note = text
		suite.Equal(u.t, "ChangeWish", w, first)
		suite.Equal(u.t, "Wishes", u.wishes(10), []guest.Wish{first})
	}
	u.remove(1)
	for n := range 2 {
		if _, err := u.note(1+n, "x"); !errors.Is(err, guest.ErrNoWish) {
			u.t.Errorf("got %v", err)
		}
	}
}

func removeMissing(_ *testing.T, u *user) {
	suite.Equal(u.t, "removed", u.remove(1), false)
}

// wishEvents checks that adding, reviving and removing publish events with the change's ID and time. Changed notes
// and requests without effect publish nothing.
func wishEvents(_ *testing.T, u *user) {
	w := u.add(u.wish(1))
	if u.profile != shop {
		_, err := u.tryAdd(u.wish(1))
		suite.Must(u.t, "AddWish", err)
	}
	_, err := u.note(1, "a")
	suite.Must(u.t, "ChangeWish", err)
	u.remove(1)
	u.remove(1)
	again := u.add(u.wish(1))
	events := u.h.Events(u.t, u.session)
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Type[strings.Index(e.Type, ".wishlist.")+1:])
		suite.Equal(u.t, "subject", e.Subject, string(w.ID))
		suite.Equal(u.t, "class", e.Retention, guest.Operational)
		quantity := ""
		if u.profile == shop {
			quantity = `,"quantity":1`
		}
		suite.Equal(u.t, "payload", string(e.Payload), fmt.Sprintf(`{"sessionId":%q,"wishId":%q,"tenantId":%q,"%s":%q%s,"source":"list"}`,
			u.session, w.ID, tenant, u.profile.Member(), u.item(1), quantity))
	}
	suite.Equal(u.t, "events", kinds, []string{"wishlist.added.v1", "wishlist.removed.v1", "wishlist.added.v1"})
	suite.Equal(u.t, "times", []time.Time{events[0].At, events[2].At}, []time.Time{w.Added, again.Added})
}

// fullList also checks that removed entries do not count, and that live entries can be added again.
func fullList(_ *testing.T, u *user) {
	for n := range guest.MaxWishes {
		u.add(u.wish(n))
	}
	add := func(n int) error { _, err := u.tryAdd(u.wish(n)); return err }
	if err := add(100); !errors.Is(err, guest.ErrWishlistFull) {
		u.t.Errorf("the 101st: %v", err)
	}
	suite.Must(u.t, "a live one", add(7))
	u.remove(3)
	suite.Must(u.t, "after one was removed", add(100))
	if err := add(3); !errors.Is(err, guest.ErrWishlistFull) {
		u.t.Errorf("revived as the 101st: %v", err)
	}
	suite.Equal(u.t, "entries", len(u.wishes(1000)), guest.MaxWishes)
}

func capUnderRaces(_ *testing.T, u *user) {
	const racers, each = 8, 20
	var added, full atomic.Int64
	var all sync.WaitGroup
	for r := range racers {
		racer := u.racer(r)
		all.Go(func() {
			for n := range each {
				_, err := racer.tryAdd(racer.wish(r*each + n))
				switch {
				case err == nil:
					added.Add(1)
				case errors.Is(err, guest.ErrWishlistFull):
					full.Add(1)
				default:
					u.t.Errorf("%v", err)
				}
			}
		})
	}
	all.Wait()
	suite.Equal(u.t, "added and refused", []int64{added.Load(), full.Load()}, []int64{guest.MaxWishes, racers*each - guest.MaxWishes})
	suite.Equal(u.t, "entries", len(u.wishes(1000)), guest.MaxWishes)
}

func oneRowPerProperty(_ *testing.T, u *user) {
	var winners atomic.Int64
	var all sync.WaitGroup
	for r := range 10 {
		racer := u.racer(r)
		all.Go(func() {
			got, err := racer.tryAdd(racer.wish(1))
			suite.Must(u.t, "AddWish", err)
			if got.Outcome == guest.WishAdded {
				winners.Add(1)
			}
		})
	}
	all.Wait()
	suite.Equal(u.t, "winners", winners.Load(), 1)
	entries := u.wishes(10)
	suite.Equal(u.t, "entries", len(entries), 1)
	suite.Equal(u.t, "quantity", entries[0].Quantity, u.quantity(10)) // all ten count
}

func clearAll(_ *testing.T, u *user) {
	u.add(u.wish(1))
	first := u.add(u.wish(2))
	u.remove(1)
	other := u.other()
	kept := other.add(other.wish(2))
	old := guest.Mutation{Session: u.session, Route: "POST /test", Key: "key-1", Digest: u.mutation().Digest}
	m := u.mutation()
	for i := range 2 {
		o, err := u.h.Store.Clear(u.t.Context(), guest.Clear{Mutation: m})
		suite.Must(u.t, "Clear", err)
		suite.Equal(u.t, "its own answer is kept", o.Replayed, i == 1)
		if i == 0 && !slices.Contains(o.Result.Answers, old.CompositeKey()) || slices.Contains(o.Result.Answers, m.CompositeKey()) {
			u.t.Errorf("Clear returned the keys %v", o.Result.Answers)
		}
	}
	suite.Equal(u.t, "Wishes", len(u.wishes(10)), 0)
	suite.Equal(u.t, "tables with the session", u.h.Find(u.t, string(u.session)), map[string]int{"idempotency_keys": 1, "outbox": 3})
	suite.Equal(u.t, "of another session", other.wishes(10), []guest.Wish{kept})
	o, err := u.h.Store.Record(u.t.Context(), telemetry.Record{Mutation: old})
	suite.Must(u.t, "an older key", err)
	suite.Equal(u.t, "an older key is replayed", o.Replayed, false)
	again := u.add(u.wish(2))
	if again.ID == first.ID {
		u.t.Error("a cleared entry was revived")
	}
	suite.Equal(u.t, "events", len(u.h.Events(u.t, u.session)), 4)
}

func sessions(_ *testing.T, u *user) {
	other := u.other()
	mine, theirs := u.add(u.wish(1)), other.add(other.wish(1))
	if mine.ID == theirs.ID {
		u.t.Error("two sessions share an entry")
	}
	suite.Equal(u.t, "removed", u.remove(1), true)
	suite.Equal(u.t, "of the other", other.wishes(10), []guest.Wish{theirs})
	suite.Equal(u.t, "events of the other", len(u.h.Events(u.t, other.session)), 1)
}

func text(_ *testing.T, u *user) {
	for i, s := range []string{"'; DROP TABLE wishlist; --", "a\nb\tc\r", "\u202e\ufeff", "😀é", "%s_%", `\x00`, "\x01\x7f"} {
		suite.Must(u.t, "CheckNote", guest.CheckNote(s))
		w := u.wish(i)
		w.Note = s
		suite.Equal(u.t, "note", u.add(w).Note, s)
	}
	for _, w := range u.wishes(10) {
		suite.Must(u.t, "CheckNote", guest.CheckNote(w.Note))
	}
}

func wrongWishes(_ *testing.T, u *user) {
	for what, wrong := range map[string]func(*guest.Wish){
		"a long note":        func(w *guest.Wish) { w.Note = strings.Repeat("ä", guest.MaxNote+1) },
		"another source":     func(w *guest.Wish) { w.Source = "mail" },
		"the ID of an event": func(w *guest.Wish) { w.ID = guest.NewID(guest.EventPrefix, clock.System()) },
		"no ID":              func(w *guest.Wish) { w.ID = "" },
	} {
		w := u.wish(1)
		wrong(&w)
		if _, err := u.tryAdd(w); err == nil {
			u.t.Errorf("%s was added", what)
		}
	}
	suite.Equal(u.t, "Wishes", len(u.wishes(10)), 0)
}

func dropAnswers(_ *testing.T, u *user) {
	m := u.mutation()
	for range 3 {
		u.record()
	}
	run := func() (replayed bool) {
		o, err := u.h.Store.Record(u.t.Context(), telemetry.Record{Mutation: m})
		suite.Must(u.t, "Record", err)
		return o.Replayed
	}
	run()
	drop := func(at time.Time, limit int) int {
		n, err := u.h.Store.Drop(u.t.Context(), retention.JobAnswers, at, limit)
		suite.Must(u.t, "Drop", err)
		return n
	}
	now := clock.System()
	suite.Equal(u.t, "early", drop(now.Add(guest.MutationLife-time.Minute), 10), 0)
	suite.Equal(u.t, "replayed", run(), true)
	late := now.Add(guest.MutationLife + time.Minute)
	suite.Equal(u.t, "late, in pieces", []int{drop(late, 3), drop(late, 3), drop(late, 3)}, []int{3, 1, 0})
	suite.Equal(u.t, "replayed after it was dropped", run(), false)
}

func dropRemoved(_ *testing.T, u *user) {
	for n := range 4 {
		u.add(u.wish(n))
	}
	for n := range 3 {
		u.remove(n)
	}
	drop := func(before time.Time, limit int) int {
		n, err := u.h.Store.Drop(u.t.Context(), retention.JobRemoved, before, limit)
		suite.Must(u.t, "Drop", err)
		return n
	}
	now := clock.System()
	suite.Equal(u.t, "early", drop(now.Add(-time.Minute), 10), 0)
	late := now.Add(time.Minute)
	suite.Equal(u.t, "late, in pieces", []int{drop(late, 2), drop(late, 2), drop(late, 2)}, []int{2, 1, 0})
	suite.Equal(u.t, "entries", len(u.wishes(10)), 1)
}
