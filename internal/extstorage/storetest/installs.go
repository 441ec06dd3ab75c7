package storetest

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func installChecks() []check {
	return []check{
		{"SetAndRead", setAndRead},
		{"Change", changeInstall},
		{"Revoke", revokeInstall},
		{"RevokedWhileSet", revokedWhileSet},
		{"SetTogether", setTogether},
		{"Restore", restoreInstall},
		{"RestoreDeleted", restoreDeleted},
		{"RestoredWhileChanged", restoredWhileChanged},
		{"SwapQuota", swapQuota},
		{"SwapQuotaTogether", swapQuotaTogether},
		{"ApartFromRecords", installApart},
	}
}

func (u *user) setInstall(r ext.Registration, restore bool) (created bool) {
	u.t.Helper()
	in, created, err := u.h.Installs.SetInstall(u.t.Context(), u.owner, r, restore, u.now)
	must(u.t, "SetInstall", err)
	u.wantInstall(in)
	return created
}

func (u *user) revoke() {
	u.t.Helper()
	must(u.t, "RevokeInstall", u.h.Installs.RevokeInstall(u.t.Context(), u.owner, u.now))
}

func (u *user) install() ext.Install {
	u.t.Helper()
	in, err := u.h.Installs.Install(u.t.Context(), u.owner)
	must(u.t, "Install", err)
	return in
}

func (u *user) wantInstall(want ext.Install) {
	u.t.Helper()
	got := u.install()
	if (got.Namespaces == nil) != (want.Namespaces == nil) || !maps.Equal(got.Namespaces, want.Namespaces) {
		u.t.Errorf("namespaces %v, want %v", got.Namespaces, want.Namespaces)
	}
	got.Namespaces, want.Namespaces = nil, nil
	equal(u.t, "install", got, want)
}

func registrations() []ext.Registration {
	return []ext.Registration{
		{},
		{Tier: "gold"},
		{Tier: `"é'`, Namespaces: map[ext.Namespace]ext.Access{}},
		{Tier: "a", Overrides: ext.Overrides{Quota: ext.Quota{Bytes: 1 << 40, Namespaces: 7, Keys: 1 << 30}, Until: t0 + day}},
		{Tier: "b", Namespaces: map[ext.Namespace]ext.Access{"s": ext.Read, "t": ext.Modify, "a-b": ext.Read | ext.Modify, "none": 0}},
	}
}

func setAndRead(t *testing.T, u *user) {
	_, err := u.h.Installs.Install(t.Context(), u.owner)
	wantError(t, "an install that is not registered", err, ext.ErrNoInstall)
	for _, r := range registrations() {
		u := u.other()
		equal(t, "created", u.setInstall(r, false), true)
		u.wantInstall(ext.Install{Registration: r, CreatedAt: u.now, UpdatedAt: u.now})
	}
}

func changeInstall(t *testing.T, u *user) {
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	full := ext.Registration{
		Tier: "gold", Overrides: ext.Overrides{Quota: ext.Quota{Bytes: 5}, Until: t0 + day},
		Namespaces: map[ext.Namespace]ext.Access{"s": ext.Read},
	}
	equal(t, "created", []bool{u.setInstall(full, false), v.setInstall(full, false)}, []bool{true, true})
	u.now += hour
	equal(t, "created again", u.setInstall(ext.Registration{Tier: "tin"}, false), false)
	u.wantInstall(ext.Install{Registration: ext.Registration{Tier: "tin"}, CreatedAt: t0, UpdatedAt: t0 + hour})
	v.wantInstall(ext.Install{Registration: full, CreatedAt: t0, UpdatedAt: t0})
}

func revokeInstall(t *testing.T, u *user) {
	gold, tin := ext.Registration{Tier: "gold", Namespaces: map[ext.Namespace]ext.Access{"s": ext.Read}}, ext.Registration{Tier: "tin"}
	v := u.other()
	v.revoke()
	v.wantInstall(ext.Install{RevokedAt: t0, CreatedAt: t0, UpdatedAt: t0})
	equal(t, "created a revoked install", v.setInstall(gold, false), false)
	v.wantInstall(ext.Install{Registration: gold, RevokedAt: t0, CreatedAt: t0, UpdatedAt: t0})

	u.setInstall(gold, false)
	u.now += second
	u.revoke()
	revoked := ext.Install{Registration: gold, RevokedAt: t0 + second, CreatedAt: t0, UpdatedAt: t0 + second}
	u.wantInstall(revoked)
	u.now += second
	u.revoke()
	u.wantInstall(revoked)
	u.setInstall(tin, false)
	u.wantInstall(ext.Install{Registration: tin, RevokedAt: t0 + second, CreatedAt: t0, UpdatedAt: u.now})
	u.now += second
	u.setInstall(tin, true)
	u.wantInstall(ext.Install{Registration: tin, CreatedAt: t0, UpdatedAt: u.now})
	u.now += second
	u.revoke()
	equal(t, "revoked again", u.install().RevokedAt, u.now)
}

func revokedWhileSet(t *testing.T, u *user) {
	for i := range 10 {
		u := u.other()
		if i%2 == 0 {
			u.setInstall(ext.Registration{}, false)
		}
		errs := testdb.Concurrently(parallel, func(i int) error {
			if i == parallel/2 {
				return u.h.Installs.RevokeInstall(t.Context(), u.owner, u.now)
			}
			_, _, err := u.h.Installs.SetInstall(t.Context(), u.owner, ext.Registration{Tier: "tin"}, false, u.now+ext.Moment(i))
			return err
		})
		must(t, "together", errors.Join(errs...))
		in := u.install()
		equal(t, "revoked, and registered", []any{in.RevokedAt, in.Tier}, []any{u.now, "tin"})
	}
}

func (u *user) restore() error { return u.h.Installs.RestoreInstall(u.t.Context(), u.owner, u.now) }

func restoreInstall(t *testing.T, u *user) {
	wantError(t, "an install that is not registered", u.restore(), ext.ErrNoInstall)
	_, err := u.h.Installs.Install(t.Context(), u.owner)
	wantError(t, "an install that was not restored", err, ext.ErrNoInstall)
	for _, r := range registrations() {
		u := u.other()
		u.setInstall(r, false)
		u.revoke()
		u.now += hour
		for range 2 {
			must(t, "RestoreInstall", u.restore())
			u.wantInstall(ext.Install{Registration: r, CreatedAt: t0, UpdatedAt: t0 + hour})
		}
	}
}

func restoreDeleted(t *testing.T, u *user) {
	u.setInstall(ext.Registration{Tier: "gold"}, false)
	u.fillAll()
	_, err := u.h.Deletions.Close(t.Context(), u.owner, u.now)
	must(t, "Close", err)
	wantError(t, "an install that is being deleted", u.restore(), ext.ErrInstallDeleted)
	u.deleteAll(100)
	u.now += hour
	must(t, "RestoreInstall", u.restore())
	u.wantInstall(ext.Install{CreatedAt: u.now, UpdatedAt: u.now, TokensAfter: u.now})
	u.apply(put("s", "a", `1`))
	u.wholeTenant(100)
	wantError(t, "an install of a deleted tenant", u.restore(), ext.ErrInstallDeleted)
}

func restoredWhileChanged(t *testing.T, u *user) {
	const tiers = parallel / 2
	for range 10 {
		u := u.other()
		tier := func(i int) ext.Registration { return ext.Registration{Tier: fmt.Sprint(i)} }
		u.setInstall(tier(0), false)
		u.revoke()
		errs := testdb.Concurrently(parallel, func(i int) error {
			if i > 0 {
				return u.restore()
			}
			for i := range tiers {
				done, err := u.h.Installs.SwapQuota(t.Context(), u.owner, tier(i), tier(i+1), u.now)
				if err == nil && !done {
					err = fmt.Errorf("tier %d was replaced by an older one", i)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		must(t, "together", errors.Join(errs...))
		in := u.install()
		equal(t, "tier, and revoked", []any{in.Tier, in.RevokedAt}, []any{fmt.Sprint(tiers), ext.Moment(0)})
	}
}

func setTogether(t *testing.T, u *user) {
	created := make([]bool, parallel)
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		_, created[i], err = u.h.Installs.SetInstall(t.Context(), u.owner, ext.Registration{}, false, u.now)
		return err
	})
	must(t, "together", errors.Join(errs...))
	n := 0
	for _, c := range created {
		if c {
			n++
		}
	}
	equal(t, "the number of creations", n, 1)
}

func swapQuota(t *testing.T, u *user) {
	swap := func(from, to ext.Registration) bool {
		t.Helper()
		done, err := u.h.Installs.SwapQuota(t.Context(), u.owner, from, to, u.now)
		must(t, "SwapQuota", err)
		return done
	}
	gold := ext.Registration{Tier: "gold"}
	equal(t, "swapped an install that is not registered", swap(ext.Registration{}, gold), false)
	u.revoke()
	equal(t, "swapped an install without overrides", swap(ext.Registration{}, gold), true)
	all := registrations()
	before := ext.Registration{Tier: "gold", Namespaces: map[ext.Namespace]ext.Access{"s": ext.Read}}
	u.setInstall(before, false)
	for _, to := range all {
		u.now += second
		to.Namespaces = before.Namespaces
		equal(t, "swapped", swap(before, to), true)
		u.wantInstall(ext.Install{Registration: to, RevokedAt: t0, CreatedAt: t0, UpdatedAt: u.now})
		wrong := to
		for _, change := range []func(){
			func() { wrong.Tier += "x" }, func() { wrong.Overrides.Bytes++ }, func() { wrong.Overrides.Namespaces++ },
			func() { wrong.Overrides.Keys++ }, func() { wrong.Overrides.Until++ },
		} {
			wrong = to
			change()
			equal(t, "swapped another quota", swap(wrong, gold), false)
		}
		before = to
	}
}

func swapQuotaTogether(t *testing.T, u *user) {
	u.setInstall(ext.Registration{}, false)
	done := make([]bool, parallel)
	errs := testdb.Concurrently(parallel, func(i int) (err error) {
		to := ext.Registration{Overrides: ext.Overrides{Quota: ext.Quota{Bytes: int64(i + 1)}, Until: u.now + day}}
		done[i], err = u.h.Installs.SwapQuota(t.Context(), u.owner, ext.Registration{}, to, u.now)
		return err
	})
	must(t, "together", errors.Join(errs...))
	for i := range done {
		equal(t, "swapped", done[i], u.install().Overrides.Bytes == int64(i+1))
	}
}

func installApart(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`))
	before := u.state()
	u.setInstall(ext.Registration{Tier: "gold"}, false)
	u.revoke()
	u.wantState("registering", before)
	u.apply(put("s", "b", `1`))
}
