package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	ext "holdfast/internal/extstorage"
)

func (c *client) fill(ns string, keys ...string) {
	c.t.Helper()
	for part := range slices.Chunk(keys, 20) {
		items := make([]string, len(part))
		for i, key := range part {
			items[i] = fmt.Sprintf(`{"key":"%s","value":{"n":%d}}`, key, i)
		}
		c.post("/namespaces/"+ns+"/records", `{"items":[`+strings.Join(items, ",")+`]}`).is(http.StatusOK)
	}
}

func (c *client) all(args string) (keys []string) {
	c.t.Helper()
	for cursor := ""; ; {
		page, next := c.get(records + "?" + args + cursor).keys()
		if keys = append(keys, page...); next == "" {
			return keys
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
}

func TestPagesMeet(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	keys := []string{"B", "a", "a-", "a.", "a0", "aa", "b", "é", "z", "\U0010FFFF"}
	slices.Sort(keys) // by bytes
	c.fill("a", keys...)
	backwards := slices.Clone(keys)
	slices.Reverse(backwards)
	for _, limit := range []int{1, 2, 3, 9, 10, 11} {
		if got := c.all(fmt.Sprintf("limit=%d", limit)); !slices.Equal(got, keys) {
			t.Errorf("limit %d: %q", limit, got)
		}
		if got := c.all(fmt.Sprintf("limit=%d&reverse=true", limit)); !slices.Equal(got, backwards) {
			t.Errorf("limit %d, reverse: %q", limit, got)
		}
	}
	if got := c.all("prefix=a&limit=2"); !slices.Equal(got, []string{"a", "a-", "a.", "a0", "aa"}) {
		t.Errorf("prefix: %q", got)
	}
	if got := c.all("prefix=%F4%8F%BF%BF&limit=1"); !slices.Equal(got, []string{"\U0010FFFF"}) {
		t.Errorf("the last prefix: %q", got)
	}
	// The next page starts after the previous page's last key, even if that key was deleted.
	page, next := c.get(records + "?limit=2").keys()
	c.delete(page[1]).is(http.StatusNoContent)
	if got, _ := c.get(records + "?limit=1&cursor=" + next).keys(); !slices.Equal(got, keys[2:3]) {
		t.Errorf("behind a key that is gone: %q", got)
	}
}

func TestDefaultPage(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	keys := make([]string, 101)
	for i := range keys {
		keys[i] = fmt.Sprintf("%03d", i)
	}
	c.fill("a", keys...)
	for args, want := range map[string]int{"": 25, "?limit=100": 100, "?prefix=": 25, "?prefix=00": 10} {
		if got, _ := c.get(records + args).keys(); len(got) != want {
			t.Errorf("%s: %d keys", args, len(got))
		}
	}
}

func TestCursorIsBound(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.fill("a", "a1", "a2", "a3")
	c.fill("b", "a1", "a2", "a3")
	_, cursor := c.get(records + "?prefix=a&limit=1").keys()
	use := func(by *client, inner, cursor string) *answer {
		return by.get(inner + "&cursor=" + url.QueryEscape(cursor))
	}
	use(c, records+"?prefix=a&limit=2&values=true&metadata=true", cursor).is(http.StatusOK)
	other := c.installOf(t, c.tenant)
	other.fill("a", "a1")
	for _, a := range []*answer{
		use(c, records+"?limit=1", cursor),
		use(c, records+"?prefix=a1&limit=1", cursor),
		use(c, records+"?prefix=a&limit=1&reverse=true", cursor),
		use(c, "/namespaces/b/records?prefix=a&limit=1", cursor),
		use(other, records+"?prefix=a&limit=1", cursor),
		use(c, "/export?", cursor),
		use(c, records+"?prefix=a&limit=1", cursor+"A"),
		use(c, records+"?prefix=a&limit=1", strings.ToLower(cursor)),
	} {
		a.fails(400, "VALIDATION_FAILED", "pointer /cursor")
	}
}

func TestBooleansOfQueries(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":{"x":1},"metadata":{"y":2}}`).is(http.StatusCreated)
	meta := `{"key":"k","revision":1,"etag":"\"1\"","ttlExpiresAt":null,"createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:20.123Z"`
	for args, want := range map[string]string{
		"": meta + `}`, "?values=false&metadata=false&reverse=false": meta + `}`,
		"?values=true": meta + `,"value":{"x":1}}`, "?metadata=true": meta + `,"metadata":{"y":2}}`,
		"?values=true&metadata=true": meta + `,"value":{"x":1},"metadata":{"y":2}}`,
	} {
		if a := c.get(records + args); a.body != `{"items":[`+want+`],"nextCursor":null}` {
			t.Errorf("%s: %s", args, a.body)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.get("/usage").is(http.StatusOK).says(`{"bytes":{"used":0,"limit":268435456},"keys":{"used":0,"limitPerNamespace":5120},"namespaces":{"used":0,"limit":32},"byNamespace":[],"warnings":[]}`)
	c.put("k", `{"value": "é" ,"metadata":{"m":1}}`).is(http.StatusCreated)
	c.do("PUT", "/namespaces/b/records/k", `{"value":1}`).is(http.StatusCreated)
	c.get("/usage").says(`{"bytes":{"used":14,"limit":268435456},"keys":{"used":2,"limitPerNamespace":5120},"namespaces":{"used":2,"limit":32}}`)
	c.get("/namespaces").says(`{"namespaces":[{"namespace":"a","keys":1,"bytes":11},{"namespace":"b","keys":1,"bytes":3}]}`)
	c.granted(`{"b":"w"}`).get("/namespaces").says(`{"namespaces":[{"namespace":"b","keys":1,"bytes":3}]}`)
	c.register(quotas(ext.Quota{Bytes: 14, Namespaces: 2, Keys: 1}))
	c.get("/usage").says(`{"warnings":[{"what":"namespaces","used":2,"limit":2,"percent":100},{"what":"keys","namespace":"a","used":1,"limit":1,"percent":100},
		{"what":"keys","namespace":"b","used":1,"limit":1,"percent":100},{"what":"bytes","used":14,"limit":14,"percent":100}]}`)
}
