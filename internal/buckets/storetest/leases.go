package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/testdb"
)

func leaseChecks() []check {
	return []check{{"Lease", lease}, {"Expired", expiredLease}, {"Race", leaseRace}}
}

func (u *user) lease(holder string, length time.Duration) buckets.Lease {
	u.t.Helper()
	l, err := u.h.Leases.Lease(u.t.Context(), buckets.Lease{Name: string(u.owner), Holder: holder, Process: "process of " + holder, Left: length})
	must(u.t, "Lease", err)
	return l
}

func (u *user) endLease(holder string) {
	u.t.Helper()
	must(u.t, "EndLease", u.h.Leases.EndLease(u.t.Context(), string(u.owner), holder))
}

func lease(t *testing.T, u *user) {
	equal(t, "a new lease", u.lease("a", time.Hour).Holder, "a")
	equal(t, "the same again", u.lease("a", 2*time.Hour).Holder, "a")
	l := u.lease("b", 2*time.Hour)
	equal(t, "another holder gets", []any{l.Name, l.Holder, l.Process}, []any{string(u.owner), "a", "process of a"})
	if l.Left <= time.Hour || l.Left > 2*time.Hour {
		t.Errorf("%s is left of the extended lease", l.Left)
	}
	equal(t, "another name", u.other().lease("b", time.Hour).Holder, "b")
	u.endLease("b")
	equal(t, "not ended by another", u.lease("b", 2*time.Hour).Holder, "a")
	u.endLease("a")
	u.endLease("a")
	equal(t, "after the end", u.lease("b", time.Hour).Holder, "b")
}

func expiredLease(t *testing.T, u *user) {
	u.lease("a", time.Microsecond)
	for u.lease("b", time.Hour).Holder != "b" { // until the clock ticks
	}
	equal(t, "of b", u.lease("a", time.Hour+time.Minute).Holder, "b")
	equal(t, "one from the future", u.lease("c", time.Minute).Holder, "c")
	u.endLease("b")
	equal(t, "of c", u.lease("b", time.Hour).Holder, "c")
}

func leaseRace(t *testing.T, u *user) {
	const callers = 20
	var got [callers]string
	var winners atomic.Int32
	for _, err := range testdb.Concurrently(callers, func(i int) error {
		me := string(rune('a' + i))
		l, err := u.h.Leases.Lease(t.Context(), buckets.Lease{Name: string(u.owner), Holder: me, Left: time.Hour})
		if got[i] = l.Holder; l.Holder == me {
			winners.Add(1)
		}
		return err
	}) {
		must(t, "Lease", err)
	}
	for _, holder := range got {
		equal(t, "holder", holder, got[0])
	}
	equal(t, "winners", winners.Load(), 1)
}
