package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

func restoreChecks() []check {
	return []check{
		{"Records", restoreRecords},
		{"Batch", restoreBatch},
		{"RefusedWhole", restoreRefused},
		{"After", restoreAfter},
		{"Schemas", restoreSchemas},
		{"SchemaStatus", restoreSchemaStatus},
		{"SchemasKept", restoreSchemasKept},
		{"ExportSchemas", exportSchemas},
	}
}

func restored(op ext.Op, r ext.Revision, created, updated ext.Moment) ext.Op {
	op.Restored = &ext.Restored{Revision: r, CreatedAt: created, UpdatedAt: updated}
	return op
}

func restoreRecords(t *testing.T, u *user) {
	const most ext.Revision = 1_000_000_000_000_000
	u.apply(put("s", "live", `"old"`), put("s", "live", `"older"`), expiring("s", "expired", `"old"`, u.now+second))
	u.now += minute
	for i, c := range []struct {
		key     string
		r       ext.Revision
		expires ext.Moment
		created bool
	}{
		{"new", 1, 0, true},
		{"mortal", 7, u.now + hour, true},
		{"live", 1, 0, false},
		{"expired", most, 0, true},
		{`odd "\é😀`, most, 0, true},
	} {
		seq := ext.Seq(4 + 2*i)
		op := restored(expiring("s", c.key, `{"n":1.50,"é":"\""}`, c.expires), c.r, u.now-day, u.now+hour)
		op.Metadata = `{"m":1}`
		want := ext.Item{Revision: c.r, Seq: seq, Created: c.created, CreatedAt: u.now - day, UpdatedAt: u.now + hour, ExpiresAt: c.expires}
		equal(t, "item of "+c.key, u.do(op), want)
		rec := u.get("s", c.key)
		equal(t, "header of "+c.key, rec.Header, ext.Header{
			Revision: c.r, Seq: seq, CreatedAt: u.now - day, UpdatedAt: u.now + hour, ExpiresAt: c.expires,
			ValueBytes: int64(len(op.Value)), MetadataBytes: int64(len(op.Metadata)),
		})
		equal(t, "change of "+c.key, u.changes(seq-1), []ext.Change{{Seq: seq, Op: ext.ChangePut, Namespace: "s", Key: ext.Key(c.key), Revision: c.r, At: u.now}})
		u.wantEvents(len(u.events())-1, Event{
			Seq: int64(seq), Topic: ext.AuditPut, Key: "s/" + c.key, At: u.now,
			Payload: fmt.Sprintf(`{"operation":"put","namespace":"s","key":%s,"schemaVersion":0,"caller":"token","callerId":"7","revision":%d}`, ext.JSONString(c.key), c.r),
		})
		next := u.do(guarded(put("s", c.key, `1`), ifRevision(c.r)))
		equal(t, "the next write of "+c.key, []any{next.Revision, next.CreatedAt, next.UpdatedAt}, []any{c.r + 1, u.now - day, u.now})
	}
	u.audited()
}

func restoreBatch(t *testing.T, u *user) {
	u.apply(put("s", "gone", `1`), put("s", "put", `1`))
	a := u.apply(restored(put("s", "a", `1`), 5, t0-day, t0), del("s", "gone"), put("s", "put", `2`), restored(put("t", "b", `2`), 6, t0, t0-day), look("s", "a"))
	equal(t, "revisions", []ext.Revision{a.Items[0].Revision, a.Items[2].Revision, a.Items[3].Revision}, []ext.Revision{5, 2, 6})
	var revisions []ext.Revision
	for _, c := range u.changes(2) {
		revisions = append(revisions, c.Revision)
	}
	equal(t, "revisions of the changes", revisions, []ext.Revision{5, 1, 2, 6})
	equal(t, "counters", u.audited(), ext.Counters{Bytes: 9, Keys: 3, Namespaces: 2})
	for i, want := range []int64{5, 1, 2, 6} {
		equal(t, "revision of an event", revisionOf(t, u.events()[2+i]), want)
	}
}

func restoreRefused(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`))
	u.activate("v", u.register("v", `{}`).Version)
	before := u.state()
	refused := func(what string, want error, ops ...ext.Op) {
		t.Helper()
		w := u.write(ops...)
		w.After = 1000
		_, err := u.h.Store.Apply(t.Context(), u.owner, w)
		wantError(t, what, err, want)
		u.wantState(what, before)
		equal(t, what+": the last change", u.do(look("s", "a")).Seq, ext.Seq(1))
	}
	good := restored(put("s", "b", `1`), 5, t0, t0)
	refused("a precondition", item(1, &ext.MismatchError{Current: 1}), good, guarded(restored(put("s", "a", `2`), 5, t0, t0), ifRevision(0)))
	refused("another schema", item(1, ext.ErrSchemaChanged), good, restored(put("v", "b", `1`), 5, t0, t0))
	u.quota.Keys = 1
	refused("a quota", item(0, &ext.QuotaError{What: "keys", Limit: 1, Used: 2}), good)
	u.quota = ext.DefaultQuota()
	equal(t, "the next number", u.do(put("s", "c", `1`)).Seq, ext.Seq(2))
}

func restoreAfter(t *testing.T, u *user) {
	u.apply(put("s", "a", `1`), put("s", "b", `1`))
	u.now += second
	w := u.write(restored(put("s", "c", `1`), 3, t0, t0), put("s", "d", `1`))
	w.After = 1_000_000
	for i := range ext.Seq(2) {
		a, err := u.h.Store.Apply(t.Context(), u.owner, w)
		must(t, "Apply", err)
		equal(t, "numbers", []ext.Seq{a.Items[0].Seq, a.Items[1].Seq}, []ext.Seq{1_000_001 + 2*i, 1_000_002 + 2*i})
	}
	_, err := u.h.Store.Changes(t.Context(), u.owner, 2, 10)
	wantError(t, "changes since an earlier number", err, ext.ErrChangesGone)
	_, err = u.h.Store.Changes(t.Context(), u.owner, 999_999, 10)
	wantError(t, "changes since a number of the other server", err, ext.ErrChangesGone)
	equal(t, "changes since its last", len(u.changes(1_000_000)), 4)
	u.audited()
}

func (u *user) restoreSchema(sc ext.Schema) bool {
	u.t.Helper()
	changed, err := u.h.Registry.Restore(u.t.Context(), u.owner, sc, u.quota, u.now)
	must(u.t, "Restore", err)
	return changed
}

func elsewhere(ns ext.Namespace, v ext.SchemaVersion, status ext.SchemaStatus, document string) ext.Schema {
	return ext.Schema{Namespace: ns, Version: v, Status: status, Document: []byte(document), CreatedAt: t0 - day, UpdatedAt: t0 - hour, CreatedBy: "c0000000-0000-4000-8000-000000000001"}
}

func restoreSchemas(t *testing.T, u *user) {
	const document = `{"enum":[1.5,"é"],"type":"object"}`
	first, last := elsewhere("s", 3, ext.Deprecated, `true`), elsewhere("s", 7, ext.Active, document)
	last.CreatedBy = ""
	for _, sc := range []ext.Schema{first, last} {
		equal(t, "changed", u.restoreSchema(sc), true)
		equal(t, "restoring the same schema again", u.restoreSchema(sc), false)
	}
	equal(t, "schemas", u.schemas("s"), []ext.Schema{last, first})
	equal(t, "active", u.active("s"), last)
	equal(t, "of another install", u.other().schemas("s"), []ext.Schema(nil))
	conflict := elsewhere("s", 3, ext.Active, `false`)
	_, err := u.h.Registry.Restore(t.Context(), u.owner, conflict, u.quota, u.now)
	wantError(t, "another document", err, ext.ErrSchemaConflict)
	wantCode(t, "another document", err, errcode.Conflict)
	equal(t, "schemas", u.schemas("s"), []ext.Schema{last, first})
	equal(t, "the next version", u.register("s", `{}`).Version, ext.SchemaVersion(8))
	_, err = u.try(put("s", "a", `1`))
	wantError(t, "a put that the active schema has not validated", err, item(0, ext.ErrSchemaChanged))
	op := put("s", "a", `{}`)
	op.Schema = 7
	u.apply(op)
}

func restoreSchemaStatus(t *testing.T, u *user) {
	for range 3 {
		u.register("s", `{}`)
	}
	u.activate("s", 1)
	u.now += minute
	statuses := func(want ...ext.SchemaStatus) {
		t.Helper()
		var got []ext.SchemaStatus
		for _, sc := range u.schemas("s") {
			got = append(got, sc.Status)
		}
		equal(t, "statuses", got, want)
	}
	equal(t, "to draft", u.restoreSchema(elsewhere("s", 1, ext.Draft, `{}`)), false)
	statuses(ext.Draft, ext.Draft, ext.Active)
	equal(t, "to active", u.restoreSchema(elsewhere("s", 2, ext.Active, `{}`)), true)
	statuses(ext.Draft, ext.Active, ext.Deprecated)
	all := u.schemas("s")
	equal(t, "moments", []ext.Moment{all[1].CreatedAt, all[1].UpdatedAt, all[2].UpdatedAt}, []ext.Moment{t0, t0 - hour, u.now})
	equal(t, "to deprecated", u.restoreSchema(elsewhere("s", 2, ext.Deprecated, `{}`)), true)
	statuses(ext.Draft, ext.Deprecated, ext.Deprecated)
	equal(t, "active of none", u.active("s"), ext.Schema{})
	equal(t, "a new one", u.restoreSchema(elsewhere("s", 4, ext.Active, `{}`)), true)
	statuses(ext.Active, ext.Draft, ext.Deprecated, ext.Deprecated)
}

func restoreSchemasKept(t *testing.T, u *user) {
	const newest = ext.SchemasKept + 50
	u.restoreSchema(elsewhere("s", 2, ext.Active, `{}`))
	for v := ext.SchemaVersion(40); v <= newest; v++ {
		u.restoreSchema(elsewhere("s", v, ext.Draft, `{}`))
	}
	equal(t, "a version that would be dropped", u.restoreSchema(elsewhere("s", 50, ext.Draft, `{}`)), false)
	equal(t, "a version that becomes the oldest", u.restoreSchema(elsewhere("s", 51, ext.Draft, `{}`)), false)
	all := u.schemas("s")
	equal(t, "schemas", len(all), ext.SchemasKept+1)
	equal(t, "the oldest two", []ext.SchemaVersion{all[ext.SchemasKept-1].Version, all[ext.SchemasKept].Version}, []ext.SchemaVersion{51, 2})
}

func exportSchemas(t *testing.T, u *user) {
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	v.register("b", `{}`)
	var want []ext.Schema
	for _, ns := range []ext.Namespace{"0", "a", "a-b", "ab", "b"} {
		for range 3 {
			want = append(want, u.register(ns, `{"type":"number"}`))
		}
	}
	want[4] = u.activate("a", 2)
	for _, limit := range []int{1, 2, 4, 100} {
		var got []ext.Schema
		for after := (ext.SchemaPosition{}); ; {
			page, err := u.h.Registry.ExportSchemas(t.Context(), u.owner, after, limit)
			must(t, "ExportSchemas", err)
			if len(page) == 0 {
				break
			}
			if len(page) > limit {
				t.Fatalf("a page of %d has %d", limit, len(page))
			}
			got = append(got, page...)
			last := &page[len(page)-1]
			after = ext.SchemaPosition{Namespace: last.Namespace, Version: last.Version}
		}
		equal(t, fmt.Sprint("schemas by ", limit), got, want)
	}
}

func revisionOf(t *testing.T, e Event) int64 {
	t.Helper()
	var p audited
	must(t, "payload", json.Unmarshal([]byte(e.Payload), &p))
	return p.Revision
}
