package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/testdb"
)

func deleteChecks() []check {
	return []check{
		{"Install", deleteInstall},
		{"InstallOfNothing", deleteNothing},
		{"Bytes", deleteByBytes},
		{"Refused", deleteRefuses},
		{"WhileOthersWrite", deleteUnderWriters},
		{"Tenant", deleteTenant},
		{"TenantWhileInstallsBegin", deleteTenantUnderWriters},
		{"Reopen", reopenInstall},
		{"ReopenTenant", reopenTenant},
		{"NotBegun", deleteNotBegun},
		{"WrongCounters", deleteWrongCounters},
		{"SweptMeanwhile", deleteSwept},
		{"ListInstalls", listInstalls},
		{"FindInstalls", findInstalls},
		{"FindRecords", findRecords},
	}
}

func tombstoneChecks() []check { return []check{{"Tombstones", sweepTombstones}} }

func (u *user) fillAll() {
	u.t.Helper()
	u.setInstall(ext.Registration{Tier: "gold", Namespaces: map[ext.Namespace]ext.Access{"s": ext.Read}}, false)
	u.activate("u", u.register("u", `{}`).Version)
	u.register("u", `true`)
	u.register("v", `true`)
	for i := range 7 {
		u.apply(put("s", fmt.Sprint(i), `"value"`), put(fmt.Sprint("t", i%2), fmt.Sprint(i), `1`))
	}
	w := u.write(expiring("s", "mortal", `1`, u.now+second), del("s", "0"))
	w.IdempotencyKey = &ext.IdempotencyKey{Key: "once"}
	_, err := u.h.Store.Apply(u.t.Context(), u.owner, w)
	must(u.t, "Apply", err)
	u.revokeToken("a", u.now+hour)
	u.revokeToken("b", u.now+hour)
}

var filled = ext.Holdings{Records: 14, Bytes: 6*9 + 7*3 + 3, Schemas: 3, Changes: 16, Answers: 1, Tokens: 2}

func (u *user) holdings() ext.Holdings {
	u.t.Helper()
	h, err := u.h.Deletions.Holdings(u.t.Context(), u.owner)
	must(u.t, "Holdings", err)
	return h
}

func (u *user) close() ext.Deletion {
	u.t.Helper()
	d, err := u.h.Deletions.Close(u.t.Context(), u.owner, u.now)
	must(u.t, "Close", err)
	return d
}

func (u *user) deleteStep(rows int64) ext.DeleteStep {
	return ext.DeleteStep{Rows: rows, Bytes: 1 << 20, Now: u.now, KeptUntil: u.now + day, Caller: ext.Caller{Kind: "admin", ID: "x"}}
}

func (u *user) deleteSome(rows int64) ext.Deletion {
	u.t.Helper()
	d, err := u.h.Deletions.DeleteSome(u.t.Context(), u.owner, u.deleteStep(rows))
	must(u.t, "DeleteSome", err)
	return d
}

func (u *user) deleteAll(rows int64) ext.Deletion {
	u.t.Helper()
	u.close()
	for range 1000 {
		d := u.deleteSome(rows)
		u.stored()
		if d.FinishedAt != 0 {
			return d
		}
	}
	u.t.Fatalf("the deletion does not end")
	return ext.Deletion{}
}

func (u *user) whole() *user {
	v := *u
	v.owner = ext.Services(u.owner.Tenant)
	return &v
}

func (u *user) wantEvent(topic string, d ext.Deletion) {
	u.t.Helper()
	all := u.events()
	if len(all) == 0 {
		u.t.Errorf("no event %s", topic)
		return
	}
	last := all[len(all)-1]
	var got struct {
		StartedAt        ext.Moment
		Caller, CallerID string
		Deleted          ext.Holdings
	}
	must(u.t, "payload", json.Unmarshal([]byte(last.Payload), &got))
	equal(u.t, "event", []any{last.Topic, last.At, got.StartedAt, got.Caller, got.CallerID, got.Deleted},
		[]any{topic, d.FinishedAt, d.StartedAt, "admin", "x", d.Deleted})
}

func deleteInstall(t *testing.T, u *user) {
	for _, rows := range []int64{1, 3, 1000} {
		u := u.other()
		v, w := u.other(), u.other()
		v.owner.Tenant, w.owner.Install = u.owner.Tenant, u.owner.Install
		for _, each := range []*user{u, v, w} {
			each.fillAll()
			equal(t, "before", each.holdings(), filled)
		}
		before := []state{v.state(), w.state()}
		u.now += minute
		events := len(u.events())

		started := u.close()
		equal(t, "the deletion", started, ext.Deletion{StartedAt: u.now})
		u.now += second
		equal(t, "begun again", u.close(), started)
		d := u.deleteAll(rows)
		equal(t, "deleted", d, ext.Deletion{StartedAt: u.now - second, FinishedAt: u.now, Deleted: filled})
		equal(t, "left", u.holdings(), ext.Holdings{})
		equal(t, "events", len(u.events()), events+1)
		u.wantEvent(ext.AuditDeleteInstall, d)
		u.now += second
		equal(t, "once more", u.deleteAll(rows), d)
		equal(t, "events", len(u.events()), events+1)
		in, revoked, err := u.h.Installs.InstallState(t.Context(), u.owner, u.now)
		must(t, "InstallState", err)
		equal(t, "the tombstone", []any{in.Deletion, in.Tier, len(in.Namespaces), in.RevokedAt, len(revoked)}, []any{d, "", 0, ext.Moment(0), 0})
		page, err := u.h.Inspector.ListUsage(t.Context(), inspection.Span{Tenant: u.owner.Tenant}, 10)
		must(t, "ListUsage", err)
		equal(t, "installs", []any{len(page), page[0].Owner}, []any{1, v.owner})

		v.wantState("another's deletion", before[0])
		w.wantState("another's deletion", before[1])
		v.now, w.now = t0, t0
		equal(t, "of others", []ext.Holdings{v.holdings(), w.holdings()}, []ext.Holdings{filled, filled})
	}
}

func deleteNothing(t *testing.T, u *user) {
	equal(t, "deleted", u.deleteAll(10), ext.Deletion{StartedAt: u.now, FinishedAt: u.now})
	_, err := u.try(put("s", "a", `1`))
	wantError(t, "a write", err, ext.ErrInstallDeleted)
}

func deleteByBytes(t *testing.T, u *user) {
	for i := range 6 {
		u.apply(put("s", fmt.Sprint(i), `"12345678"`))
	}
	u.close()
	for _, tc := range []struct{ rows, bytes, want int64 }{{100, 1, 1}, {100, 13, 3}, {0, 1000, 4}, {100, 0, 5}, {100, 1000, 6}} {
		step := u.deleteStep(tc.rows)
		step.Bytes = tc.bytes
		d, err := u.h.Deletions.DeleteSome(t.Context(), u.owner, step)
		must(t, "DeleteSome", err)
		equal(t, "deleted", []int64{d.Deleted.Records, d.Deleted.Bytes}, []int64{tc.want, 12 * tc.want})
		u.stored()
	}
}

func (u *user) writers() map[string]func() error {
	ctx := u.t.Context()
	return map[string]func() error{
		"a put":       func() error { _, err := u.try(put("new", "a", `1`)); return err },
		"a new value": func() error { _, err := u.try(put("s", "1", `"x"`)); return err },
		"a delete":    func() error { _, err := u.try(del("s", "1")); return err },
		"an import": func() error {
			w := u.write(restored(put("restored", "a", `1`), 7, u.now, u.now))
			w.After = 1000
			_, err := u.h.Store.Apply(ctx, u.owner, w)
			return err
		},
		"a schema": func() error {
			_, err := u.h.Registry.Register(ctx, u.owner, ext.Schema{Namespace: "w", Document: []byte(`{}`), CreatedAt: u.now}, u.quota)
			return err
		},
		"a status": func() error {
			_, err := u.h.Registry.SetStatus(ctx, u.owner, ext.SchemaID{Namespace: "u", Version: 2}, ext.Active, u.now)
			return err
		},
		"a schema's copy": func() error {
			_, err := u.h.Registry.Restore(ctx, u.owner, elsewhere("x", 1, ext.Active, `{}`), u.quota, u.now)
			return err
		},
		"schemas dropped": func() error { _, err := u.h.Registry.DropSchemas(ctx, u.owner, "u", 0, u.now); return err },
		"a registration": func() error {
			_, _, err := u.h.Installs.SetInstall(ctx, u.owner, ext.Registration{}, false, u.now)
			return err
		},
		"a revocation": func() error { return u.h.Installs.RevokeInstall(ctx, u.owner, u.now) },
		"a revoked token": func() error {
			return u.h.Tokens.RevokeToken(ctx, u.owner, ext.RevokedToken{ID: "c", ExpiresAt: u.now + hour, RevokedAt: u.now})
		},
	}
}

func (u *user) wantClosed(when string) {
	u.t.Helper()
	before := u.holdings()
	for what, write := range u.writers() {
		wantError(u.t, what+" "+when, write(), ext.ErrInstallDeleted)
	}
	equal(u.t, "after the writes "+when, u.holdings(), before)
}

func deleteRefuses(t *testing.T, u *user) {
	u.apply(put("s", "o", `{}`))
	u.fillAll()
	u.close()
	u.wantClosed("before the first step")
	_, err := u.try(merge("s", "o", `{"a":1}`), add("s", "counter", "1"))
	wantError(t, "a patch", err, ext.ErrInstallDeleted)
	_, _, err = u.h.Installs.SetInstall(t.Context(), u.owner, ext.Registration{}, true, u.now)
	wantError(t, "restored in the middle", err, ext.ErrInstallDeleted)
	u.deleteSome(3)
	u.wantClosed("in the middle")
	u.deleteAll(100)
	u.wantClosed("at the end")
	equal(t, "left", u.holdings(), ext.Holdings{})

	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	v.fillAll()
	u.whole().close()
	v.deleteAll(100)
	v.wantClosed("of a tenant that is deleted")
	w := v.other()
	w.owner.Tenant = u.owner.Tenant
	w.wantClosed("of a new install of a tenant that is deleted")
	whole := u.whole()
	wantError(t, "a token of a service", whole.h.Tokens.RevokeToken(t.Context(), whole.owner, ext.RevokedToken{ID: "a", ExpiresAt: u.now + 1}), ext.ErrInstallDeleted)
}

func deleteUnderWriters(t *testing.T, u *user) {
	for round := range 5 {
		u := u.other()
		if round%2 == 0 {
			u.fillAll()
		}
		errs := testdb.Concurrently(parallel, func(i int) error {
			if i == parallel/2 {
				u.deleteAll(20)
				return nil
			}
			at := u.at(u.now + ext.Moment(i))
			for n := range 20 {
				for what, write := range at.writers() {
					err := write()
					if errors.Is(err, ext.ErrInstallDeleted) && n > 10 {
						return nil
					}
					if err != nil && !errors.Is(err, ext.ErrInstallDeleted) && !errcode.Is(err, errcode.NotFound) && !isQuota(err) && !errors.Is(err, ext.ErrSchemaConflict) && !errors.Is(err, ext.ErrSchemaChanged) {
						return fmt.Errorf("%s: %w", what, err)
					}
				}
			}
			return nil
		})
		must(t, "together", errors.Join(errs...))
		equal(t, "left", u.holdings(), ext.Holdings{})
	}
}

func (u *user) wholeTenant(rows int64) ext.Deletion {
	u.t.Helper()
	whole := u.whole()
	whole.close()
	for id := whole.owner.Install; ; {
		var err error
		id, err = u.h.Deletions.NextInstall(u.t.Context(), u.owner.Tenant, id)
		must(u.t, "NextInstall", err)
		if id == "" {
			return whole.deleteAll(rows)
		}
		of := *u
		of.owner.Install = id
		of.deleteAll(rows)
	}
}

func deleteTenant(t *testing.T, u *user) {
	v, w, registered, schemas, stranger := u.other(), u.other(), u.other(), u.other(), u.other()
	for _, of := range []*user{v, w, registered, schemas} {
		of.owner.Tenant = u.owner.Tenant
	}
	for _, of := range []*user{u, v, stranger} {
		of.fillAll()
	}
	w.deleteAll(10)
	registered.setInstall(ext.Registration{Tier: "tin"}, false)
	schemas.register("a", `{}`)
	u.whole().revokeToken("s", u.now+hour)

	want := ext.Holdings{Installs: 4}
	for _, h := range []ext.Holdings{filled, filled, {Schemas: 1, Tokens: 1}} {
		want.Add(h)
	}
	equal(t, "before", u.whole().holdings(), want)
	d := u.wholeTenant(5)
	equal(t, "deleted", d, ext.Deletion{StartedAt: u.now, FinishedAt: u.now, Deleted: want})
	equal(t, "left", u.whole().holdings(), ext.Holdings{})
	u.whole().wantEvent(ext.AuditDeleteTenant, d)
	in, _, err := u.h.Installs.InstallState(t.Context(), u.other().owner, u.now)
	must(t, "InstallState", err)
	equal(t, "another tenant", in.Tenant, ext.TenantState{})
	unknown := u.other()
	unknown.owner.Tenant = u.owner.Tenant
	in, _, err = u.h.Installs.InstallState(t.Context(), unknown.owner, u.now)
	must(t, "InstallState", err)
	equal(t, "an unknown install's tenant", in.Tenant.Deletion, d)
	equal(t, "the stranger", stranger.holdings(), filled)
}

func deleteTenantUnderWriters(t *testing.T, u *user) {
	u.fillAll()
	errs := testdb.Concurrently(parallel, func(i int) error {
		if i == parallel/2 {
			u.wholeTenant(20)
			return nil
		}
		for range 30 {
			of := u.other()
			of.owner.Tenant = u.owner.Tenant
			var err error
			switch i % 4 {
			case 0:
				_, _, err = u.h.Installs.SetInstall(t.Context(), of.owner, ext.Registration{}, false, u.now)
			case 1:
				_, err = u.h.Registry.Register(t.Context(), of.owner, ext.Schema{Namespace: "a", Document: []byte(`{}`), CreatedAt: u.now}, u.quota)
			default:
				_, err = of.try(put("a", "a", `1`))
			}
			if err != nil && !errors.Is(err, ext.ErrInstallDeleted) {
				return err
			}
		}
		return nil
	})
	must(t, "together", errors.Join(errs...))
	equal(t, "left", u.whole().holdings(), ext.Holdings{})
}

func reopenInstall(t *testing.T, u *user) {
	u.fillAll()
	last := u.state().last
	u.deleteAll(100)
	_, _, err := u.h.Installs.SetInstall(t.Context(), u.owner, ext.Registration{Tier: "tin"}, false, u.now)
	wantError(t, "registered without restore", err, ext.ErrInstallDeleted)
	u.now += hour
	equal(t, "created", u.setInstall(ext.Registration{Tier: "tin"}, true), true)
	u.wantInstall(ext.Install{Registration: ext.Registration{Tier: "tin"}, CreatedAt: u.now, UpdatedAt: u.now, TokensAfter: u.now})
	in, revoked, err := u.h.Installs.InstallState(t.Context(), u.owner, u.now)
	must(t, "InstallState", err)
	equal(t, "state", []any{in.Deletion, len(revoked)}, []any{ext.Deletion{}, 0})

	equal(t, "the first record", u.do(put("s", "1", `1`)), ext.Item{Revision: 1, Seq: last + 2, Created: true, CreatedAt: u.now, UpdatedAt: u.now})
	_, err = u.h.Store.Changes(t.Context(), u.owner, last, 10)
	wantError(t, "changes since before", err, ext.ErrChangesGone)
	equal(t, "the first schema", u.register("u", `{}`).Version, ext.SchemaVersion(3))
	u.state()
	u.now += hour
	u.deleteAll(100)
	equal(t, "events", len(u.events()), 14+2+3)
	u.now += hour
	equal(t, "created", u.setInstall(ext.Registration{}, true), true)
	equal(t, "a new schema", u.register("u", `{}`).Version, ext.SchemaVersion(4))
}

func reopenTenant(t *testing.T, u *user) {
	u.fillAll()
	u.wholeTenant(100)
	_, _, err := u.h.Installs.SetInstall(t.Context(), u.owner, ext.Registration{}, true, u.now)
	wantError(t, "an install of a deleted tenant", err, ext.ErrInstallDeleted)
	u.now += hour
	reopened, err := u.h.Deletions.Reopen(t.Context(), u.whole().owner, u.now)
	must(t, "Reopen", err)
	equal(t, "reopened", reopened, true)
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	v.apply(put("s", "a", `1`))
	in, _, err := u.h.Installs.InstallState(t.Context(), v.owner, u.now)
	must(t, "InstallState", err)
	equal(t, "its tenant", in.Tenant, ext.TenantState{TokensAfter: u.now})
	_, err = u.try(put("s", "a", `1`))
	wantError(t, "an install that was deleted with the tenant", err, ext.ErrInstallDeleted)
	u.setInstall(ext.Registration{}, true)
	u.apply(put("s", "a", `1`))
	reopened, err = u.h.Deletions.Reopen(t.Context(), u.whole().owner, u.now)
	must(t, "Reopen", err)
	equal(t, "reopened again", reopened, false)
}

func deleteNotBegun(t *testing.T, u *user) {
	u.fillAll()
	v := u.other()
	v.deleteAll(10)
	v.setInstall(ext.Registration{}, true)
	for _, of := range []*user{u, v, u.other()} {
		_, err := u.h.Deletions.DeleteSome(t.Context(), of.owner, u.deleteStep(10))
		wantCode(t, "DeleteSome", err, errcode.Conflict)
	}
	equal(t, "left", u.holdings(), filled)
	for _, o := range []ext.Owner{{}, {Tenant: u.owner.Tenant}, {Install: u.owner.Install}} {
		_, err := u.h.Deletions.Close(t.Context(), o, u.now)
		wantCode(t, "Close", err, errcode.Denied)
		_, err = u.h.Deletions.DeleteSome(t.Context(), o, u.deleteStep(1))
		wantCode(t, "DeleteSome", err, errcode.Denied)
		_, err = u.h.Deletions.Holdings(t.Context(), o)
		wantCode(t, "Holdings", err, errcode.Denied)
		_, err = u.h.Deletions.Reopen(t.Context(), o, u.now)
		wantCode(t, "Reopen", err, errcode.Denied)
	}
	_, err := u.h.Deletions.NextInstall(t.Context(), "", u.owner.Install)
	wantCode(t, "NextInstall", err, errcode.Denied)
}

func deleteWrongCounters(t *testing.T, u *user) {
	mine := func(u *user) string {
		return fmt.Sprintf(` WHERE tenant_id = '%s' AND extension_install_id = '%s'`, u.owner.Tenant, u.owner.Install)
	}
	for _, damage := range []string{
		`DELETE FROM ext_storage_usage`, `DELETE FROM ext_storage_namespaces`, `DELETE FROM ext_storage_records`,
		`UPDATE ext_storage_usage SET bytes_used = 1, keys_count = 1, namespaces_count = 0`,
	} {
		u := u.other()
		u.fillAll()
		u.h.Damage(t, damage+mine(u))
		u.close()
		for d := (ext.Deletion{}); d.FinishedAt == 0; {
			d = u.deleteSome(5)
		}
		equal(t, "left after "+damage, u.holdings(), ext.Holdings{})
		u.stored()
		next, err := u.h.Deletions.NextInstall(t.Context(), u.owner.Tenant, "00000000-0000-0000-0000-000000000000")
		must(t, "NextInstall", err)
		equal(t, "the tombstone", next, u.owner.Install)
	}
}

// deleteSwept needs its own database, so that other tests do not sweep it.
func deleteSwept(t *testing.T, u *user) {
	u.faulty(t)
	u.fillAll()
	u.close()
	last := u.changes(0)
	u.now += minute
	equal(t, "swept", u.sweep(10), 1)
	u.stored()
	equal(t, "changes", u.changes(0), last)
	equal(t, "deleted", u.deleteAll(3).Deleted, filled)
}

func sweepTombstones(t *testing.T, u *user) {
	u.clean()
	u.fillAll()
	u.wholeTenant(100)
	u.now += hour
	u.drain()
	u.now += day - hour - 1
	equal(t, "before they are due", u.sweep(10), 0)
	u.now++
	equal(t, "with events that are not published", u.sweep(10), 0)
	u.h.Damage(t, fmt.Sprintf(`DELETE FROM ext_storage_outbox WHERE tenant_id = '%s'`, u.owner.Tenant))
	equal(t, "due", []int{u.sweep(1), u.sweep(10), u.sweep(10)}, []int{1, 1, 0})
	_, err := u.h.Installs.Install(t.Context(), u.owner)
	wantError(t, "the install", err, ext.ErrNoInstall)
	next, err := u.h.Deletions.NextInstall(t.Context(), u.owner.Tenant, "00000000-0000-0000-0000-000000000000")
	must(t, "NextInstall", err)
	equal(t, "the next install", next, "")
	equal(t, "a new record", u.do(put("s", "a", `1`)).Seq, ext.Seq(1))
}

func findInstalls(t *testing.T, u *user) {
	s := newOwnerRange(u)
	at := func(tenant, install int) *user { // IDs unused by other tests
		return s.of(ext.Owner{
			Tenant:  u.owner.Tenant[:35] + ext.TenantID(strconv.Itoa(tenant)),
			Install: u.owner.Install[:35] + ext.InstallID(strconv.Itoa(install)),
		})
	}
	at(3, 0).setInstall(ext.Registration{Tier: "gold"}, false)
	at(2, 1).apply(put("s", "a", `1`))
	at(1, 1).apply(put("s", "a", `1`))
	at(1, 2).apply(put("s", "a", `12`))
	at(1, 2).revoke()
	at(0, 2).whole().revokeToken("a", u.now+hour)
	find := func(from, to, limit int) (all []ext.Owner) {
		found, err := u.h.Inspector.FindInstalls(t.Context(), at(0, from).owner.Install, at(0, to).owner.Install, limit)
		must(t, "FindInstalls", err)
		return found
	}
	all := []ext.Owner{at(3, 0).owner, at(1, 1).owner, at(2, 1).owner, at(1, 2).owner}
	equal(t, "all", find(0, 3, 100), all)
	equal(t, "one ID", find(1, 1, 100), all[1:3])
	equal(t, "the first", find(0, 3, 2), all[:2])
	equal(t, "none", len(find(3, 3, 100)), 0)
}

func findRecords(t *testing.T, u *user) {
	u.apply(put("t", "book", `1`), put("s", "booking-1", `1`), put("s", "booking-2", `1`), put("s", "BOOK", `1`), put("s", "boom", `1`),
		expiring("s", "bookish", `1`, u.now+second), put("r", "%", `1`), put("r", "\U0010ffff", `1`))
	newOwnerRange(u).of(ext.Owner{Tenant: u.owner.Tenant, Install: newOwner().Install}).apply(put("s", "book-of-another", `1`))
	find := func(prefix string, limit int) (all []string) {
		t.Helper()
		found, err := u.h.Inspector.FindRecords(t.Context(), u.owner, prefix, limit, u.now)
		must(t, "FindRecords", err)
		for _, p := range found {
			all = append(all, string(p.Namespace)+"/"+string(p.Key))
		}
		return all
	}
	u.now += minute
	equal(t, "a prefix", find("book", 10), []string{"s/booking-1", "s/booking-2", "t/book"})
	equal(t, "the first", find("book", 2), []string{"s/booking-1", "s/booking-2"})
	equal(t, "a whole key", find("BOOK", 10), []string{"s/BOOK"})
	equal(t, "a wildcard", find("%", 10), []string{"r/%"})
	equal(t, "the last character", find("\U0010ffff", 10), []string{"r/\U0010ffff"})
	equal(t, "all", len(find("", 10)), 7)
	equal(t, "none", len(find("nothing", 10)), 0)
	_, err := u.h.Inspector.FindRecords(t.Context(), ext.Owner{}, "a", 1, u.now)
	wantCode(t, "the zero owner", err, errcode.Denied)
}

func listInstalls(t *testing.T, u *user) {
	s := newOwnerRange(u)
	at := func(n int) *user { return s.of(s.owner(n/2+1, n+1)) }
	at(0).setInstall(ext.Registration{Tier: "gold"}, false)
	at(1).apply(put("s", "a", `1`))
	at(2).apply(put("s", "a", `12`))
	at(2).revoke()
	at(3).revoke()
	at(4).fillAll()
	at(4).close()
	at(5).fillAll()
	at(5).deleteAll(100)
	at(0).whole().revokeToken("a", u.now+hour)
	list := func(span inspection.Span, revoked bool, limit int) (all []int) {
		for {
			page, err := u.h.Inspector.ListInstalls(t.Context(), span, revoked, limit)
			must(t, "ListInstalls", err)
			for _, in := range page {
				for n := range 6 {
					if at(n).owner == in.Owner {
						all = append(all, n)
						equal(t, "registered", in.Registered.RevokedAt, at(n).install().RevokedAt)
						equal(t, "counters", in.Counters, at(n).stored())
					}
				}
			}
			if len(page) < limit {
				return all
			}
			span.After = page[limit-1].Owner
		}
	}
	for limit := range 4 {
		equal(t, "installs", list(s.all(), false, limit+1), []int{0, 2, 3, 4, 5})
		equal(t, "revoked", list(s.all(), true, limit+1), []int{2, 3})
	}
	equal(t, "of a tenant", list(inspection.Span{Tenant: at(2).owner.Tenant}, false, 10), []int{2, 3})
	_, err := u.h.Inspector.ListInstalls(t.Context(), inspection.Span{}, false, 10)
	wantCode(t, "an empty span", err, errcode.Denied)
}
