package extstorage_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	ext "holdfast/internal/extstorage"
)

type asked struct {
	ext.Registry
	times *atomic.Int64
}

func (a asked) Active(ctx context.Context, o ext.Owner, ns ext.Namespace) (ext.Schema, error) {
	a.times.Add(1)
	return a.Registry.Active(ctx, o, ns)
}

func TestSchemasAreAskedForOnce(t *testing.T) {
	t.Parallel()
	var times atomic.Int64
	m := newService(t, func(o *ext.Options) { o.Registry = asked{o.Registry, &times} })
	const installs = 1000
	for range 2 {
		for i := range installs {
			r := m.r
			r.Grant.Owner.Install = ext.InstallID(fmt.Sprintf("00000000-0000-4000-9000-%012d", i))
			// This put changes nothing, but it looks up the schema.
			put := task(ext.PutTask, "k", `1`)
			put.Precondition.Revision = ext.Some[ext.Revision](7)
			if _, err := m.Do(t.Context(), r, put); err == nil {
				t.Fatal("a precondition held on nothing")
			}
		}
	}
	if times := times.Load(); times != installs {
		t.Errorf("schemas were asked for %d times, want %d", times, installs)
	}
}

// TestGuessedSchema checks that a put to a namespace missing from the cache reads no schema, and still returns the
// same result as a put that does.
func TestGuessedSchema(t *testing.T) {
	t.Parallel()
	var times atomic.Int64
	m := newService(t, func(o *ext.Options) { o.Registry = asked{o.Registry, &times} })
	want := func(what string, reads int64) {
		t.Helper()
		if got := times.Swap(0); got != reads {
			t.Errorf("%s: schemas were read %d times, want %d", what, got, reads)
		}
	}
	m.do(t, task(ext.PutTask, "k", `1`))
	m.do(t, task(ext.PutTask, "k", `2`))
	want("puts without a schema", 0)

	m.activate(t, `{"type":"string"}`)
	times.Store(0)
	cold := func() *service {
		s, err := ext.NewService(m.options)
		if err != nil {
			t.Fatal(err)
		}
		return &service{s, m.options, m.store, m.clock, m.r}
	}
	wantPlace(t, "a number", func() error { _, err := cold().Do(t.Context(), m.r, task(ext.PutTask, "k", `3`)); return err }(), "/value")
	want("a refused value", 1)
	// The schema is checked before the precondition.
	put := task(ext.PutTask, "k", `3`)
	put.Precondition.Revision = ext.Some[ext.Revision](7)
	wantPlace(t, "a number, with a precondition", func() error { _, err := cold().Do(t.Context(), m.r, put); return err }(), "/value")
	want("a refused value with a precondition", 1)
	cold().do(t, task(ext.PutTask, "k", `"a"`))
	want("a valid value", 1)
	m.wantValue(t, "k", `"a"`)

	// A stored response says nothing about schemas.
	r := m.r
	r.IdempotencyKey = &ext.IdempotencyKey{Key: "once"}
	other := task(ext.PutTask, "k", `1`)
	other.Namespace = "b"
	if _, err := m.Do(t.Context(), r, other); err != nil {
		t.Fatal(err)
	}
	c := cold()
	if res, err := c.Do(t.Context(), r, task(ext.PutTask, "k", `1`)); err != nil || !res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
	c.do(t, task(ext.PutTask, "k", `"b"`))
	want("a put after a stored answer", 1)
}

func TestGrantsAreRemembered(t *testing.T) {
	t.Parallel()
	m := newService(t)
	claims := func(install int, access string) []byte {
		return fmt.Appendf(nil, `{"tenant_id":"00000000-0000-4000-8000-000000000001","install_id":"00000000-0000-4000-9000-%012d","ns":{"a":%q}}`, install, access)
	}
	for range 2 {
		for i := range 10 {
			for access, want := range map[string]ext.Access{"r": ext.Read, "rw": ext.Read | ext.Modify} {
				g, err := m.ParseGrant(claims(i+1, access))
				if err != nil {
					t.Fatal(err)
				}
				if g.In("a") != want || string(g.Owner.Install) != fmt.Sprintf("00000000-0000-4000-9000-%012d", i+1) {
					t.Errorf("%d, %s: %+v", i+1, access, g)
				}
			}
		}
		if _, err := m.ParseGrant([]byte(`{"ns":{}}`)); err == nil {
			t.Error("claims without an owner are accepted")
		}
	}
}
