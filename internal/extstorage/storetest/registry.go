package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func registryChecks() []check {
	return []check{
		{"Versions", schemaVersions},
		{"Documents", schemaDocuments},
		{"LifeCycle", schemaLifeCycle},
		{"OneActive", oneActive},
		{"NoSchema", noSchema},
		{"PutUnderASchemaThatChanges", schemaChanges},
		{"NewestKept", newestKept},
		{"Pages", schemaPagesOf},
		{"RegisterTogether", registerTogether},
		{"ActivateTogether", activateTogether},
		{"PutsAgainstActivations", putsAgainstActivations},
	}
}

func (u *user) register(ns ext.Namespace, document string) ext.Schema {
	u.t.Helper()
	sc, err := u.h.Registry.Register(u.t.Context(), u.owner, ext.Schema{Namespace: ns, Document: []byte(document), CreatedAt: u.now}, u.quota)
	must(u.t, "Register", err)
	return sc
}

func (u *user) setStatus(ns ext.Namespace, v ext.SchemaVersion, status ext.SchemaStatus) ext.Schema {
	u.t.Helper()
	sc, err := u.h.Registry.SetStatus(u.t.Context(), u.owner, ext.SchemaID{Namespace: ns, Version: v}, status, u.now)
	must(u.t, "SetStatus", err)
	return sc
}

func (u *user) activate(ns ext.Namespace, v ext.SchemaVersion) ext.Schema {
	u.t.Helper()
	return u.setStatus(ns, v, ext.Active)
}

func (u *user) schemas(ns ext.Namespace) []ext.Schema {
	u.t.Helper()
	return u.schemaPages(ns, ext.MaxPage, 0)
}

func (u *user) schemaPages(ns ext.Namespace, limit, bytes int) (all []ext.Schema) {
	u.t.Helper()
	q := ext.SchemaQuery{Namespace: ns, Limit: limit, Bytes: bytes}
	for range ext.SchemasKept + 2 {
		p, err := u.h.Registry.Schemas(u.t.Context(), u.owner, q)
		must(u.t, "Schemas", err)
		sum := 0
		for i := range p.Schemas {
			sum += len(p.Schemas[i].Document)
		}
		if most := cmp.Or(bytes, ext.PageBytes); len(p.Schemas) > limit || sum > most && len(p.Schemas) > 1 || p.More && len(p.Schemas) == 0 {
			u.t.Errorf("a page of %d schemas and %d bytes has %d and %d, more: %v", limit, most, len(p.Schemas), sum, p.More)
		}
		if all = append(all, p.Schemas...); !p.More {
			return all
		}
		q.Before = p.Schemas[len(p.Schemas)-1].Version
	}
	u.t.Fatalf("the pages of schemas do not end")
	return nil
}

func schemaPagesOf(t *testing.T, u *user) {
	const n = 40
	for i := range n {
		u.register("s", fmt.Sprintf(`{"description":"%d%s"}`, i, strings.Repeat("x", i%4*15_000)))
	}
	u.register("t", `{}`)
	u.activate("s", 7)
	want := u.schemaPages("s", 1, 0)
	equal(t, "versions", len(want), n)
	for i := range want {
		got, err := u.h.Registry.Schema(t.Context(), u.owner, "s", want[i].Version)
		must(t, "Schema", err)
		equal(t, "schema", got, want[i])
	}
	for _, limit := range []int{1, 7, 13, n - 1, n, n + 1, ext.MaxPage} {
		for _, bytes := range []int{0, 1, 60_000, 200_000} {
			equal(t, fmt.Sprintf("pages of %d and %d bytes", limit, bytes), u.schemaPages("s", limit, bytes), want)
		}
	}
	for limit, more := range map[int]bool{n - 1: true, n: false} {
		p, err := u.h.Registry.Schemas(t.Context(), u.owner, ext.SchemaQuery{Namespace: "s", Limit: limit, Bytes: 10 << 20})
		must(t, "Schemas", err)
		equal(t, fmt.Sprint("versions of ", limit), len(p.Schemas), limit)
		equal(t, fmt.Sprint("more than ", limit), p.More, more)
	}
}

func (u *user) active(ns ext.Namespace) ext.Schema {
	u.t.Helper()
	sc, err := u.h.Registry.Active(u.t.Context(), u.owner, ns)
	must(u.t, "Active", err)
	return sc
}

func schemaVersions(t *testing.T, u *user) {
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	want := ext.Schema{Namespace: "s", Version: 1, Status: ext.Draft, Document: []byte(`{"type":"object"}`), CreatedAt: t0, UpdatedAt: t0}
	equal(t, "the first", u.register("s", `{"type":"object"}`), want)
	u.now += second
	equal(t, "the second", u.register("s", `{}`).Version, ext.SchemaVersion(2))
	equal(t, "another namespace's", u.register("t", `{}`).Version, ext.SchemaVersion(1))
	equal(t, "another install's", v.register("s", `{}`).Version, ext.SchemaVersion(1))
	all := u.schemas("s")
	equal(t, "schemas", len(all), 2)
	equal(t, "the newest first", all[0].Version, ext.SchemaVersion(2))
	equal(t, "the oldest last", all[1], want)
	by := newUUID()
	sc, err := u.h.Registry.Register(t.Context(), u.owner, ext.Schema{Namespace: "s", Document: []byte(`true`), CreatedBy: by, CreatedAt: u.now}, u.quota)
	must(t, "Register", err)
	equal(t, "by whom", []string{sc.CreatedBy, u.schemas("s")[0].CreatedBy}, []string{by, by})
	equal(t, "schemas of an unused namespace", u.schemas("none"), []ext.Schema(nil))
}

func schemaDocuments(t *testing.T, u *user) {
	for _, text := range []string{
		`true`, `false`, `{}`, `{"$id":"https://example.com/é","type":["object","null"],"maximum":1e300,"multipleOf":0.01,"minimum":9007199254740993}`,
		`{"enum":["\u0001","\"","/"],"properties":{"b":{},"a":{},"aa":{}}}`, `{"description":"` + strings.Repeat("x", 60_000) + `"}`,
	} {
		v, err := canonjson.Parse([]byte(text), 1<<20)
		must(t, "ParseValue", err)
		sc := u.register("s", string(v))
		equal(t, "document", string(u.schemas("s")[0].Document), string(v))
		u.activate("s", sc.Version)
		equal(t, "active document", string(u.active("s").Document), string(v))
	}
}

func schemaLifeCycle(t *testing.T, u *user) {
	for range 3 {
		u.register("s", `{}`)
	}
	equal(t, "active of drafts", u.active("s"), ext.Schema{})
	statuses := func() (all [3]ext.SchemaStatus) {
		for _, sc := range u.schemas("s") {
			all[sc.Version-1] = sc.Status
		}
		return all
	}
	u.now += second
	sc := u.activate("s", 2)
	equal(t, "activated", []any{sc.Version, sc.Status, sc.CreatedAt, sc.UpdatedAt}, []any{ext.SchemaVersion(2), ext.Active, t0, t0 + second})
	equal(t, "active", u.active("s"), sc)
	u.now += second
	equal(t, "activated again", u.activate("s", 2), sc)
	u.activate("s", 3)
	equal(t, "statuses", statuses(), [3]ext.SchemaStatus{ext.Draft, ext.Deprecated, ext.Active})
	equal(t, "when it was deprecated", u.schemas("s")[1].UpdatedAt, u.now)
	u.activate("s", 2)
	equal(t, "statuses", statuses(), [3]ext.SchemaStatus{ext.Draft, ext.Active, ext.Deprecated})
	u.setStatus("s", 1, ext.Deprecated)
	u.setStatus("s", 2, ext.Deprecated)
	equal(t, "statuses", statuses(), [3]ext.SchemaStatus{ext.Deprecated, ext.Deprecated, ext.Deprecated})
	equal(t, "the active schema of a namespace without one", u.active("s"), ext.Schema{})
	_, err := u.h.Registry.SetStatus(t.Context(), u.owner, ext.SchemaID{Namespace: "s", Version: 2}, ext.Draft, u.now)
	wantCode(t, "a draft again", err, errcode.Invalid)
}

func oneActive(t *testing.T, u *user) {
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	for _, w := range []*user{u, v} {
		for _, ns := range []ext.Namespace{"s", "t"} {
			w.register(ns, `{}`)
			w.register(ns, `true`)
			w.activate(ns, 1)
		}
	}
	u.activate("s", 2)
	equal(t, "active", []ext.SchemaVersion{u.active("s").Version, u.active("t").Version, v.active("s").Version, v.active("t").Version}, []ext.SchemaVersion{2, 1, 1, 1})
}

func noSchema(t *testing.T, u *user) {
	u.register("s", `{}`)
	for _, v := range []ext.SchemaVersion{0, 2, 999} {
		_, err := u.h.Registry.SetStatus(t.Context(), u.owner, ext.SchemaID{Namespace: "s", Version: v}, ext.Active, u.now)
		wantError(t, fmt.Sprint("version ", v), err, ext.ErrNoSchema)
	}
	_, err := u.h.Registry.SetStatus(t.Context(), u.other().owner, ext.SchemaID{Namespace: "s", Version: 1}, ext.Active, u.now)
	wantError(t, "another's version", err, ext.ErrNoSchema)
	for _, v := range []ext.SchemaVersion{0, 2} {
		_, err = u.h.Registry.Schema(t.Context(), u.owner, "s", v)
		wantError(t, fmt.Sprint("reading version ", v), err, ext.ErrNoSchema)
	}
	_, err = u.h.Registry.Schema(t.Context(), u.other().owner, "s", 1)
	wantError(t, "reading another's version", err, ext.ErrNoSchema)
	equal(t, "active", u.active("s").Version, ext.SchemaVersion(0))
}

func schemaChanges(t *testing.T, u *user) {
	by := func(v ext.SchemaVersion) ext.Op {
		op := put("s", "a", `1`)
		op.Schema = v
		return op
	}
	try := func(v ext.SchemaVersion, ok bool) {
		t.Helper()
		_, err := u.try(by(v))
		var want error
		if !ok {
			want = item(0, ext.ErrSchemaChanged)
		}
		wantError(t, fmt.Sprint("put by version ", v), err, want)
	}
	u.register("s", `{}`)
	u.register("s", `{}`)
	try(0, true)
	try(1, false)
	u.activate("s", 1)
	try(0, false)
	try(1, true)
	try(2, false)
	try(999, false)
	u.apply(put("t", "a", `1`))
	u.activate("s", 2)
	try(1, false)
	try(2, true)
	u.apply(del("s", "a"), look("s", "a"))
	u.setStatus("s", 2, ext.Deprecated)
	try(2, false)
	try(0, true)
	_, err := u.try(by(0), put("t", "b", `1`), by(2))
	wantError(t, "in a batch", err, item(2, ext.ErrSchemaChanged))
}

func newestKept(t *testing.T, u *user) {
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	v.register("s", `{}`)
	u.register("t", `{}`)
	kept := func(want ...ext.SchemaVersion) {
		t.Helper()
		var got []ext.SchemaVersion
		for _, sc := range u.schemas("s") {
			got = append(got, sc.Version)
		}
		all := []ext.SchemaVersion{got[0], got[len(got)-2], got[len(got)-1], ext.SchemaVersion(len(got))}
		equal(t, "the newest, the two oldest and the number", all, want)
	}
	for range ext.SchemasKept {
		u.register("s", `{}`)
	}
	u.activate("s", 1)
	kept(100, 2, 1, 100)
	u.register("s", `{}`)
	u.register("s", `{}`)
	kept(102, 3, 1, 101)
	_, err := u.h.Registry.SetStatus(t.Context(), u.owner, ext.SchemaID{Namespace: "s", Version: 2}, ext.Active, u.now)
	wantError(t, "a dropped version", err, ext.ErrNoSchema)
	equal(t, "active", u.active("s").Version, ext.SchemaVersion(1))
	op := put("s", "a", `1`)
	op.Schema = 1
	u.apply(op)
	u.activate("s", 102)
	kept(102, 3, 1, 101)
	equal(t, "the next", u.register("s", `{}`).Version, ext.SchemaVersion(103))
	kept(103, 5, 4, 100)
	equal(t, "others'", []int{len(u.schemas("t")), len(v.schemas("s"))}, []int{1, 1})
}

func registerTogether(t *testing.T, u *user) {
	versions := make([]ext.SchemaVersion, parallel)
	errs := testdb.Concurrently(parallel, func(i int) error {
		sc, err := u.h.Registry.Register(t.Context(), u.owner, ext.Schema{Namespace: "s", Document: fmt.Append(nil, i), CreatedAt: u.now}, u.quota)
		versions[i] = sc.Version
		return err
	})
	must(t, "Register", errors.Join(errs...))
	seen := map[ext.SchemaVersion]bool{}
	for _, v := range versions {
		seen[v] = true
	}
	equal(t, "versions", len(seen), parallel)
	all := u.schemas("s")
	equal(t, "the newest", all[0].Version, ext.SchemaVersion(parallel))
	for i, v := range versions {
		equal(t, "document", string(all[parallel-int(v)].Document), fmt.Sprint(i))
	}
}

func activateTogether(t *testing.T, u *user) {
	for range parallel {
		u.register("s", `{}`)
	}
	for range 3 {
		errs := testdb.Concurrently(parallel, func(i int) error {
			_, err := u.h.Registry.SetStatus(t.Context(), u.owner, ext.SchemaID{Namespace: "s", Version: ext.SchemaVersion(i + 1)}, ext.Active, u.now)
			return err
		})
		must(t, "SetStatus", errors.Join(errs...))
		n := 0
		for _, sc := range u.schemas("s") {
			if sc.Status == ext.Active {
				n++
				equal(t, "active", u.active("s"), sc)
			}
		}
		equal(t, "active ones", n, 1)
	}
}

func putsAgainstActivations(t *testing.T, u *user) {
	const versions = 6
	for range versions {
		u.register("s", `{}`)
	}
	u.activate("s", 1)
	errs := testdb.Concurrently(8, func(i int) error {
		if i == 0 {
			for v := ext.SchemaVersion(2); v <= versions; v++ {
				if _, err := u.h.Registry.SetStatus(t.Context(), u.owner, ext.SchemaID{Namespace: "s", Version: v}, ext.Active, u.now); err != nil {
					return err
				}
			}
			return nil
		}
		for done := 0; done < 6; {
			sc, err := u.h.Registry.Active(t.Context(), u.owner, "s")
			if err != nil {
				return err
			}
			op := put("s", fmt.Sprint(i), fmt.Sprint(sc.Version))
			op.Schema = sc.Version
			switch _, err = u.try(op); {
			case err == nil:
				done++
			case !errors.Is(err, ext.ErrSchemaChanged):
				return err
			}
		}
		return nil
	})
	must(t, "puts and activations", errors.Join(errs...))
	last := 0
	for _, e := range u.events() {
		v := versionOf(t, e)
		if v < last {
			t.Errorf("change %d was validated by version %d, one before it by %d", e.Seq, v, last)
		}
		last = v
	}
}
