package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/testdb"
)

func spanChecks() []check {
	return []check{
		{"Pages", spanPages},
		{"OneTenant", spanTenant},
		{"WhoIsTold", spanWho},
		{"Registered", spanRegistered},
		{"WhileOthersBegin", spanUnderWriters},
		{"Uncounted", spanUncounted},
		{"Nothing", spanNothing},
		{"Refused", spanRefused},
	}
}

// ownerRange is a range of owners unused by other tests, with the same install IDs in several tenants.
type ownerRange struct {
	*user
	prefix string
}

func newOwnerRange(u *user) ownerRange { return ownerRange{u, newUUID()[:24]} }

func (s ownerRange) owner(tenant, install int) ext.Owner {
	return ext.Owner{
		Tenant:  ext.TenantID(fmt.Sprintf("%s%012x", s.prefix, tenant<<40)),
		Install: ext.InstallID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", install<<24)),
	}
}

func (s ownerRange) of(o ext.Owner) *user {
	v := *s.user
	v.owner = o
	return &v
}

func (s ownerRange) all() inspection.Span {
	return inspection.Span{
		All:   true,
		After: ext.Owner{Tenant: ext.TenantID(s.prefix + "000000000000"), Install: "00000000-0000-0000-0000-000000000000"},
		Last:  ext.Owner{Tenant: ext.TenantID(s.prefix + "ffffffffffff"), Install: "ffffffff-ffff-ffff-ffff-ffffffffffff"},
	}
}

func (s ownerRange) list(span inspection.Span, limit int) (all []inspection.InstallUsage) {
	s.t.Helper()
	for {
		page, err := s.h.Inspector.ListUsage(s.t.Context(), span, limit)
		must(s.t, "ListUsage", err)
		if all = append(all, page...); len(page) < limit {
			return all
		}
		span.After = page[limit-1].Owner
	}
}

func (s ownerRange) uncounted(span inspection.Span, limit int) []ext.Owner {
	s.t.Helper()
	all, err := s.h.Inspector.Uncounted(s.t.Context(), span, limit)
	must(s.t, "Uncounted", err)
	return all
}

func (s ownerRange) want(what string, span inspection.Span, owners ...ext.Owner) {
	s.t.Helper()
	var want []inspection.InstallUsage
	for _, o := range owners {
		v := s.of(o)
		registered, err := s.h.Installs.Install(s.t.Context(), o)
		if !errors.Is(err, ext.ErrNoInstall) {
			must(s.t, "Install", err)
		}
		want = append(want, inspection.InstallUsage{Owner: o, Counters: v.stored(), Registered: registered})
	}
	for _, limit := range []int{1, 2, 3, len(owners) + 1, ext.MaxPage} {
		equal(s.t, fmt.Sprint(what, ", by ", limit), s.list(span, limit), want)
	}
	equal(s.t, what+", uncounted", s.uncounted(span, 10), []ext.Owner(nil))
}

func spanPages(_ *testing.T, u *user) {
	s := newOwnerRange(u)
	var all []ext.Owner
	for tenant := 1; tenant < 250; tenant += 80 {
		for _, install := range []int{0x01, 0x0a, 0x9f, 0xa0, 0xff} {
			all = append(all, s.owner(tenant, install))
		}
	}
	for _, i := range rand.Perm(len(all)) {
		s.of(all[i]).apply(put("a", "a", fmt.Sprint(i*i)), put(fmt.Sprint("b", i%3), "a", `1`))
	}
	s.want("all", s.all(), all...)
	span := s.all()
	for i, o := range all {
		span.After = o
		if i%6 == 0 {
			s.want("all after one", span, all[i+1:]...)
		}
	}
	span.After = s.owner(1, 0x0b)
	s.want("all after an unused ID", span, all[2:]...)
}

func spanTenant(_ *testing.T, u *user) {
	s := newOwnerRange(u)
	for tenant := range 3 {
		for install := range 4 {
			s.of(s.owner(tenant+1, install+1)).apply(put("a", "a", `1`))
		}
	}
	tenant := func(n int) inspection.Span { return inspection.Span{Tenant: s.owner(n, 1).Tenant} }
	s.want("the second tenant", tenant(2), s.owner(2, 1), s.owner(2, 2), s.owner(2, 3), s.owner(2, 4))
	s.want("the last tenant", tenant(3), s.owner(3, 1), s.owner(3, 2), s.owner(3, 3), s.owner(3, 4))
	s.want("a tenant without installs", tenant(4))
	span := tenant(2)
	span.After = s.owner(2, 2)
	s.want("behind one", span, s.owner(2, 3), s.owner(2, 4))
	span.After = s.owner(2, 4)
	s.want("after its last", span)
}

func spanWho(t *testing.T, u *user) {
	s := newOwnerRange(u)
	writer, expired, empty, schemas := s.of(s.owner(1, 2)), s.of(s.owner(1, 3)), s.of(s.owner(2, 1)), s.of(s.owner(2, 2))
	registered, revoked, refused := s.of(s.owner(3, 1)), s.of(s.owner(3, 2)), s.of(s.owner(4, 1))
	writer.apply(put("a", "a", `1`))
	expired.apply(expiring("a", "a", `1`, s.now+second))
	s.now += minute
	empty.apply(put("a", "a", `1`))
	empty.apply(del("a", "a"))
	schemas.activate("a", schemas.register("a", `{}`).Version)
	registered.setInstall(ext.Registration{Tier: "gold"}, false)
	revoked.revoke()
	_, err := refused.try(guarded(put("a", "a", `1`), ifAny))
	wantCode(t, "a precondition that does not hold", err, errcode.Precondition)
	refused.wantGone("a", "a")
	s.want("all", s.all(), writer.owner, expired.owner, empty.owner)
	equal(t, "expired records are counted until a write updates the counters", s.list(s.all(), 10)[1].Counters, ext.Counters{Bytes: 3, Keys: 1, Namespaces: 1})
	equal(t, "deleted records are not counted", s.list(s.all(), 10)[2].Counters, ext.Counters{})
}

func spanRegistered(_ *testing.T, u *user) {
	s := newOwnerRange(u)
	var all []ext.Owner
	for i, r := range registrations() {
		v := s.of(s.owner(i/2, i+1))
		v.setInstall(r, false)
		v.apply(put("a", "a", `1`))
		if i%2 == 1 {
			v.now += second
			v.revoke()
		}
		all = append(all, v.owner)
	}
	s.want("all", s.all(), all...)
}

func spanUnderWriters(t *testing.T, u *user) {
	s := newOwnerRange(u)
	var there []ext.Owner
	for tenant := range 4 {
		for install := range 4 {
			there = append(there, s.owner(tenant, 16*install+8))
		}
	}
	for _, o := range there {
		s.of(o).apply(put("a", "a", `1`))
	}
	written := make(chan error, 1)
	go func() {
		written <- errors.Join(testdb.Concurrently(7, func(i int) (err error) {
			for j := 0; j < 8 && err == nil; j++ {
				_, err = s.of(s.owner(j%4, 16*(j/2)+i)).try(put("a", "a", `1`))
			}
			return err
		})...)
	}()
	for range 4 {
		var all []ext.Owner
		for _, in := range s.list(s.all(), 3) {
			all = append(all, in.Owner)
		}
		if !slices.IsSortedFunc(all, ext.Owner.Compare) || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("not in order, or with duplicates: %v", all)
		}
		for _, o := range there {
			if !slices.Contains(all, o) {
				t.Errorf("%v is missing", o)
			}
		}
		equal(t, "uncounted", s.uncounted(s.all(), 10), []ext.Owner(nil))
	}
	must(t, "writers", <-written)
}

func spanUncounted(t *testing.T, u *user) {
	s := newOwnerRange(u)
	var all []ext.Owner
	for tenant := range 2 {
		for install := range 4 {
			o := s.owner(tenant+1, install+1)
			s.of(o).apply(put("a", "a", `1`), put("b", "a", `1`))
			all = append(all, o)
		}
	}
	at := func(o ext.Owner) string {
		return fmt.Sprintf(` WHERE tenant_id = '%s' AND extension_install_id = '%s'`, o.Tenant, o.Install)
	}
	gone, records, space, zero := all[1], all[4], all[6], all[7]
	for _, o := range []ext.Owner{gone, records, space} {
		u.h.Damage(t, `DELETE FROM ext_storage_usage`+at(o))
	}
	u.h.Damage(t, `UPDATE ext_storage_usage SET bytes_used = 0, keys_count = 0, namespaces_count = 0, change_seq = 0`+at(zero))
	u.h.Damage(t, `DELETE FROM ext_storage_namespaces`+at(records))
	u.h.Damage(t, `DELETE FROM ext_storage_records`+at(space))

	equal(t, "all", s.uncounted(s.all(), 10), []ext.Owner{gone, records, space, zero})
	equal(t, "the first", s.uncounted(s.all(), 2), []ext.Owner{gone, records})
	span := s.all()
	span.After, span.Last = gone, space
	equal(t, "a part", s.uncounted(span, 10), []ext.Owner{records, space})
	equal(t, "of a tenant", s.uncounted(inspection.Span{Tenant: gone.Tenant}, 10), []ext.Owner{gone})
	equal(t, "the counted installs", len(s.list(s.all(), 3)), 4)
	for i, o := range all {
		audit, err := u.h.Inspector.Audit(t.Context(), o)
		must(t, "Audit", err)
		equal(t, fmt.Sprintf("the audit of %d is right", i), audit.Right(), !slices.Contains([]ext.Owner{gone, records, space, zero}, o))
	}
}

func spanNothing(t *testing.T, u *user) {
	u.faulty(t)
	for _, span := range []inspection.Span{{All: true}, {Tenant: u.owner.Tenant}, {All: true, After: u.owner}} {
		page, err := u.h.Inspector.ListUsage(t.Context(), span, 10)
		must(t, "ListUsage", err)
		equal(t, "installs", len(page), 0)
		lost, err := u.h.Inspector.Uncounted(t.Context(), span, 10)
		must(t, "Uncounted", err)
		equal(t, "uncounted", len(lost), 0)
	}
	u.apply(put("a", "a", `1`))
	page, err := u.h.Inspector.ListUsage(t.Context(), inspection.Span{All: true}, 10)
	must(t, "ListUsage", err)
	equal(t, "the first", page, []inspection.InstallUsage{{Owner: u.owner, Counters: ext.Counters{Bytes: 3, Keys: 1, Namespaces: 1}}})
}

func spanRefused(t *testing.T, u *user) {
	u.apply(put("a", "a", `1`))
	other := u.other().owner
	for _, span := range []inspection.Span{
		{}, {After: u.owner}, {All: true, Tenant: u.owner.Tenant}, {All: true, Tenant: u.owner.Tenant, After: u.owner},
		{All: true, After: ext.Owner{Tenant: u.owner.Tenant}}, {All: true, After: ext.Owner{Install: u.owner.Install}},
		{Tenant: u.owner.Tenant, After: ext.Owner{Tenant: u.owner.Tenant}}, {Tenant: u.owner.Tenant, After: ext.Owner{Install: u.owner.Install}},
		{Tenant: u.owner.Tenant, After: other}, {Tenant: u.owner.Tenant, Last: other},
		{All: true, Last: ext.Owner{Tenant: u.owner.Tenant}}, {Last: u.owner},
	} {
		wantCode(t, fmt.Sprintf("%+v", span), span.Check(), errcode.Denied)
		page, err := u.h.Inspector.ListUsage(t.Context(), span, 10)
		wantCode(t, fmt.Sprintf("ListUsage of %+v", span), err, errcode.Denied)
		equal(t, "installs", len(page), 0)
		lost, err := u.h.Inspector.Uncounted(t.Context(), span, 10)
		wantCode(t, fmt.Sprintf("Uncounted of %+v", span), err, errcode.Denied)
		equal(t, "uncounted", len(lost), 0)
	}
}
