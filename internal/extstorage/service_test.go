package extstorage_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/schemas"
	"holdfast/internal/extstorage/sqlite"
	"holdfast/internal/testdb/opened"
)

type validator struct{ *schemas.Validator }

func newValidator() validator { return validator{schemas.NewValidator(1<<20, nil)} }

func (validator) Trial(context.Context, []byte, [][]byte) error { return nil }

type service struct {
	*ext.Service

	options ext.Options
	store   *sqlite.Store
	clock   *clock.Manual
	r       ext.Request // full access to namespaces a and b, read access to c
}

func openStore(t testing.TB) *sqlite.Store {
	t.Helper()
	return sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations), sqlite.Options{})
}

const tenant, install = "0f8b2c1e-7d3a-4f7e-9a51-3c1d2e4f5a6b", "7d3a2c1e-0f8b-4f7e-9a51-3c1d2e4f5a6b"

func newService(t testing.TB, change ...func(*ext.Options)) *service {
	t.Helper()
	store, hands, j := openStore(t), clock.NewManual(time.UnixMilli(1_700_000_000_123)), newValidator()
	o := ext.Options{
		Store: store, Registry: store, Installs: store, Tokens: store, Deletions: store, Config: ext.DefaultConfig(), Clock: hands.Now,
		Validators: j, Documents: j, CursorKeys: [][]byte{[]byte(strings.Repeat("k", 32))},
	}
	for _, fn := range change {
		fn(&o)
	}
	s, err := ext.NewService(o)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := ext.ParseGrant([]byte(`{"tenant_id":"` + tenant + `","install_id":"` + install + `","ns":{"a":"rw","b":"rw","c":"r"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &service{s, o, store, hands, ext.Request{Grant: grant, Caller: ext.Caller{Kind: "token", ID: "7"}}}
}

func task(kind ext.TaskKind, key, value string) ext.Task {
	return ext.Task{Kind: kind, Namespace: "a", Key: ext.Key(key), Value: canonjson.Value(value)}
}

func increment(key, pointer, by string) ext.Task {
	t := task(ext.IncrementTask, key, "")
	p, _ := canonjson.ParsePointer(pointer) // valid in tests
	t.Increment = canonjson.Increment{Pointer: p, By: canonjson.Number(by), Create: true}
	return t
}

func (m *service) do(t testing.TB, task ext.Task) ext.Result {
	t.Helper()
	res, err := m.Do(t.Context(), m.r, task)
	if err != nil {
		t.Fatalf("%+v: %v", task, err)
	}
	return res
}

func (m *service) wantValue(t testing.TB, key, want string) {
	t.Helper()
	rec, err := m.GetRecord(t.Context(), m.r, "a", ext.Key(key), ext.Precondition{})
	if err != nil || string(rec.Value) != want {
		t.Errorf("%s is %s, %v; want %s", key, rec.Value, err, want)
	}
}

func (m *service) activate(t testing.TB, document string) ext.SchemaVersion {
	t.Helper()
	sc, err := m.RegisterSchema(t.Context(), m.r, "a", []byte(document))
	if err == nil {
		_, err = m.SetSchema(t.Context(), m.r, "a", sc.Version, ext.Active)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sc.Version
}

func wantPlace(t testing.TB, what string, err error, pointer string) {
	t.Helper()
	if at, ok := ext.PointerOf(err); !ok || at != pointer {
		t.Errorf("%s: %#v, want a refusal at %q", what, err, pointer)
	}
}

func TestIncrementsAddUp(t *testing.T) {
	t.Parallel()
	m := newService(t)
	const writers, each = 16, 5
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if _, err := m.Do(t.Context(), m.r, increment("n", "/count", "0.1")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	m.wantValue(t, "n", `{"count":8}`)
	rec, err := m.GetRecord(t.Context(), m.r, "a", "n", ext.Precondition{})
	if err != nil || rec.Revision != writers*each {
		t.Errorf("revision %d, %v", rec.Revision, err)
	}
}

// TestPutMeetsActivation checks that a value which a new schema rejects is stored before the activation or not at all.
func TestPutMeetsActivation(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.activate(t, `{"type":["integer","string"]}`)
	sc, err := m.RegisterSchema(t.Context(), m.r, "a", []byte(`{"type":"string"}`))
	if err != nil {
		t.Fatal(err)
	}
	// Another process activates the schema, so this process still caches the old one.
	begun := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 1000 {
				_, err := m.Do(t.Context(), m.r, task(ext.PutTask, "k"+strconv.Itoa(i), strconv.Itoa(n)))
				if n == 0 {
					begun <- struct{}{}
				}
				if err != nil {
					wantPlace(t, "a put that came too late", err, "/value")
					return
				}
			}
			t.Error("no put was validated by the new schema")
		})
	}
	for range 8 {
		<-begun
	}
	before, err := m.store.Changes(t.Context(), m.r.Grant.Owner, 1<<60, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.store.SetStatus(t.Context(), m.r.Grant.Owner, ext.SchemaID{Namespace: "a", Version: sc.Version}, ext.Active, ext.At(m.clock.Now())); err != nil {
		t.Fatal(err)
	}
	after, err := m.store.Changes(t.Context(), m.r.Grant.Owner, 1<<60, 1)
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	end, err := m.store.Changes(t.Context(), m.r.Grant.Owner, 1<<60, 1)
	if err != nil || end.Last != after.Last || end.Last < before.Last {
		t.Errorf("changes %d before, %d after the activation and %d at the end, %v", before.Last, after.Last, end.Last, err)
	}
	// An outdated cached schema does not reject a value that the new schema allows.
	m.do(t, task(ext.PutTask, "text", `"x"`))
	if _, err := m.store.SetStatus(t.Context(), m.r.Grant.Owner, ext.SchemaID{Namespace: "a", Version: 1}, ext.Active, ext.At(m.clock.Now())); err != nil {
		t.Fatal(err)
	}
	m.do(t, task(ext.PutTask, "number", "1"))
}

func TestSchemaVersion(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.activate(t, `{"type":"array"}`)
	for version, pointer := range map[ext.SchemaVersion]string{0: "/schemaVersion", 2: "/schemaVersion", 999: "/schemaVersion", 1: "/value"} {
		put := task(ext.PutTask, "k", `{}`)
		put.Schema = ext.Some(version)
		_, err := m.Do(t.Context(), m.r, put)
		wantPlace(t, fmt.Sprint("version ", version), err, pointer)
	}
	put := task(ext.PutTask, "k", `[]`)
	put.Schema = ext.Some(ext.SchemaVersion(1))
	m.do(t, put)
	patch := task(ext.PatchTask, "k", `{"a":1}`)
	_, err := m.Do(t.Context(), m.r, patch)
	wantPlace(t, "a patch that makes an object", err, "")
	m.wantValue(t, "k", `[]`)
}

func TestArraysAreValidatedWhole(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.activate(t, `{"type":"array","minItems":1,"items":{"type":"object"}}`)
	m.do(t, task(ext.PutTask, "k", `[{}]`))
	for value, place := range map[string]string{`[]`: "/value", `{}`: "/value", `[{},1]`: "/value/1"} {
		_, err := m.Do(t.Context(), m.r, task(ext.PutTask, "k", value))
		wantPlace(t, value, err, place)
	}
	m.activate(t, `{"type":"object"}`)
	for _, value := range []string{`[]`, `[{}]`} {
		_, err := m.Do(t.Context(), m.r, task(ext.PutTask, "k", value))
		wantPlace(t, value, err, "/value")
	}
}

type counted struct {
	ext.Validators
	times int
}

func (c *counted) Validate(ctx context.Context, of ext.TenantID, document []byte, v canonjson.Value) error {
	c.times++
	return c.Validators.Validate(ctx, of, document, v)
}

func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	var held counted
	m := newService(t, func(o *ext.Options) {
		held.Validators = o.Validators
		o.Validators = &held
	})
	m.activate(t, `{"type":"array"}`)
	m.do(t, task(ext.PutTask, "k", `[]`))
	held.times = 0
	_, err := m.Do(t.Context(), m.r, task(ext.PutTask, "k", `{}`))
	wantPlace(t, "an object", err, "/value")
	if held.times != 1 {
		t.Errorf("it was validated %d times", held.times)
	}
}

// TestRevisedMeetsActivation checks that the active schema validates an increment's result, even after another process
// activated it.
func TestRevisedMeetsActivation(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.do(t, task(ext.PutTask, "n", "1"))
	strict := m.activate(t, `{"maximum":2}`)
	m.do(t, increment("n", "", "1"))
	elsewhere := func(v ext.SchemaVersion) {
		t.Helper()
		if _, err := m.store.SetStatus(t.Context(), m.r.Grant.Owner, ext.SchemaID{Namespace: "a", Version: v}, ext.Active, ext.At(m.clock.Now())); err != nil {
			t.Fatal(err)
		}
	}
	_, err := m.Do(t.Context(), m.r, increment("n", "", "1"))
	wantPlace(t, "beyond the maximum", err, "/by")
	lax, err := m.RegisterSchema(t.Context(), m.r, "a", []byte(`{"maximum":9}`))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere(lax.Version)
	if res := m.do(t, increment("n", "", "1")); res.Sum != "3" {
		t.Errorf("by the schema that is active now: %+v", res)
	}
	elsewhere(strict)
	_, err = m.Do(t.Context(), m.r, increment("n", "", "1"))
	wantPlace(t, "beyond the maximum of the schema that is active again", err, "/by")
	_, err = m.Batch(t.Context(), m.r, []ext.Task{task(ext.PutTask, "k", "1"), task(ext.PatchTask, "n", "7")})
	if item, ok := errors.AsType[*ext.ItemError](err); !ok || item.Index != 1 {
		t.Errorf("a patch in a batch: %v", err)
	}
	m.wantValue(t, "n", "3")
}

func TestRevoked(t *testing.T) {
	t.Parallel()
	m := newService(t)
	m.do(t, task(ext.PutTask, "k", "1"))
	o, now := m.r.Grant.Owner, ext.At(m.clock.Now())
	if err := m.store.RevokeInstall(t.Context(), o, now); err != nil {
		t.Fatal(err)
	}
	m.clock.Advance(time.Second)
	if _, err := m.GetRecord(t.Context(), m.r, "a", "k", ext.Precondition{}); !errors.Is(err, ext.ErrRevoked) || !errcode.Is(err, errcode.Denied) {
		t.Errorf("a second after it was revoked: %v", err)
	}
	if _, _, err := m.RegisterInstall(t.Context(), o, ext.Registration{}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := m.GetRecord(t.Context(), m.r, "a", "k", ext.Precondition{}); !errors.Is(err, ext.ErrRevoked) {
		t.Errorf("registered and not given access again: %v", err)
	}
	if _, _, err := m.RegisterInstall(t.Context(), o, ext.Registration{}, true); err != nil {
		t.Fatal(err)
	}
	m.wantValue(t, "k", "1")
	if err := m.RevokeInstall(t.Context(), o); err != nil { // effective immediately in this process
		t.Fatal(err)
	}
	if _, err := m.Do(t.Context(), m.r, task(ext.PutTask, "k", "2")); !errors.Is(err, ext.ErrRevoked) {
		t.Errorf("at once: %v", err)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	m := newService(t)
	put := func(ns ext.Namespace) error {
		_, err := m.Do(t.Context(), m.r, ext.Task{Namespace: ns, Key: "k", Value: "1"})
		return err
	}
	if err := put("c"); !errors.Is(err, ext.ErrAccess) {
		t.Errorf("a put where only r is granted: %v", err)
	}
	if denied, ok := errors.AsType[*ext.NamespaceDeniedError](put("d")); !ok || denied.Namespace != "d" {
		t.Error("a put into a namespace that is not granted is not denied")
	}
	if err := put("b"); err != nil {
		t.Error(err)
	}
	narrowed := ext.Registration{Namespaces: map[ext.Namespace]ext.Access{"a": ext.Read | ext.Modify, "b": ext.Read, "d": ext.Read | ext.Modify}}
	if _, _, err := m.RegisterInstall(t.Context(), m.r.Grant.Owner, narrowed, false); err != nil {
		t.Fatal(err)
	}
	if err := put("b"); !errors.Is(err, ext.ErrAccess) {
		t.Errorf("a put where the operator leaves r: %v", err)
	}
	for _, ns := range []ext.Namespace{"c", "d"} {
		if _, ok := errors.AsType[*ext.NamespaceDeniedError](put(ns)); !ok {
			t.Errorf("a put into %s, which the token or the operator does not name, is not denied", ns)
		}
	}
	if err := put("a"); err != nil {
		t.Error(err)
	}
}

func TestParseGrant(t *testing.T) {
	t.Parallel()
	claims := func(tenant, install, ns string) string {
		return `{"exp":1,"tenant_id":` + tenant + `,"install_id":` + install + `,"ns":` + ns + `}`
	}
	id := `"` + tenant + `"`
	for in, pointer := range map[string]string{
		claims(id, id, `{"x":"rwx"}`):           "/ns/x",
		claims(id, id, `{"X":"r"}`):             "/ns/X",
		claims(id, id, `{"x":"r","x":"rw"}`):    "/ns/x",
		claims(id, id, `null`):                  "/ns",
		claims(id, id, `["x"]`):                 "/ns",
		claims(id, id, `{"x":1}`):               "/ns",
		claims(`"x"`, id, `{}`):                 "/tenant_id",
		claims(`null`, id, `{}`):                "/tenant_id",
		claims(id, `5`, `{}`):                   "/install_id",
		`{"TENANT_ID":` + id + `,"ns":{}}`:      "-",
		`[]`:                                    "",
		`{`:                                     "",
		`"` + strings.Repeat("x", 20_000) + `"`: "",
	} {
		g, err := ext.ParseGrant([]byte(in))
		v, ok := errors.AsType[*ext.ValidationError](err)
		if !ok || pointer != "-" && v.Pointer != pointer {
			t.Errorf("%.100s: %#v, want a refusal at %q", in, err, pointer)
		}
		if g.Owner != (ext.Owner{}) && pointer == "/ns/x" && g.Namespaces != nil {
			t.Errorf("%.100s grants %+v", in, g)
		}
	}
}

func TestCursors(t *testing.T) {
	t.Parallel()
	m := newService(t)
	for i := range 5 {
		m.do(t, task(ext.PutTask, fmt.Sprint("k", i), "1"))
	}
	asked := ext.Listing{Namespace: "a", Prefix: "k", Limit: 2}
	list := func(r ext.Request, l ext.Listing) (keys string, next string, err error) {
		records, next, err := m.ListRecords(t.Context(), r, l)
		for _, rec := range records {
			keys += string(rec.Key)
		}
		return keys, next, err
	}
	var all, cursor string
	for l := asked; ; l.Cursor = cursor {
		keys, next, err := list(m.r, l)
		if err != nil {
			t.Fatal(err)
		}
		if all += keys; next == "" {
			break
		}
		cursor = next
	}
	if all != "k0k1k2k3k4" {
		t.Errorf("the pages are %s", all)
	}
	other := m.r
	other.Grant.Owner.Install = tenant
	for what, refused := range map[string]func(r *ext.Request, l *ext.Listing){
		"namespace": func(_ *ext.Request, l *ext.Listing) { l.Namespace = "b" },
		"prefix":    func(_ *ext.Request, l *ext.Listing) { l.Prefix = "k1" },
		"direction": func(_ *ext.Request, l *ext.Listing) { l.Reverse = true },
		"owner":     func(r *ext.Request, _ *ext.Listing) { *r = other },
		"cut":       func(_ *ext.Request, l *ext.Listing) { l.Cursor = l.Cursor[:len(l.Cursor)-1] },
		"text":      func(_ *ext.Request, l *ext.Listing) { l.Cursor = "k1" },
		"long":      func(_ *ext.Request, l *ext.Listing) { l.Cursor = strings.Repeat("A", 5000) },
	} {
		r, l := m.r, asked
		l.Cursor = cursor
		refused(&r, &l)
		_, _, err := list(r, l)
		wantPlace(t, "another "+what, err, "/cursor")
	}
	for i := range cursor {
		l := asked
		l.Cursor = cursor[:i] + string(cursor[i]^1) + cursor[i+1:]
		_, _, err := list(m.r, l)
		wantPlace(t, "an edited cursor", err, "/cursor")
	}
}

func TestCursorsOutliveTheirKey(t *testing.T) {
	t.Parallel()
	m := newService(t)
	for i := range 2 {
		m.do(t, task(ext.PutTask, fmt.Sprint("k", i), "1"))
	}
	asked := ext.Listing{Namespace: "a", Limit: 1}
	_, cursor, err := m.ListRecords(t.Context(), m.r, asked)
	if err != nil || cursor == "" {
		t.Fatal(cursor, err)
	}
	asked.Cursor = cursor
	old, fresh := m.options.CursorKeys[0], []byte(strings.Repeat("n", 32))
	for _, tc := range []struct {
		keys [][]byte
		good bool
	}{{[][]byte{old, fresh}, true}, {[][]byte{fresh, old}, true}, {[][]byte{fresh}, false}} {
		o := m.options
		o.CursorKeys = tc.keys
		s, err := ext.NewService(o)
		if err != nil {
			t.Fatal(err)
		}
		if records, _, err := s.ListRecords(t.Context(), m.r, asked); !tc.good {
			wantPlace(t, "a cursor of a dropped key", err, "/cursor")
		} else if err != nil || len(records) != 1 || records[0].Key != "k1" {
			t.Errorf("with %d keys: %v, %v", len(tc.keys), records, err)
		}
	}
	for _, keys := range [][][]byte{nil, {old, fresh[:31]}} {
		o := m.options
		o.CursorKeys = keys
		if _, err := ext.NewService(o); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%d keys: %v", len(keys), err)
		}
	}
}

// TestSweepAfter checks that the sweep removes a record no earlier than sweep_after past its expiry, and appends the
// change then. Meanwhile the record counts against no quota.
func TestSweepAfter(t *testing.T) {
	t.Parallel()
	m := newService(t, func(o *ext.Options) { o.Config.SweepAfter, o.Config.Quota.Keys = 2*time.Hour, 1 })
	put := task(ext.PutTask, "a", "1")
	put.TTL = ext.Some[int64](60)
	m.do(t, put)
	if _, err := m.Do(t.Context(), m.r, task(ext.PutTask, "b", "1")); !errcode.Is(err, errcode.Quota) {
		t.Fatalf("while it lives: %v", err)
	}
	sweep := func(ahead time.Duration) int {
		t.Helper()
		n, err := m.Sweep(t.Context(), ext.SweptRecords, m.clock.Now().Add(ahead), 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := sweep(time.Hour); n != 0 {
		t.Errorf("a clock that is an hour fast has removed %d", n)
	}
	m.wantValue(t, "a", "1")
	m.clock.Advance(time.Minute)
	m.do(t, task(ext.PutTask, "b", "1"))
	m.clock.Advance(2*time.Hour - time.Millisecond)
	if n := sweep(0); n != 0 {
		t.Errorf("%d removed a millisecond too early", n)
	}
	m.clock.Advance(time.Millisecond)
	if n := sweep(0); n != 1 {
		t.Errorf("%d removed", n)
	}
	feed, err := m.Changes(t.Context(), m.r, 2, 10, 0)
	if err != nil || len(feed.Changes) != 1 || feed.Changes[0].Op != ext.ChangeExpire || feed.Changes[0].At != ext.At(m.clock.Now()) {
		t.Errorf("%+v, %v", feed, err)
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	m := newService(t)
	if _, err := m.Do(t.Context(), m.r, task(ext.PatchTask, "k", `{"a":1}`)); !errors.Is(err, ext.ErrNoRecord) {
		t.Errorf("a patch of nothing: %v", err)
	}
	put := task(ext.PutTask, "k", `{"a":1,"b":2}`)
	put.TTL, put.Metadata = ext.Some[int64](60), `{"m":1}`
	first := m.do(t, put)
	patch := task(ext.PatchTask, "k", `{"a":null,"c":3}`)
	patch.Precondition.Match = ext.Tags{Set: true, Seqs: []ext.Seq{first.Seq}}
	second := m.do(t, patch)
	m.wantValue(t, "k", `{"b":2,"c":3}`)
	rec, err := m.GetRecord(t.Context(), m.r, "a", "k", ext.Precondition{})
	if err != nil || rec.Metadata != `{"m":1}` || rec.ExpiresAt != first.ExpiresAt || second.Revision != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
	_, err = m.Do(t.Context(), m.r, patch)
	if mismatch, ok := errors.AsType[*ext.MismatchError](err); !ok || mismatch.Current != 2 || !mismatch.Header {
		t.Errorf("with the old tag: %v", err)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	m := newService(t)
	batch := []ext.Task{task(ext.PutTask, "k", `{"n":1}`), increment("k", "/n", "2"), increment("k", "/n", "3"), task(ext.PatchTask, "k", `{"x":1}`)}
	results, err := m.Batch(t.Context(), m.r, batch)
	if err != nil || results[1].Sum != "3" || results[2].Sum != "6" || results[3].Revision != 4 {
		t.Fatalf("%+v, %v", results, err)
	}
	m.wantValue(t, "k", `{"n":6,"x":1}`)
	check := task(ext.CheckTask, "k", "")
	check.Precondition.Revision = ext.Some[ext.Revision](9)
	_, err = m.Batch(t.Context(), m.r, []ext.Task{task(ext.DeleteTask, "k", ""), increment("k", "/n", "1"), check})
	if item, ok := errors.AsType[*ext.ItemError](err); !ok || item.Index != 2 || !errcode.Is(err, errcode.Conflict) {
		t.Errorf("a check that fails: %v", err)
	}
	m.wantValue(t, "k", `{"n":6,"x":1}`)
	if _, err := m.Batch(t.Context(), m.r, []ext.Task{task(ext.DeleteTask, "k", ""), increment("k", "/n", "1")}); err != nil {
		t.Error(err)
	}
	m.wantValue(t, "k", `{"n":1}`)

	_, err = m.BulkPut(t.Context(), m.r, []ext.Task{task(ext.PutTask, "x", "1"), task(ext.PutTask, "x", "2")})
	wantPlace(t, "a key twice", err, "/key")
	if _, err := m.Batch(t.Context(), m.r, make([]ext.Task, ext.MaxItems+1)); !errors.Is(err, canonjson.ErrTooLarge) {
		t.Errorf("too many: %v", err)
	}
	if _, err := m.Batch(t.Context(), m.r, nil); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("none: %v", err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	m := newService(t)
	r := m.r
	r.IdempotencyKey = &ext.IdempotencyKey{Key: "once", Request: [32]byte{1}}
	add := increment("n", "", "5")
	add.Increment.Max = "5"
	for range 2 {
		res, err := m.Do(t.Context(), r, add)
		if err != nil || res.Sum != "5" || res.Revision != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	r.IdempotencyKey = &ext.IdempotencyKey{Key: "once", Request: [32]byte{2}}
	if _, err := m.Do(t.Context(), r, add); !errors.Is(err, ext.ErrKeyReused) {
		t.Errorf("the key with another request: %v", err)
	}
	r.IdempotencyKey = &ext.IdempotencyKey{Key: "other"}
	_, err := m.Do(t.Context(), r, add)
	wantPlace(t, "over max", err, "/max")
	m.wantValue(t, "n", "5")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	m := newService(t)
	with := func(change func(*ext.Task)) error {
		put := task(ext.PutTask, "k", "1")
		change(&put)
		_, err := m.Do(t.Context(), m.r, put)
		return err
	}
	for pointer, change := range map[string]func(*ext.Task){
		"/ttlSeconds": func(p *ext.Task) { p.TTL = ext.Some[int64](59) },
		"":            func(p *ext.Task) { p.Value = "" },
		"/metadata":   func(p *ext.Task) { p.Metadata = "[]" },
		"/key":        func(p *ext.Task) { p.Key = "a/b" },
		"/namespace":  func(p *ext.Task) { p.Namespace = "-" },
		" ":           func(p *ext.Task) { p.Kind = ext.IncrementTask },
	} {
		wantPlace(t, pointer, with(change), strings.TrimSpace(pointer))
	}
	for what, change := range map[string]func(*ext.Task){
		"value": func(p *ext.Task) { p.Value = canonjson.Value(`"` + strings.Repeat("x", ext.MaxValueBytes) + `"`) },
		"metadata": func(p *ext.Task) {
			p.Metadata = canonjson.Value(`{"x":"` + strings.Repeat("x", ext.MaxMetadataBytes) + `"}`)
		},
	} {
		if err := with(change); !errors.Is(err, canonjson.ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestUsageOfExpired(t *testing.T) {
	t.Parallel()
	m := newService(t)
	put := task(ext.PutTask, "brief", `"x"`)
	put.TTL = ext.Some[int64](60)
	m.do(t, put)
	m.do(t, task(ext.PutTask, "lasting", `"x"`))
	m.clock.Advance(time.Minute)
	u, err := m.Usage(t.Context(), m.r)
	if want := (ext.Counters{Bytes: 5, Keys: 1, Namespaces: 1}); err != nil || u.Counters != want {
		t.Errorf("%+v, want %+v (%v)", u.Counters, want, err)
	}
}

// TestWarnings checks that warnings start at exactly 80 percent, even for a quota of MaxInt64.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const bytes = 160
	for limit, percent := range map[int64]int64{
		math.MaxInt64: 0, bytes*100/80 + 1: 0, bytes * 100 / 80: 80, bytes*100/81 + 1: 80, bytes * 100 / 95: 95,
		bytes + 1: 99, bytes: 100, bytes / 2: 200, 1: bytes * 100,
	} {
		m := newService(t)
		for _, key := range []string{"k", "l"} {
			m.do(t, task(ext.PutTask, key, `"`+strings.Repeat("x", bytes/2-4)+`"`))
		}
		quota := ext.Registration{Overrides: ext.Overrides{Quota: ext.Quota{Bytes: limit}}} // possibly below the usage
		if _, _, err := m.RegisterInstall(t.Context(), m.r.Grant.Owner, quota, false); err != nil {
			t.Fatal(err)
		}
		u, err := m.Usage(t.Context(), m.r)
		if err != nil {
			t.Fatal(err)
		}
		got := int64(0)
		for _, w := range u.Warnings {
			got = w.Percent
		}
		if got != percent || u.Counters.Bytes != bytes {
			t.Errorf("%d of %d bytes: %+v, want %d percent", u.Counters.Bytes, limit, u.Warnings, percent)
		}
	}
}
