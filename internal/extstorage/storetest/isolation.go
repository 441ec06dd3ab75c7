package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

func isolationChecks() []check {
	return []check{
		{"Strangers", func(t *testing.T, u *user) { apart(t, u, u.other()) }},
		{"SameTenant", func(t *testing.T, u *user) {
			v := u.other()
			v.owner.Tenant = u.owner.Tenant
			apart(t, u, v)
		}},
		{"SameInstallOfAnotherTenant", func(t *testing.T, u *user) {
			v := u.other()
			v.owner.Install = u.owner.Install
			apart(t, u, v)
		}},
		{"TheOtherWayRound", func(t *testing.T, u *user) {
			v := u.other()
			v.owner = ext.Owner{Tenant: ext.TenantID(u.owner.Install), Install: ext.InstallID(u.owner.Tenant)}
			apart(t, u, v)
		}},
		{"Nobody", nobody},
		{"CallerThatHasGone", callerGone},
	}
}

func apart(t *testing.T, a, b *user) {
	a.apply(put("s", "a", `"secret"`), put("s", "b", `"secret"`), expiring("t", "c", `"secret"`, a.now+minute))
	a.activate("u", a.register("u", `{}`).Version)
	a.register("u", `true`)
	before, events, schemas := a.state(), a.events(), a.schemas("u")

	b.wantState("another user's writes", state{})
	b.wantGone("s", "a")
	equal(t, "changes", b.changes(0), []ext.Change(nil))
	equal(t, "events", len(b.events()), 0)
	equal(t, "schemas", b.schemas("u"), []ext.Schema(nil))
	equal(t, "active", b.active("u"), ext.Schema{})
	equal(t, "deleted", b.do(del("s", "a")).Existed, false)
	for _, g := range []ext.Precondition{ifRevision(1), ifMatch(1), ifAny} {
		_, err := b.try(guarded(put("s", "a", `1`), g))
		wantCode(t, "a precondition of another's record", err, errcode.Conflict, errcode.Precondition)
	}
	b.apply(put("u", "a", `1`))
	equal(t, "item", b.do(guarded(put("s", "a", `"mine"`), ifNone)), ext.Item{Revision: 1, Seq: 2, Created: true, CreatedAt: b.now, UpdatedAt: b.now})
	b.apply(put("s", "a", `"mine"`), put("t", "c", `"mine"`), del("s", "b"))
	b.activate("u", b.register("u", `{}`).Version)
	b.apply(del("u", "a"), del("s", "a"), del("t", "c"))
	equal(t, "counters", b.audited(), ext.Counters{})

	a.wantState("another user's operations", before)
	equal(t, "events", a.events(), events)
	equal(t, "schemas", a.schemas("u"), schemas)
}

type method struct {
	name   string
	writes bool
	call   func(ctx context.Context, u *user) error
}

func methods() []method {
	return slices.Concat(tokenMethods(), readMethods(), []method{
		{"Apply", true, func(ctx context.Context, u *user) error {
			w := u.write(put("s", "new", `1`), put("s", "a", `"changed"`), del("s", "b"), expiring("n", "c", `1`, u.now+1))
			w.IdempotencyKey = &ext.IdempotencyKey{Key: fmt.Sprint(u.now)}
			_, err := u.h.Store.Apply(ctx, u.owner, w)
			return err
		}},
		{"Apply over an expired record", true, func(ctx context.Context, u *user) error {
			w := u.write(put("s", "over", `1`))
			w.Quota.Keys = 3
			_, err := u.h.Store.Apply(ctx, u.owner, w)
			return err
		}},
		{"Apply that revises", true, func(ctx context.Context, u *user) error {
			w := u.write(put("s", "x", `1`), add("s", "counter", "1"), merge("s", "x", `{"m":1}`))
			_, err := u.h.Store.Apply(ctx, u.owner, w)
			return err
		}},
		{"Register", true, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.Register(ctx, u.owner, ext.Schema{Namespace: "s", Document: []byte(`{}`), CreatedAt: u.now}, u.quota)
			return err
		}},
		{"SetStatus", true, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.SetStatus(ctx, u.owner, ext.SchemaID{Namespace: "s", Version: 1}, ext.Active, u.now)
			return err
		}},
		{"Restore a schema", true, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.Restore(ctx, u.owner, elsewhere("s", 1000, ext.Active, `{}`), u.quota, u.now)
			return err
		}},
		{"Apply imported records", true, func(ctx context.Context, u *user) error {
			w := u.write(restored(put("restored", "a", `1`), 7, u.now, u.now))
			w.After = 1000
			_, err := u.h.Store.Apply(ctx, u.owner, w)
			return err
		}},
		{"SetInstall", true, func(ctx context.Context, u *user) error {
			_, _, err := u.h.Installs.SetInstall(ctx, u.owner, ext.Registration{Tier: "gold"}, false, u.now)
			return err
		}},
		{"DropSchemas", true, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.DropSchemas(ctx, u.owner, "none", 0, u.now)
			return err
		}},
		{"RestoreInstall", true, func(ctx context.Context, u *user) error {
			return u.h.Installs.RestoreInstall(ctx, u.owner, u.now)
		}},
		{"RevokeInstall", true, func(ctx context.Context, u *user) error {
			return u.h.Installs.RevokeInstall(ctx, u.owner, u.now)
		}},
	})
}

func readMethods() []method {
	return []method{
		{"Get", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Store.Get(ctx, u.owner, "s", "a", u.now)
			return err
		}},
		{"List", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Store.List(ctx, u.owner, ext.Query{Namespace: "s", Limit: 10, Now: u.now})
			return err
		}},
		{"Export", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Store.Export(ctx, u.owner, ext.ExportQuery{Limit: 10, Now: u.now})
			return err
		}},
		{"Changes", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Store.Changes(ctx, u.owner, 0, 10)
			return err
		}},
		{"Usage", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Store.Usage(ctx, u.owner, u.now)
			return err
		}},
		{"Audit", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Inspector.Audit(ctx, u.owner)
			return err
		}},
		{"Schemas", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.Schemas(ctx, u.owner, ext.SchemaQuery{Namespace: "s", Limit: 10})
			return err
		}},
		{"Schema", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.Schema(ctx, u.owner, "s", 1)
			return err
		}},
		{"ExportSchemas", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.ExportSchemas(ctx, u.owner, ext.SchemaPosition{}, 1)
			return err
		}},
		{"Active", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Registry.Active(ctx, u.owner, "s")
			return err
		}},
		{"Install", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Installs.Install(ctx, u.owner)
			return err
		}},
	}
}

func nobody(t *testing.T, u *user) {
	for _, m := range methods() {
		for _, o := range []ext.Owner{{}, {Tenant: u.owner.Tenant}, {Install: u.owner.Install}} {
			v := u.other()
			v.owner = o
			wantCode(t, m.name, m.call(t.Context(), v), errcode.Denied)
		}
	}
}

func callerGone(t *testing.T, u *user) {
	prepareSteps(u)
	before := u.state()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, m := range methods() {
		if !m.writes {
			continue
		}
		wantCode(t, m.name, m.call(ctx, u), errcode.Unavailable)
	}
	u.wantState("writes with a cancelled context", before)
}

func prepareSteps(u *user) {
	u.apply(put("s", "a", `"old"`), put("s", "b", `"old"`), expiring("s", "c", `1`, u.now+second), expiring("x", "d", `1`, u.now+second))
	u.register("s", `{}`)
	u.setStatus("s", 1, ext.Deprecated)
	u.setInstall(ext.Registration{Tier: "tin"}, false)
	u.now += minute
}
