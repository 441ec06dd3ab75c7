package jsonschema_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/extstorage/jsonschema"
)

func TestCacheCompilesOnce(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(1 << 20)
	document := `{"properties":{"a":{"type":"string"}}}`
	got := make([]*jsonschema.Schema, 32)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = c.Schema([]byte(document)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range got {
		if s != got[0] {
			t.Fatal("one document, two schemas")
		}
	}
	if n, _ := c.Kept(); n != 1 {
		t.Errorf("%d schemas are kept", n)
	}
}

// TestCacheKeepsTenantsApart: two documents with one $id, and one $anchor, are
// two schemas.
func TestCacheKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCache(1 << 20)
	for range 2 {
		for _, name := range []string{"string", "integer"} {
			s, err := c.Schema(fmt.Appendf(nil, `{"$id":"https://example.org/s","$ref":"#a","$defs":{"x":{"$anchor":"a","type":%q}}}`, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(`"text"`); (err == nil) != (name == "string") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestCacheForgets(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	c := jsonschema.NewCache(most)
	for i := range 300 {
		text := fmt.Sprintf(`{"title":"%d%s"}`, i, strings.Repeat("x", i*50))
		if _, err := c.Schema([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if n, bytes := c.Kept(); bytes > most || n < 1 {
			t.Fatalf("%d schemas, %d bytes", n, bytes)
		}
	}
	before, _ := c.Kept()
	if _, err := c.Schema([]byte(`{"type":"text"}`)); err == nil {
		t.Fatal("no error")
	}
	if after, _ := c.Kept(); after != before {
		t.Error("an error is kept")
	}
	// The largest has place even when it is alone.
	if _, err := c.Schema([]byte(`{"title":"` + strings.Repeat("x", jsonschema.MaxBytes-20) + `"}`)); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.Kept(); n != 1 {
		t.Errorf("%d are kept beside it", n)
	}
}
