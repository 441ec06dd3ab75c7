package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/testdb"
)

func usageChecks() []check {
	return []check{
		{"LiveRecords", usageLive},
		{"EveryMoment", usageEveryMoment},
		{"Totals", totals},
		{"Filled", filledInstalls},
		{"Ping", ping},
	}
}

func usageLive(t *testing.T, u *user) {
	equal(t, "a new install", u.usage(), ext.Usage{})
	op := put("b", "a", `"é"`)
	op.Metadata = `{"m":1}`
	u.apply(op, put("a", "a", `1`), expiring("a", "b", `12`, u.now+minute), expiring("c", "c", `123`, u.now+minute))
	equal(t, "usage", u.usage(), ext.Usage{
		Counters:   ext.Counters{Bytes: 23, Keys: 4, Namespaces: 3},
		Namespaces: []ext.NamespaceUsage{{Namespace: "a", Keys: 2, Bytes: 7}, {Namespace: "b", Keys: 1, Bytes: 11}, {Namespace: "c", Keys: 1, Bytes: 5}},
	})
	u.now += minute
	equal(t, "usage after two have expired", u.usage(), ext.Usage{
		Counters:   ext.Counters{Bytes: 14, Keys: 2, Namespaces: 2},
		Namespaces: []ext.NamespaceUsage{{Namespace: "a", Keys: 1, Bytes: 3}, {Namespace: "b", Keys: 1, Bytes: 11}},
	})
	u.state()
}

func usageEveryMoment(t *testing.T, u *user) {
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			a, err := u.h.Inspector.Audit(t.Context(), u.owner)
			if err == nil && !a.Right() {
				err = fmt.Errorf("the counters are wrong: %+v", a)
			}
			select {
			case <-stop:
				done <- err
				return
			default:
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	errs := testdb.Concurrently(8, func(i int) (err error) {
		for j := 0; j < 20 && err == nil; j++ {
			at := u.at(u.now + ext.Moment(j)*second)
			at.quota.Keys = 4
			switch (i + j) % 4 {
			case 0:
				_, err = at.try(del("s", fmt.Sprint(j%7)), del("t", fmt.Sprint(i)))
			case 1:
				at.now += ext.Moment(i-4) * second
				_, err = at.try(put("s", fmt.Sprint(j), fmt.Sprint(i*j)))
			default:
				_, err = at.try(expiring("s", fmt.Sprint(j%7), fmt.Sprint(i*j*j), at.now+3*second), put(fmt.Sprint("t", j%3), fmt.Sprint(i), `"x"`))
			}
			if isQuota(err) {
				err = nil
			}
		}
		return err
	})
	close(stop)
	must(t, "counting", <-done)
	must(t, "writers", errors.Join(errs...))
	u.now += hour
	u.state()
}

func totals(t *testing.T, u *user) {
	u.faulty(t)
	want := func(what string, soft int64, want inspection.Totals) {
		t.Helper()
		got, err := u.h.Inspector.Totals(t.Context(), soft, u.now)
		must(t, "Totals", err)
		equal(t, what, got, want)
	}
	want("of nothing", 0, inspection.Totals{})
	v, w := u.other(), u.other()
	v.owner.Tenant = u.owner.Tenant
	u.apply(put("a", "a", `1`), put("b", "a", `1`))
	v.apply(put("a", "a", `12`), expiring("a", "b", `1`, u.now+second), expiring("a", "c", `1`, u.now+second+1))
	w.apply(put("a", "a", `"é"`))
	all := inspection.Totals{Installs: 3, Bytes: 22, Keys: 6, Namespaces: 4}
	want("of all", 16, all)
	u.now += second
	all.ExpiredPending, all.TenantsOverSoft = 1, 1
	want("with an expired record, and a tenant over the soft limit", 15, all)
	u.now++
	all.ExpiredPending, all.TenantsOverSoft = 2, 2
	want("with both", 5, all)
	equal(t, "swept", u.sweep(10), 2)
	want("after the sweep", 6, inspection.Totals{Installs: 3, Bytes: 16, Keys: 4, Namespaces: 4, TenantsOverSoft: 1})
	w.apply(del("a", "a"))
	want("with an install that has deleted everything", 100, inspection.Totals{Installs: 3, Bytes: 10, Keys: 3, Namespaces: 3})
}

func filledInstalls(t *testing.T, u *user) {
	u.faulty(t)
	least := ext.Quota{Bytes: 100, Namespaces: 5, Keys: 10}
	want := func(what string, want ...inspection.Filling) {
		t.Helper()
		var got []inspection.Filling
		err := u.h.Inspector.Filled(t.Context(), least, u.now, func() { got = nil }, func(f inspection.Filling) { got = append(got, f) })
		must(t, "Filled", err)
		slices.SortFunc(got, func(a, b inspection.Filling) int { return cmp.Compare(a.Bytes, b.Bytes) })
		equal(t, what, got, want)
	}
	want("of nothing")
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	u.apply(put("a", "a", `"`+strings.Repeat("x", 75)+`"`))
	want("just below")
	u.apply(put("a", "a", `"`+strings.Repeat("x", 76)+`"`))
	full := inspection.Filling{Bytes: 80, Namespaces: 1, Keys: 1}
	want("at four fifths of the bytes", full)

	v.register("s", `{}`)
	v.register("t", `{}`)
	v.apply(put("s", "a", `1`), put("b", "a", `1`))
	want("below in namespaces", full)
	v.register("u", `{}`)
	many := inspection.Filling{Bytes: 6, Namespaces: 4, Keys: 1}
	want("with schemas", many, full)

	w := u.other()
	for i := range 8 {
		w.apply(put("a", fmt.Sprint(i), `1`), put("b", fmt.Sprint(i/2), `1`))
	}
	keys := inspection.Filling{Bytes: 36, Namespaces: 2, Keys: 8}
	want("with keys", many, keys, full)
	x := u.other()
	x.apply(put("a", "a", `1`))
	x.setInstall(ext.Registration{Tier: "gold", Overrides: ext.Overrides{Quota: ext.Quota{Keys: 1}, Until: u.now + second}}, false)
	want("with overrides", inspection.Filling{Bytes: 3, Namespaces: 1, Keys: 1, Registered: x.install()}, many, keys, full)
	u.now += second
	want("with overrides that have ended", many, keys, full)
	u.close()
	want("one is deleted", many, keys)
}

func ping(t *testing.T, u *user) { must(t, "Ping", u.h.Store.Ping(t.Context())) }
