package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest/retention"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/ident"
	"holdfast/internal/inbox"
	"holdfast/internal/suite"
)

func suspensionChecks() []check {
	return []check{
		{"EventsOnce", eventsOnce},
		{"ByTime", suspensionsByTime},
		{"Concurrent", concurrentSuspensions},
		{"Quarantine", quarantine},
		{"InMutation", suspendedInMutation},
		{"States", tenantStates},
	}
}

func about(id, tenant string, suspended bool, minute int) inbox.Event {
	kind := "melmastoon." + tenants.TypeReinstated
	if suspended {
		kind = tenants.TypeSuspended
	}
	body, _ := json.Marshal(map[string]string{"tenantId": tenant, "reason": id})
	return inbox.Event{Source: "/tenants", ID: id, Type: kind, Time: t0.Add(time.Duration(minute) * time.Minute), Body: body}
}

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func (u *user) receive(e inbox.Event) inbox.Result {
	u.t.Helper()
	result, err := tenants.New(tenants.Options{Store: u.h.Store, Clock: clock.System}).Receive(u.t.Context(), e)
	suite.Must(u.t, "Receive", err)
	return result
}

func (u *user) suspended(tenant string) bool {
	u.t.Helper()
	yes, err := u.h.Store.Suspended(u.t.Context(), tenant)
	suite.Must(u.t, "Suspended", err)
	return yes
}

// eventsOnce checks that a repeated event has no effect, and that a different event with a used ID is quarantined.
func eventsOnce(_ *testing.T, u *user) {
	tenant, id := newTenant(), ident.New()
	first := about(id, tenant, true, 0)
	suite.Equal(u.t, "unknown", u.suspended(tenant), false)
	suite.Equal(u.t, "first", u.receive(first), inbox.Applied)
	suite.Equal(u.t, "again", u.receive(first), inbox.Duplicate)
	suite.Equal(u.t, "suspended", u.suspended(tenant), true)
	for name, other := range map[string]inbox.Event{
		"another effect": about(id, tenant, false, 0),
		"another time":   about(id, tenant, true, 1),
		"another tenant": about(id, newTenant(), true, 0),
	} {
		suite.Equal(u.t, name, u.receive(other), inbox.Quarantined)
		suite.Equal(u.t, name+", again", u.receive(other), inbox.Quarantined)
	}
	suite.Equal(u.t, "suspended at the end", u.suspended(tenant), true)
	elsewhere := about(id, tenant, false, 5)
	elsewhere.Source = "/others"
	suite.Equal(u.t, "the ID of another source", u.receive(elsewhere), inbox.Applied)
	suite.Equal(u.t, "reinstated", u.suspended(tenant), false)
}

// suspensionsByTime checks that the event with the latest time wins, in every order of arrival.
func suspensionsByTime(_ *testing.T, u *user) {
	var orders [][]int
	var permute func(order, rest []int)
	permute = func(order, rest []int) {
		if len(rest) == 0 {
			orders = append(orders, order)
		}
		for i, n := range rest {
			permute(append(slices.Clone(order), n), slices.Delete(slices.Clone(rest), i, i+1))
		}
	}
	permute(nil, []int{0, 1, 2, 3})
	suite.Equal(u.t, "permutations", len(orders), 24)
	for _, last := range []bool{false, true} {
		for _, order := range orders {
			tenant, run := newTenant(), ident.New()
			newest := -1
			for i, n := range order {
				// The events alternate; the event at minute 3 is the last.
				e := about(fmt.Sprint(run, n), tenant, (n%2 == 1) == last, n)
				want := inbox.Stale
				if n > newest {
					newest, want = n, inbox.Applied
				}
				suite.Equal(u.t, fmt.Sprintf("received at place %d of %v", i, order), u.receive(e), want)
				if i%2 == 0 {
					suite.Equal(u.t, "received again", u.receive(e), inbox.Duplicate)
				}
			}
			if got := u.suspended(tenant); got != last {
				u.t.Errorf("in the order %v: suspended is %v", order, got)
			}
		}
	}
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		tenant, run := newTenant(), ident.New()
		for _, id := range order {
			u.receive(about(run+id, tenant, id == "b", 0))
		}
		suite.Equal(u.t, "of one time, "+order[0]+" first", u.suspended(tenant), true)
	}
}

// concurrentSuspensions lets three consumers receive each event five times, shuffled.
func concurrentSuspensions(_ *testing.T, u *user) {
	const events = 20
	both := []string{newTenant(), newTenant()}
	run := ident.New()
	var all []inbox.Event
	for n := range events {
		e := about(fmt.Sprintf("%s-%02d", run, n), both[n%2], n%4 < 2, n)
		for range 5 {
			all = append(all, e)
		}
	}
	types := tenants.DefaultTypes()
	var mu sync.Mutex
	results := map[inbox.Result]int{}
	var consumers sync.WaitGroup
	for consumer := range 3 {
		consumers.Go(func() {
			for i := range all {
				if i%3 != consumer {
					continue
				}
				e := all[(i*37+consumer*11)%len(all)] // 37 and 100 have no common factor
				for {
					result, err := u.h.Store.Receive(context.WithoutCancel(u.t.Context()), e, must(types.Parse(&e)))
					if err != nil {
						continue // another transaction won
					}
					mu.Lock()
					results[result]++
					mu.Unlock()
					break
				}
			}
		})
	}
	consumers.Wait()
	for _, e := range all { // the shuffle may omit events
		results[u.receive(e)]++
	}
	suite.Equal(u.t, "applied or stale", results[inbox.Applied]+results[inbox.Stale], events)
	suite.Equal(u.t, "in quarantine", results[inbox.Quarantined], 0)
	// Events 18 and 19 are last; 18%4 and 19%4 are at least 2.
	suite.Equal(u.t, "suspended", []bool{u.suspended(both[0]), u.suspended(both[1])}, []bool{false, false})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func quarantine(_ *testing.T, u *user) {
	tenant := newTenant()
	e := about(ident.New(), tenant, true, 0)
	for name, body := range map[string]string{
		"no JSON": "{", "no object": `[]`, "no tenant": `{}`, "not a tenant": `{"tenantId":"x"}`, "too long": strings.Repeat("x", inbox.MaxBody+1),
	} {
		e.Body = []byte(body)
		suite.Equal(u.t, name, u.receive(e), inbox.Quarantined)
	}
	e = about(e.ID, tenant, true, 0)
	for _, kind := range []string{"tenant.deleted.v1", "billing." + tenants.TypeSuspended, tenants.TypeSuspended + ".draft"} {
		e.Type = kind
		suite.Equal(u.t, kind, u.receive(e), inbox.Quarantined)
	}
	list, err := u.h.Store.Quarantined(u.t.Context(), 100_000)
	suite.Must(u.t, "Quarantined", err)
	n := 0
	for _, q := range list {
		if q.ID == e.ID {
			n++
			if q.Source != e.Source || !q.Time.Equal(e.Time) || q.Reason == "" || len(q.Body) > inbox.MaxBody || time.Since(q.Received).Abs() > time.Hour {
				u.t.Errorf("%+v", q)
			}
		}
	}
	suite.Equal(u.t, "in quarantine", n, 8)
	suite.Equal(u.t, "suspended", u.suspended(tenant), false)
	for name, bad := range map[string]inbox.Event{
		"no source": {ID: "a", Type: "b", Time: t0}, "no ID": {Source: "a", Type: "b", Time: t0}, "NUL": {Source: "a\x00", ID: "a", Type: "b", Time: t0},
		"no time": {Source: "a", ID: "a", Type: "b"}, "long": {Source: strings.Repeat("a", 1000), ID: "a", Type: "b", Time: t0},
	} {
		if _, err := tenants.New(tenants.Options{Store: u.h.Store}).Receive(u.t.Context(), bad); err == nil {
			u.t.Errorf("%s is accepted", name)
		}
	}
}

func suspendedInMutation(_ *testing.T, u *user) {
	u.ring()
	tenant := newTenant()
	for i, want := range []bool{false, true, false} {
		if i > 0 {
			u.receive(about(ident.New(), tenant, want, i))
		}
		m := u.newMint(time.Minute)
		m.Handoff.Tenant = tenant
		if _, err := u.tryMint(m); errors.Is(err, tenants.ErrSuspended) != want || err != nil && !want {
			u.t.Errorf("suspended: %v, mint: %v", want, err)
		}
	}
}

// dropReceived checks that received events are deleted after seven days, quarantined events after thirty. An event
// that is delivered again then changes nothing.
func dropReceived(_ *testing.T, u *user) {
	tenant := newTenant()
	suspend, reinstate := about("a", tenant, true, 0), about("b", tenant, false, 1)
	u.receive(suspend)
	u.receive(reinstate)
	u.receive(about("b", tenant, true, 9))
	drop := func(after time.Duration, limit int) int {
		n, err := u.h.Store.Drop(u.t.Context(), retention.JobReceived, clock.System().Add(after-inbox.Keep), limit)
		suite.Must(u.t, "Drop", err)
		return n
	}
	suite.Equal(u.t, "early", drop(inbox.Keep-time.Minute, 10), 0)
	suite.Equal(u.t, "early, again", u.receive(suspend), inbox.Duplicate)
	late := inbox.Keep + time.Minute
	suite.Equal(u.t, "late, in pieces", []int{drop(late, 1), drop(late, 1), drop(late, 1)}, []int{1, 1, 0})
	suite.Equal(u.t, "quarantine", drop(inbox.KeepQuarantine+time.Minute, 10), 1)
	suite.Equal(u.t, "forgotten", u.receive(suspend), inbox.Stale)
	suite.Equal(u.t, "but without effect", u.suspended(tenant), false)
	u.receive(about("c", tenant, true, 2))
	all, err := u.h.Store.SuspendedTenants(u.t.Context(), "", 0)
	suite.Must(u.t, "SuspendedTenants", err)
	suite.Equal(u.t, "suspended tenants", all, []tenants.Suspension{{Tenant: tenant, Suspended: true, Reason: "c", At: t0.Add(2 * time.Minute), Event: "c"}})
}

func tenantStates(_ *testing.T, u *user) {
	suspended, reinstated := newTenant(), newTenant()
	u.receive(about("a"+suspended, suspended, true, 1))
	u.receive(about("b"+reinstated, reinstated, true, 1))
	u.receive(about("c"+reinstated, reinstated, false, 3))
	suite.Equal(u.t, "a late event", u.receive(about("d"+reinstated, reinstated, true, 2)), inbox.Stale)
	suite.Equal(u.t, "a late event of one time", u.receive(about("b"+reinstated+"2", reinstated, true, 3)), inbox.Stale)
	all, err := u.h.Store.TenantStates(u.t.Context())
	suite.Must(u.t, "TenantStates", err)
	if !slices.IsSortedFunc(all, func(a, b tenants.Suspension) int { return strings.Compare(a.Tenant, b.Tenant) }) {
		u.t.Errorf("not ordered: %v", all)
	}
	for _, want := range []tenants.Suspension{
		{Tenant: suspended, Suspended: true, Reason: "a" + suspended, At: t0.Add(time.Minute), Event: "a" + suspended},
		{Tenant: reinstated, Reason: "c" + reinstated, At: t0.Add(3 * time.Minute), Event: "c" + reinstated},
	} {
		if !slices.Contains(all, want) {
			u.t.Errorf("no %+v in %+v", want, all)
		}
	}
	open, err := u.h.Store.SuspendedTenants(u.t.Context(), "", 0)
	suite.Must(u.t, "SuspendedTenants", err)
	if slices.ContainsFunc(open, func(s tenants.Suspension) bool { return s.Tenant == reinstated || !s.Suspended }) {
		u.t.Errorf("suspended: %+v", open)
	}
	u.receive(about("e"+reinstated, reinstated, true, 4))
	suspendedInPages(u, suspended, reinstated)
}

// suspendedInPages reads pages of one tenant. It checks only the order and the given tenants, because other cases
// change tenants meanwhile.
func suspendedInPages(u *user, tenants ...string) {
	u.t.Helper()
	var names []string
	for after, more := "", true; more; {
		page, err := u.h.Store.SuspendedTenants(u.t.Context(), after, 1)
		suite.Must(u.t, "SuspendedTenants", err)
		if more = len(page) > 0; !more {
			continue
		}
		if len(page) > 1 || !page[0].Suspended || page[0].Tenant <= after {
			u.t.Fatalf("page after %q: %+v", after, page)
		}
		after = page[0].Tenant
		names = append(names, after)
	}
	for _, tenant := range tenants {
		if !slices.Contains(names, tenant) {
			u.t.Errorf("no tenant %s in the pages: %v", tenant, names)
		}
	}
}

func newTenant() string {
	h := ident.New()
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:]
}
