package guest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/hotstatetest"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/inbox"
	"holdfast/internal/suite"
	"holdfast/internal/testdb/opened"
)

// process is a service whose hot state fails on demand.
type process struct {
	*guest.Service
	tenants *tenants.Service
	mu      sync.Mutex
	fails   func(point string) bool
	lost    []string // degraded operations
}

func (p *process) fault(point string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil && p.fails(point) {
		return errcode.New(errcode.Unavailable, "the hot state fails here")
	}
	return nil
}

func (p *process) set(fails func(string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = fails
}

func (p *process) repair(t suite.TB) {
	p.Repair(t.Context())
	p.tenants.Repair(t.Context())
}

func newStore(t testing.TB) backend.Store {
	t.Helper()
	return sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations), clock.System, nil)
}

func newProcess(store backend.Store, hot backend.Hot, limits guest.Limits) *process {
	p := &process{}
	faulty := &hotstatetest.Faulty{Hot: hot, Fault: p.fault}
	degraded := func(what string) { p.mu.Lock(); defer p.mu.Unlock(); p.lost = append(p.lost, what) }
	p.tenants = tenants.New(tenants.Options{Store: store, Hot: faulty, Clock: clock.System, Degraded: degraded})
	p.Service = guest.NewService(guest.Options{
		Store: store, Hot: faulty, Cookies: guest.NewCookies("secret", nil), Clock: clock.System,
		Local: memory.New(clock.System, 1<<20), Processes: 2, Limits: limits,
		Degraded: degraded,
	})
	return p
}

func always(string) bool { return true }

const tenantID = "11111111-2222-4333-8444-555555555555"

func propertyID(n int) string { return fmt.Sprintf("%08d-2222-4333-8444-555555555555", n) }

type visit struct {
	t    suite.TB
	id   guest.ID
	keys int
}

func newVisit(t suite.TB) *visit {
	return &visit{t: t, id: guest.NewID(guest.SessionPrefix, clock.System())}
}

func (v *visit) mutation() guest.Mutation {
	v.keys++
	return guest.Mutation{Session: v.id, Route: "POST /wishlist", Key: fmt.Sprint("key-", v.keys), Digest: sha256.Sum256([]byte{byte(v.keys)})}
}

func (v *visit) add(p *process, m guest.Mutation, n int) (guest.Once[guest.AddedWish], error) {
	return p.AddWish(v.t.Context(), m, guest.Wish{Tenant: tenantID, Item: propertyID(n), Source: "list"}, 0)
}

func (v *visit) remove(p *process, n int) error {
	_, err := p.RemoveWish(v.t.Context(), v.mutation(), propertyID(n))
	return err
}

func (v *visit) wishes(p *process) (all []string) {
	v.t.Helper()
	wishes, err := p.Wishes(v.t.Context(), v.id, nil, 100)
	suite.Must(v.t, "Wishes", err)
	for _, w := range wishes {
		all = append(all, w.Item)
	}
	slices.Sort(all)
	return all
}

// meeting is hot state that delays each operation after a change until the other operation starts.
type meeting struct {
	backend.Hot
	t            *testing.T
	put, unblock chan struct{}
}

func (m *meeting) meet(arrive, await chan struct{}) {
	close(arrive)
	select {
	case <-await:
	case <-time.After(time.Minute):
		m.t.Error("the operations after a change wait for each other's replies")
	}
}

func (m *meeting) PutAnswer(ctx context.Context, key string, digest [32]byte, a guest.StoredAnswer) error {
	m.meet(m.put, m.unblock)
	return m.Hot.PutAnswer(ctx, key, digest, a)
}

func (m *meeting) UnblockMirror(ctx context.Context, id guest.ID) error {
	m.meet(m.unblock, m.put)
	return m.Hot.UnblockMirror(ctx, id)
}

// TestOneRoundTripAfterChange checks that a change stores the answer and unblocks the mirror concurrently, and
// returns after both.
func TestOneRoundTripAfterChange(t *testing.T) {
	t.Parallel()
	hot := memory.New(clock.System, 1<<20)
	p := newProcess(newStore(t), &meeting{hot, t, make(chan struct{}), make(chan struct{})}, nil)
	v := newVisit(t)
	m := v.mutation()
	_, err := v.add(p, m, 1)
	suite.Must(t, "AddWish", err)
	stored, err := hot.ClaimAnswer(t.Context(), m.CompositeKey(), "other")
	suite.Must(t, "ClaimAnswer", err)
	suite.Equal(t, "stored", stored.Done, true)
	mirror, err := hot.Mirror(t.Context(), v.id)
	suite.Must(t, "Mirror", err)
	suite.Equal(t, "may be filled", mirror.Lease != "", true)
}

// TestConcurrentSuspensions checks that an event leaves nothing in the copy if it arrives late: after a newer
// event and after the table replaced the copy.
func TestConcurrentSuspensions(t *testing.T) {
	t.Parallel()
	store, hot := newStore(t), memory.New(clock.System, 1<<20)
	slow, fast := newProcess(store, hot, nil), newProcess(store, hot, nil)
	ctx := t.Context()
	suite.Must(t, "RefreshSuspensions", fast.tenants.Refresh(ctx))
	receive := func(p *process, id, kind string, minute int) error {
		e := inbox.Event{Source: "/tenants", ID: id, Type: kind, Time: time.Unix(1_790_000_000, 0).Add(time.Duration(minute) * time.Minute), Body: []byte(`{"tenantId":"` + tenantID + `"}`)}
		result, err := p.tenants.Receive(ctx, e)
		suite.Equal(t, id, result, inbox.Applied)
		return err
	}
	arrived, resume := make(chan struct{}), make(chan struct{})
	slow.set(func(point string) bool {
		if point == "set suspension" {
			close(arrived)
			<-resume
		}
		return false
	})
	first := make(chan error)
	go func() { first <- receive(slow, "1", tenants.TypeSuspended, 1) }()
	<-arrived
	suite.Must(t, "a later event", receive(fast, "2", tenants.TypeReinstated, 2))
	suite.Must(t, "RefreshSuspensions", fast.tenants.Refresh(ctx))
	close(resume)
	suite.Must(t, "the event before", <-first)
	suspended, known, err := hot.Suspended(ctx, []string{tenantID})
	suite.Must(t, "Suspended", err)
	suite.Equal(t, "known", known, true)
	suite.Equal(t, "suspended in the copy", suspended, nil)
}

// points are the operations on hot state that may fail.
var points = []string{
	"claim answer", "claim answer done", "block mirror", "block mirror done", "unblock mirror", "unblock mirror done", "drop mirror", "drop mirror done",
	"put answer", "put answer done", "release answer", "release answer done", "mirror", "mirror done", "fill mirror", "fill mirror done",
}

// TestMirrorIsTheTable checks that a process reads its own changes after any failure, and that other processes
// read them after its repair.
func TestMirrorIsTheTable(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		hot := memory.New(clock.System, 1<<20)
		all := []*process{newProcess(store, hot, nil), newProcess(store, hot, nil)}
		v := newVisit(rt)
		model := map[string]bool{}
		one := func(rt *rapid.T) *process {
			p := all[rapid.IntRange(0, 1).Draw(rt, "process")]
			faults := rapid.IntRange(0, 1<<(len(points)+1)-1).Draw(rt, "faults") // fail next time
			p.set(func(point string) bool {
				bit := 1 << (slices.Index(points, point) + 1)
				fails := faults&bit != 0
				faults &^= bit
				return fails
			})
			return p
		}
		compare := func(rt *rapid.T, p *process) {
			var want []string
			for property := range model {
				want = append(want, property)
			}
			slices.Sort(want)
			suite.Equal(rt, "wishlist", v.wishes(p), want)
		}
		return map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				p, n := one(rt), rapid.IntRange(0, 5).Draw(rt, "property")
				_, err := v.add(p, v.mutation(), n)
				suite.Must(rt, "AddWish", err)
				model[propertyID(n)] = true
				compare(rt, p)
			},
			"remove": func(rt *rapid.T) {
				p, n := one(rt), rapid.IntRange(0, 5).Draw(rt, "property")
				suite.Must(rt, "RemoveWish", v.remove(p, n))
				delete(model, propertyID(n))
				compare(rt, p)
			},
			"read": func(rt *rapid.T) {
				for _, p := range all { // another process may read an old copy before the repair
					p.set(nil)
					p.repair(rt)
				}
				compare(rt, one(rt))
			},
			"flush": func(rt *rapid.T) {
				suite.Must(rt, "DropSession", hot.DropSession(rt.Context(), v.id, nil))
			},
		}
	})
}

// TestChangeAfterFlush checks that a change after a flush leaves no copy that contains only this change.
func TestChangeAfterFlush(t *testing.T) {
	t.Parallel()
	hot := memory.New(clock.System, 1<<20)
	p, v := newProcess(newStore(t), hot, nil), newVisit(t)
	for n := range 3 {
		if _, err := v.add(p, v.mutation(), n); err != nil {
			t.Fatal(err)
		}
	}
	v.wishes(p)
	suite.Must(t, "DropSession", hot.DropSession(t.Context(), v.id, nil))
	if _, err := v.add(p, v.mutation(), 3); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		suite.Equal(t, "wishlist", v.wishes(p), []string{propertyID(0), propertyID(1), propertyID(2), propertyID(3)})
	}
}

// TestSlowReader checks that a reader cannot store a copy that it read before a change.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	hot := memory.New(clock.System, 1<<20)
	store := newStore(t)
	slow, p, v := newProcess(store, hot, nil), newProcess(store, hot, nil), newVisit(t)
	if _, err := v.add(p, v.mutation(), 1); err != nil {
		t.Fatal(err)
	}
	slow.set(func(point string) bool {
		if point == "fill mirror" {
			if _, err := v.add(p, v.mutation(), 2); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	suite.Equal(t, "read before the change", v.wishes(slow), []string{propertyID(1)})
	slow.set(nil)
	for _, reader := range []*process{p, slow} {
		suite.Equal(t, "read after it", v.wishes(reader), []string{propertyID(1), propertyID(2)})
	}
}

// TestCrashAfterCommit checks that no old copy remains if a process dies between the commit and deleting the copy.
func TestCrashAfterCommit(t *testing.T) {
	t.Parallel()
	hot := memory.New(clock.System, 1<<20)
	store := newStore(t)
	ends, p, v := newProcess(store, hot, nil), newProcess(store, hot, nil), newVisit(t)
	v.wishes(p)
	ends.set(func(point string) bool {
		return point != "claim answer" && point != "claim answer done" && point != "block mirror" && point != "block mirror done"
	})
	if _, err := v.add(ends, v.mutation(), 1); err != nil {
		t.Fatal(err)
	}
	suite.Equal(t, "read by another process", v.wishes(p), []string{propertyID(1)})
}

// TestAnswersWithoutHot checks that a mutation takes effect once and returns the same result, even if hot state
// lost its answer.
func TestAnswersWithoutHot(t *testing.T) {
	t.Parallel()
	hot := memory.New(clock.System, 1<<20)
	store := newStore(t)
	p, v := newProcess(store, hot, nil), newVisit(t)
	m := v.mutation()
	first, err := v.add(p, m, 1)
	if err != nil || first.Replayed {
		t.Fatal(first, err)
	}
	again := func(what string) {
		t.Helper()
		o, err := v.add(p, m, 1)
		if err != nil || !o.Replayed || o.Result != first.Result {
			t.Errorf("%s: %+v, %v, want %+v", what, o, err, first)
		}
		other := m
		other.Digest[0]++
		if _, err := v.add(p, other, 2); !errors.Is(err, guest.ErrKeyReused) {
			t.Errorf("%s: another request with the key: %v", what, err)
		}
	}
	again("with it")
	suite.Must(t, "DropAnswers", hot.DropAnswers(t.Context(), []string{m.CompositeKey()}))
	again("after a flush")
	p.set(always)
	again("without it")
	p.set(func(point string) bool { return point == "put answer" })
	m = v.mutation()
	if first, err = v.add(p, m, 3); err != nil {
		t.Fatal(err)
	}
	again("with an answer that could not be stored")
	p.set(nil)
	m = v.mutation()
	if _, err := hot.ClaimAnswer(t.Context(), m.CompositeKey(), "another process"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.add(p, m, 4); !errors.Is(err, guest.ErrInFlight) {
		t.Errorf("while another process does it: %v", err)
	}
	bad := v.mutation()
	if _, err := p.ChangeWish(t.Context(), bad, guest.ChangeWish{Item: propertyID(99), Note: new("x")}); !errors.Is(err, guest.ErrNoWish) {
		t.Fatal(err)
	}
	if a, err := hot.ClaimAnswer(t.Context(), bad.CompositeKey(), "x"); err != nil || !a.Claimed {
		t.Errorf("a failed mutation is still claimed: %+v, %v", a, err)
	}
}

// TestClearedWithoutHot checks that data cleared during an outage is deleted afterwards, and no other session's
// data.
func TestClearedWithoutHot(t *testing.T) {
	t.Parallel()
	hot, ctx, locale := memory.New(clock.System, 1<<20), t.Context(), "de"
	p, v, other := newProcess(newStore(t), hot, nil), newVisit(t), newVisit(t)
	for _, v := range []*visit{v, other} {
		_, err := p.SetPreferences(ctx, v.id, guest.Change{Locale: &locale})
		suite.Must(t, "SetPreferences", err)
		_, err = p.AddViewed(ctx, v.id, tenantID, propertyID(1))
		suite.Must(t, "AddViewed", err)
	}
	m := v.mutation()
	_, err := v.add(p, m, 1)
	suite.Must(t, "AddWish", err)
	search, err := p.BeginSearch(ctx, v.id, "key", []byte(`{}`))
	suite.Must(t, "BeginSearch", err)
	p.set(always)
	if _, _, err := p.Clear(ctx, v.mutation()); err != nil {
		t.Fatal(err)
	}
	p.repair(t) // fails
	p.set(nil)
	p.repair(t)
	for _, c := range []struct {
		of     *visit
		locale string
		viewed int
	}{{v, "", 0}, {other, locale, 1}} {
		viewed, err := p.Viewed(ctx, c.of.id)
		suite.Must(t, "Viewed", err)
		suite.Equal(t, "viewed", len(viewed), c.viewed)
		s, err := p.Session(ctx, c.of.id, guest.Change{})
		suite.Must(t, "Session", err)
		suite.Equal(t, "locale", s.Locale, c.locale)
	}
	_, found, err := hot.Search(ctx, search.ID)
	suite.Must(t, "Search", err)
	suite.Equal(t, "search", found, false)
	stored, err := hot.ClaimAnswer(ctx, m.CompositeKey(), "other")
	suite.Must(t, "ClaimAnswer", err)
	suite.Equal(t, "answer", stored.Done, false)
}

func TestWithoutHot(t *testing.T) {
	t.Parallel()
	p, v := newProcess(newStore(t), memory.New(clock.System, 1<<20), nil), newVisit(t)
	ctx := t.Context()
	locale := "de"
	if _, err := p.SetPreferences(ctx, v.id, guest.Change{Locale: &locale}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddViewed(ctx, v.id, tenantID, propertyID(1)); err != nil {
		t.Fatal(err)
	}
	p.set(always)
	s, err := p.Session(ctx, v.id, guest.Change{})
	suite.Must(t, "Session", err)
	suite.Equal(t, "session", s, guest.Session{ID: v.id, Created: v.id.Time()})
	if s, err := p.Begin(ctx, guest.Change{}); err != nil || s.ID == "" {
		t.Errorf("Begin: %v, %v", s, err)
	}
	viewed, err := p.Viewed(ctx, v.id)
	suite.Must(t, "Viewed", err)
	suite.Equal(t, "viewed", viewed, nil)
	if _, err := p.BeginSearch(ctx, v.id, "key", []byte(`{}`)); err != nil {
		t.Errorf("BeginSearch: %v", err)
	}
	for name, err := range map[string]error{
		"SetPreferences": func() error { _, err := p.SetPreferences(ctx, v.id, guest.Change{Locale: &locale}); return err }(),
		"AddViewed":      func() error { _, err := p.AddViewed(ctx, v.id, tenantID, propertyID(1)); return err }(),
	} {
		suite.WantCode(t, name, err, errcode.Unavailable)
	}
	if _, err := v.add(p, v.mutation(), 1); err != nil {
		t.Errorf("AddWish: %v", err)
	}
	suite.Equal(t, "wishlist", v.wishes(p), []string{propertyID(1)})
	if suspended, err := p.tenants.Suspended(ctx, tenantID); err != nil || len(suspended) > 0 {
		t.Errorf("SuspendedOf: %v, %v", suspended, err)
	}
	if _, _, err := p.Clear(ctx, v.mutation()); err != nil {
		t.Errorf("Clear: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, what := range p.lost {
		if !slices.Contains(guest.Degradations, what) {
			t.Errorf("degraded %q, which the metrics do not have", what)
		}
	}
}

func TestClearLeavesNothing(t *testing.T) {
	t.Parallel()
	hot := memory.New(clock.System, 1<<20)
	p, v := newProcess(newStore(t), hot, nil), newVisit(t)
	ctx := t.Context()
	old := v.mutation()
	if _, err := v.add(p, old, 1); err != nil {
		t.Fatal(err)
	}
	search, err := p.BeginSearch(ctx, v.id, "key", []byte(`{"q":1}`))
	suite.Must(t, "BeginSearch", err)
	if _, err := p.Search(ctx, newVisit(t).id, search.ID); !errors.Is(err, guest.ErrSearchExpired) {
		t.Errorf("the search of another session: %v", err)
	}
	next, _, err := p.Clear(ctx, v.mutation())
	suite.Must(t, "Clear", err)
	if next.ID == v.id {
		t.Error("the session has the same ID")
	}
	if _, err := p.Search(ctx, v.id, search.ID); !errors.Is(err, guest.ErrSearchExpired) {
		t.Errorf("the search after Clear: %v", err)
	}
	history, err := p.History(ctx, v.id)
	suite.Must(t, "History", err)
	suite.Equal(t, "history", history, nil)
	if a, err := hot.ClaimAnswer(ctx, old.CompositeKey(), "x"); err != nil || !a.Claimed {
		t.Errorf("an answer is left: %+v, %v", a, err)
	}
	suite.Equal(t, "wishlist", v.wishes(p), nil)
}

func TestLocalLimits(t *testing.T) {
	t.Parallel()
	limits := guest.Limits{guest.ClassWishlist: {Events: 60, Per: time.Hour, Burst: 10}}
	hot := memory.New(clock.System, 1<<20)
	all := []*process{newProcess(newStore(t), hot, limits), newProcess(newStore(t), hot, limits)}
	hammer := func(v *visit) (admitted int) {
		for i := range 40 {
			r, limited, err := all[i%2].Limit(t.Context(), guest.ClassWishlist, v.id, "192.0.2.1")
			suite.Must(t, "Limit", err)
			if !limited {
				t.Fatal("the class has no limit")
			}
			if r.Allowed {
				admitted++
			}
		}
		return admitted
	}
	suite.Equal(t, "shared", hammer(newVisit(t)), 10)
	all[0].set(always)
	all[1].set(always)
	suite.Equal(t, "in each process", hammer(newVisit(t)), 10)
	all[0].set(nil)
	if _, limited, err := all[0].Limit(t.Context(), guest.ClassMint, "", ""); limited || err != nil {
		t.Errorf("a class without a limit: %v, %v", limited, err)
	}
}

// TestAddressOfIPv6 checks that addresses in the same /64 share a limit, because a client may use all of them.
func TestAddressOfIPv6(t *testing.T) {
	t.Parallel()
	p := newProcess(newStore(t), memory.New(clock.System, 1<<20), guest.Limits{guest.ClassBootstrap: {Events: 60, Per: time.Hour, Burst: 3}})
	allowed := func(address string) bool {
		r, _, err := p.Limit(t.Context(), guest.ClassBootstrap, "", address)
		suite.Must(t, "Limit", err)
		return r.Allowed
	}
	var got []bool
	for _, address := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::ffff:1", "2001:db8::3", "2001:db8:0:1::1", "192.0.2.1"} {
		got = append(got, allowed(address))
	}
	suite.Equal(t, "allowed", got, []bool{true, true, true, false, true, true})
}
