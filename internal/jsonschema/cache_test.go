package jsonschema_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"holdfast/internal/errcode"
	"holdfast/internal/jsonschema"
)

const budget = 2 * jsonschema.MaxCompiled

func acquire(t *testing.T, c *jsonschema.Cache, tenant, document string) *jsonschema.Entry {
	t.Helper()
	e, err := c.Acquire(t.Context(), tenant, []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCacheCompilesOnce(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(budget)
	document := `{"properties":{"a":{"type":"string"}}}`
	got := make([]*jsonschema.Entry, 32)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i] = acquire(t, c, fmt.Sprint(i), document) })
	}
	all.Wait()
	for _, e := range got {
		if e.Schema != got[0].Schema {
			t.Fatal("one document, two schemas")
		}
		c.Release(e)
	}
	bytes, _ := got[0].Schema.Measured()
	if s := c.Stats(); s.Schemas != 1 || s.Bytes != bytes {
		t.Errorf("%+v, want a schema of %d bytes", s, bytes)
	}
}

func TestCacheKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(budget)
	for range 2 {
		for _, name := range []string{"string", "integer"} {
			e := acquire(t, c, "t", fmt.Sprintf(`{"$id":"https://example.org/s","$ref":"#a","$defs":{"x":{"$anchor":"a","type":%q}}}`, name))
			if err := e.Schema.Validate(context.Background(), `"text"`); (err == nil) != (name == "string") {
				t.Errorf("%s: %v", name, err)
			}
			c.Release(e)
		}
	}
}

func heavy(i int) string {
	return fmt.Sprintf(`{"enum":[%s,"x%d"]}`, repeated(10_000, "%d"), i)
}

// TestCacheHasABudget checks the byte limit, and that a tenant cannot evict the schema that another tenant used last.
func TestCacheHasABudget(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(budget)
	for i := range 3 {
		c.Release(acquire(t, c, "small", fmt.Sprintf(`{"title":"small %d"}`, i)))
	}
	for i := range 20 {
		c.Release(acquire(t, c, "large", heavy(i)))
		if s := c.Stats(); s.Bytes > budget || s.Capacity != budget {
			t.Fatalf("%+v", s)
		}
	}
	before := c.Stats()
	if before.Evictions == 0 {
		t.Error("nothing was given up")
	}
	for i := range 3 {
		e := acquire(t, c, "another", fmt.Sprintf(`{"title":"small %d"}`, i))
		c.Release(e)
	}
	if s := c.Stats(); s.Bytes != before.Bytes || s.Schemas != before.Schemas {
		t.Errorf("the schemas of another tenant were given up: %+v, then %+v", before, s)
	}
	if _, err := c.Acquire(t.Context(), "t", []byte(`{"type":"text"}`)); err == nil {
		t.Fatal("no error")
	}
	if s := c.Stats(); s != before {
		t.Errorf("an error is kept: %+v", s)
	}
	for i := range 20 { // one per tenant
		c.Release(acquire(t, c, fmt.Sprint(i), heavy(100+i)))
	}
	if s := c.Stats(); s.Bytes > budget {
		t.Errorf("%+v", s)
	}
}

// TestCacheWaits checks that schemas in use are not evicted: other schemas wait for a release until their request
// ends, and other tenants use the reserve.
func TestCacheWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := jsonschema.NewCache(budget)
		var used []*jsonschema.Entry
		var refused error
		for i := 0; ; i++ {
			e, err := c.Acquire(t.Context(), "t", []byte(heavy(i)))
			if err != nil {
				refused = err
				break
			}
			used = append(used, e)
		}
		if !errcode.Is(refused, errcode.Unavailable) {
			t.Fatalf("one more than there is memory for: %v", refused)
		}
		other := acquire(t, c, "other", heavy(1000))
		gone, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := c.Acquire(gone, "t", []byte(heavy(2000)))
			ended <- err
		}()
		synctest.Wait()
		leave()
		if err := <-ended; !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("a request that ended while it waited: %v", err)
		}
		go func() {
			e, err := c.Acquire(t.Context(), "t", []byte(heavy(3000)))
			if err == nil {
				c.Release(e)
			}
			ended <- err
		}()
		synctest.Wait()
		c.Release(used[0])
		c.Release(used[1])
		if err := <-ended; err != nil {
			t.Errorf("when there is memory again: %v", err)
		}
		for _, e := range append(used[2:], other) {
			c.Release(e)
		}
		if s := c.Stats(); s.Bytes > budget {
			t.Errorf("%+v", s)
		}
	})
}

func TestCacheIsShared(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(0)
	var all sync.WaitGroup
	for tenant := range 8 {
		all.Go(func() {
			for i := range 30 {
				document := heavy((i*7 + tenant) % 11)
				if i%3 == 0 {
					document = `{"type":"number","title":"` + strings.Repeat("x", i*100) + `"}`
				}
				e, err := c.Acquire(t.Context(), fmt.Sprint(tenant), []byte(document))
				if err != nil {
					t.Error(err)
					return
				}
				if err := e.Schema.Validate(t.Context(), `1`); err != nil {
					t.Error(err)
				}
				c.Release(e)
			}
		})
	}
	all.Wait()
	s := c.Stats()
	if s.Bytes > s.Capacity || s.Bytes != c.Charged() {
		t.Errorf("%+v, the schemas have %d", s, c.Charged())
	}
}
