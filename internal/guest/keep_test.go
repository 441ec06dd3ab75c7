package guest_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/suite"
)

var start = time.UnixMilli(1_790_000_000_000).UTC()

// embedded is a server on an embedded database, with hot state in memory that it keeps in the database.
type embedded struct {
	*guest.Service
	store *keepStore
	hot   *memory.Hot
	clock *clock.Manual
}

// keepStore fails on demand when hot state is kept.
type keepStore struct {
	*sqlite.Store
	before func() error // nil: nothing
}

func (s *keepStore) KeepHot(ctx context.Context, c guest.HotChanges, erased []guest.ErasedHot) error {
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	return s.Store.KeepHot(ctx, c, erased)
}

func begin(t testing.TB, store backend.Store, c *clock.Manual) *embedded {
	t.Helper()
	e := &embedded{store: &keepStore{Store: store.(*sqlite.Store)}, hot: memory.New(c.Now, 64<<20), clock: c}
	e.hot.Keep()
	e.Service = guest.NewService(guest.Options{
		Store: e.store, Hot: e.hot, Cookies: guest.NewCookies("secret", nil), Clock: c.Now, Keeper: e.hot, Kept: e.store,
	})
	suite.Must(t, "RestoreHot", e.RestoreHot(t.Context()))
	return e
}

// again returns the server after a kill; its database may lack the memory's last changes.
func (e *embedded) again(t testing.TB) *embedded {
	t.Helper()
	return begin(t, e.store.Store, e.clock)
}

// hotValue is a hot state value. set changes it, and get returns a text that is not "" while it is set.
type hotValue struct {
	name    string
	methods []string // in backend.Hot
	kept    bool     // else it is read from the database again, or may begin anew
	set     func(t suite.TB, e *embedded, id guest.ID)
	get     func(t suite.TB, e *embedded, id guest.ID) string
}

func object(t suite.TB, text string) canonjson.Value {
	t.Helper()
	v, err := canonjson.Parse([]byte(text), 1<<20)
	suite.Must(t, "canonjson", err)
	return v
}

var hotValues = []hotValue{
	{"locale, currency and campaign", []string{"Session"}, true, func(t suite.TB, e *embedded, id guest.ID) {
		_, err := e.hot.Session(t.Context(), id, guest.Change{Locale: new("de-AT"), Currency: new("EUR"), Campaign: new(`{"source":"a"}`)})
		suite.Must(t, "Session", err)
	}, func(t suite.TB, e *embedded, id guest.ID) string {
		s, err := e.hot.Session(t.Context(), id, guest.Change{})
		suite.Must(t, "Session", err)
		return s.Locale + s.Currency + s.Campaign
	}},
	{"attributes", []string{"PutAttributes"}, true, func(t suite.TB, e *embedded, id guest.ID) {
		_, err := e.PatchAttributes(t.Context(), id, guest.AttributesPatch{Patch: object(t, `{"cart":[1,2],"ü":1.50}`)})
		suite.Must(t, "PatchAttributes", err)
	}, func(t suite.TB, e *embedded, id guest.ID) string {
		a, err := e.Attributes(t.Context(), id, "")
		suite.Must(t, "Attributes", err)
		return string(a.Value) + a.Version
	}},
	{"viewed items", []string{"Push", "Items"}, true, func(t suite.TB, e *embedded, id guest.ID) {
		for n := range 3 {
			_, err := e.AddViewed(t.Context(), id, tenantID, propertyID(n))
			suite.Must(t, "AddViewed", err)
		}
	}, func(t suite.TB, e *embedded, id guest.ID) string { return itemsText(t, e, id, guest.RecentlyViewed) }},
	{"search and history", []string{"PutSearch", "Search"}, true, func(t suite.TB, e *embedded, id guest.ID) {
		_, err := e.BeginSearch(t.Context(), id, "hash", json.RawMessage(`{"q":"sea"}`))
		suite.Must(t, "BeginSearch", err)
	}, func(t suite.TB, e *embedded, id guest.ID) string {
		history, err := e.History(t.Context(), id)
		suite.Must(t, "History", err)
		text := itemsText(t, e, id, guest.SearchHistory)
		for _, h := range history {
			search, err := e.Search(t.Context(), id, h.SearchID)
			suite.Must(t, "Search", err)
			text += string(search.Query) + search.Created.String()
		}
		return text
	}},
	{"copy of the wishlist", []string{"Mirror", "FillMirror", "BlockMirror", "UnblockMirror", "DropMirror"}, false, func(t suite.TB, e *embedded, id guest.ID) {
		m, err := e.hot.Mirror(t.Context(), id)
		suite.Must(t, "Mirror", err)
		suite.Must(t, "FillMirror", e.hot.FillMirror(t.Context(), id, m.Lease, json.RawMessage(`[]`)))
	}, func(t suite.TB, e *embedded, id guest.ID) string {
		m, err := e.hot.Mirror(t.Context(), id)
		suite.Must(t, "Mirror", err)
		return string(m.Wishes)
	}},
	{"copy of an answer", []string{"ClaimAnswer", "PutAnswer", "ReleaseAnswer", "DropAnswers"}, false, func(t suite.TB, e *embedded, id guest.ID) {
		suite.Must(t, "PutAnswer", e.hot.PutAnswer(t.Context(), "a"+string(id), [32]byte{}, guest.StoredAnswer{Version: 1, Body: []byte("x")}))
	}, func(t suite.TB, e *embedded, id guest.ID) string {
		a, err := e.hot.ClaimAnswer(t.Context(), "a"+string(id), "me")
		suite.Must(t, "ClaimAnswer", err)
		return string(a.Answer.Body)
	}},
	{"cached answer of an upstream", []string{"Cached", "PutCached", "FillCached", "FailCached", "Lock", "Unlock"}, false, func(t suite.TB, e *embedded, id guest.ID) {
		suite.Must(t, "PutCached", e.hot.PutCached(t.Context(), "c"+string(id), []byte("x"), time.Hour))
	}, func(t suite.TB, e *embedded, id guest.ID) string {
		v, err := e.hot.Cached(t.Context(), "c"+string(id))
		suite.Must(t, "Cached", err)
		return string(v.Value)
	}},
	{"rate limit", []string{"Take"}, false, func(t suite.TB, e *embedded, id guest.ID) { takeOnly(t, e, id) }, func(t suite.TB, e *embedded, id guest.ID) string {
		if takeOnly(t, e, id) {
			return ""
		}
		return "empty"
	}},
	{"signals of a browser", []string{"SeeBrowser", "AddOffence", "SolvedChallenge"}, false, func(t suite.TB, e *embedded, id guest.ID) {
		suite.Must(t, "AddOffence", e.hot.AddOffence(t.Context(), "b"+string(id), bots.SignalHoneypot))
	}, func(t suite.TB, e *embedded, id guest.ID) string {
		seen, err := e.hot.SeeBrowser(t.Context(), bots.Sighting{Browser: "b" + string(id)})
		suite.Must(t, "SeeBrowser", err)
		if seen.Honeypots == 0 {
			return ""
		}
		return "an offence"
	}},
	{"copy of the suspended tenants", []string{"Suspended", "SuspensionVersion", "PutSuspensions", "SetSuspension"}, false, func(t suite.TB, e *embedded, _ guest.ID) {
		version, _, err := e.hot.SuspensionVersion(t.Context())
		suite.Must(t, "SuspensionVersion", err)
		_, err = e.hot.PutSuspensions(t.Context(), version, []tenants.Suspension{{Tenant: tenantID, Suspended: true}})
		suite.Must(t, "PutSuspensions", err)
	}, func(t suite.TB, e *embedded, _ guest.ID) string {
		_, known, err := e.hot.Suspended(t.Context(), []string{tenantID})
		suite.Must(t, "Suspended", err)
		if !known {
			return ""
		}
		return "known"
	}},
}

func itemsText(t suite.TB, e *embedded, id guest.ID, list guest.List) (text string) {
	t.Helper()
	all, err := e.hot.Items(t.Context(), id, list)
	suite.Must(t, "Items", err)
	for _, item := range all {
		text += item.Key + string(item.Value)
	}
	return text
}

func takeOnly(t suite.TB, e *embedded, id guest.ID) (allowed bool) {
	t.Helper()
	taken, err := e.hot.Take(t.Context(), []guest.Bucket{{Key: string(id), Limit: guest.Limit{Events: 1, Per: time.Hour, Burst: 1}}})
	suite.Must(t, "Take", err)
	return taken[0].Allowed
}

// values returns the values by name, without those that are not set.
func (e *embedded) values(t suite.TB, id guest.ID) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, v := range hotValues {
		if text := v.get(t, e, id); text != "" {
			all[v.name] = text
		}
	}
	return all
}

func (e *embedded) setAll(t suite.TB, id guest.ID) {
	t.Helper()
	for _, v := range hotValues {
		v.set(t, e, id)
	}
}

func onlyKept(all map[string]string) map[string]string {
	kept := map[string]string{}
	for _, v := range hotValues {
		if text, found := all[v.name]; found && v.kept {
			kept[v.name] = text
		}
	}
	return kept
}

// TestKeptHotValues checks that hotValues contains every hot state method, so that a new value declares whether it is kept.
func TestKeptHotValues(t *testing.T) {
	t.Parallel()
	named := []string{"DropSession", "Ping"} // do not set or read a value
	for _, v := range hotValues {
		named = append(named, v.methods...)
	}
	for method := range reflect.TypeFor[backend.Hot]().Methods() {
		if !slices.Contains(named, method.Name) {
			t.Errorf("%s: no value in hotValues names it", method.Name)
		}
	}
}

// TestHotStateAfterAStop sets every hot state value. After a stop, and after a kill that follows a Repair step, a
// new process restores the kept values; a change after the step is lost. Later processes change the restored values.
func TestHotStateAfterAStop(t *testing.T) {
	t.Parallel()
	e := begin(t, newStore(t), clock.NewManual(start))
	id, other := guest.NewID(guest.SessionPrefix, start), guest.NewID(guest.SessionPrefix, start)
	e.setAll(t, id)
	want := e.values(t, id)
	if len(want) != len(hotValues) {
		t.Fatalf("values that are not set: only %v are", want)
	}
	want = onlyKept(want)

	suite.Equal(t, "after a kill before the first step", e.again(t).values(t, id), map[string]string{})
	e.Repair(t.Context())
	e.setAll(t, other)
	killed := e.again(t)
	suite.Equal(t, "after a kill", killed.values(t, id), want)
	suite.Equal(t, "changes after the last step", killed.values(t, other), map[string]string{})

	suite.Must(t, "stop", e.KeepHot(t.Context()))
	stopped := e.again(t)
	suite.Equal(t, "after a stop", stopped.values(t, id), want)
	suite.Equal(t, "another session after a stop", len(stopped.values(t, other)), len(want))

	_, err := stopped.PatchAttributes(t.Context(), id, guest.AttributesPatch{Patch: object(t, `{"cart":null,"ü":null}`)})
	suite.Must(t, "PatchAttributes", err)
	_, err = stopped.AddViewed(t.Context(), id, tenantID, propertyID(9))
	suite.Must(t, "AddViewed", err)
	want = onlyKept(stopped.values(t, id))
	stopped.Repair(t.Context())
	suite.Equal(t, "after another stop", stopped.again(t).values(t, id), want)
}

// TestKeptHotExpires checks that restored state lives as long as the session's last use allows, within a day, and
// that the sweep deletes it.
func TestKeptHotExpires(t *testing.T) {
	t.Parallel()
	e := begin(t, newStore(t), clock.NewManual(start))
	used, silent := guest.NewID(guest.SessionPrefix, start), guest.NewID(guest.SessionPrefix, start)
	e.setAll(t, used)
	e.setAll(t, silent)
	suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
	e.clock.Advance(20 * 24 * time.Hour)
	e = e.again(t)
	locale := func(e *embedded, id guest.ID) string {
		s, err := e.hot.Session(t.Context(), id, guest.Change{})
		suite.Must(t, "Session", err)
		return s.Locale
	}
	locale(e, used) // a use, without a change
	suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
	e.clock.Advance(11 * 24 * time.Hour)
	e = e.again(t)
	suite.Equal(t, "locales of a used and a silent session", []string{locale(e, used), locale(e, silent)}, []string{"de-AT", ""})
	n, err := e.store.DropOldHot(t.Context(), e.clock.Now(), 100)
	suite.Must(t, "DropOldHot", err)
	suite.Equal(t, "swept rows: the silent session, and a search of each", n, 3)
	e.clock.Advance(-365 * 24 * time.Hour) // a restored state does not live for longer
	e = e.again(t)
	locale(e, used)
	e.clock.Advance(guest.SessionLife + time.Second)
	suite.Equal(t, "after its life", locale(e, used), "")
}

// TestErasedHotStaysErased clears and erases sessions, by the server and by another process, before and after their state
// is kept, and while it is being kept. No process finds them afterwards.
func TestErasedHotStaysErased(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	erase := func(s *guest.Service, id guest.ID) {
		_, err := s.Erase(t.Context(), string(id))
		suite.Must(t, "Erase", err)
	}
	ways := map[string]func(e *embedded, id guest.ID){
		"erased by the server": func(e *embedded, id guest.ID) { erase(e.Service, id) },
		"erased by a command":  func(e *embedded, id guest.ID) { erase(e.again(t).Service, id) },
		"cleared by the guest": func(e *embedded, id guest.ID) {
			_, _, err := e.Clear(t.Context(), guest.Mutation{Session: id, Route: "POST /clear", Key: string(id)})
			suite.Must(t, "Clear", err)
		},
	}
	for name, erased := range ways {
		for _, when := range []string{"before it is kept", "after it is kept", "while it is kept", "before a failure"} {
			t.Run(name+" "+when, func(t *testing.T) {
				e := begin(t, store, clock.NewManual(clock.System()))
				id, other := guest.NewID(guest.SessionPrefix, e.clock.Now()), guest.NewID(guest.SessionPrefix, e.clock.Now())
				e.setAll(t, id)
				e.setAll(t, other)
				want := onlyKept(e.values(t, other))
				switch when {
				case "after it is kept":
					suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
				case "while it is kept":
					e.store.before = func() error { e.store.before = nil; erased(e, id); return nil }
					suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
				case "before a failure":
					e.store.before = func() error { return errcode.New(errcode.Unavailable, "the disk is full") }
				}
				if when != "while it is kept" {
					erased(e, id)
				}
				suite.Equal(t, "after a kill", onlyKept(e.again(t).values(t, id)), map[string]string{})
				if err := e.KeepHot(t.Context()); (err != nil) != (when == "before a failure") {
					t.Fatal(err)
				}
				e.store.before = nil
				suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
				suite.Equal(t, "in the server", onlyKept(e.values(t, id)), map[string]string{})
				suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
				next := e.again(t)
				suite.Equal(t, "after a restart", onlyKept(next.values(t, id)), map[string]string{})
				suite.Equal(t, "another session", onlyKept(next.values(t, other)), want)
				// The cookie stays valid, so a guest may use an erased session again.
				hotValues[0].set(t, e, id)
				suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
				suite.Equal(t, "used again", len(e.again(t).values(t, id)), 1)
			})
		}
	}
}

// TestKeptHotIsBounded changes more state than a transaction may write, and more than memory keeps. The newest sessions
// are restored.
func TestKeptHotIsBounded(t *testing.T) {
	t.Parallel()
	e := begin(t, newStore(t), clock.NewManual(start))
	var ids []guest.ID
	transactions := 0
	e.store.before = func() error { transactions++; return nil }
	value := object(t, `{"a":"`+string(slices.Repeat([]byte("x"), 8000))+`"}`)
	for range 600 {
		id := guest.NewID(guest.SessionPrefix, start)
		ids = append(ids, id)
		_, err := e.PatchAttributes(t.Context(), id, guest.AttributesPatch{Patch: value})
		suite.Must(t, "PatchAttributes", err)
		e.clock.Advance(time.Second)
	}
	suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
	if transactions < 4 {
		t.Errorf("5 MB in %d transactions", transactions)
	}
	small := memory.New(e.clock.Now, 1<<20)
	s := guest.NewService(guest.Options{Store: e.store, Hot: small, Clock: e.clock.Now, Keeper: small, Kept: e.store})
	suite.Must(t, "RestoreHot", s.RestoreHot(t.Context()))
	if _, bytes, most := small.Bytes(); bytes > most {
		t.Errorf("%d bytes of %d", bytes, most)
	}
	for id, want := range map[guest.ID]bool{ids[0]: false, ids[len(ids)-1]: true} {
		if a, err := s.Attributes(t.Context(), id, ""); err != nil || (a.Value != "") != want {
			t.Errorf("restored: %v, want %v, %v", !want, want, err)
		}
	}
	transactions = 0
	suite.Must(t, "KeepHot", e.KeepHot(t.Context()))
	suite.Equal(t, "transactions without a change", transactions, 0)
}
