package httpapi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	ss "holdfast/internal/syncstorage"
)

// small sets limits that tests reach quickly, near the minimum for clients.
func small(c *ss.Config) {
	c.Limits.MaxPostBytes = 240000
	c.Limits.MaxRecordPayloadBytes = 200000
	c.Limits.MaxRequestBytes = 244096
	c.Limits.MaxPostRecords = 6
	c.Limits.Collections = map[string]ss.CollectionLimits{
		"images": {MaxPostBytes: 400000, MaxRecordPayloadBytes: 400000, MaxRequestBytes: 404096},
		"tabs":   {MaxRecordPayloadBytes: 1024},
	}
}

func sized(id string, n int) string { return bso(id, `"`+strings.Repeat("x", n-1)) }

func TestPayloadLimit(t *testing.T) {
	t.Parallel()
	u := start(t, setup{config: small}).user(t)
	for collection, limit := range map[string]int{"toys": 200000, "images": 400000, "tabs": 1024} {
		at := "/storage/" + collection
		u.put(at+"/a", sized("a", limit)).is(200)
		u.put(at+"/b", sized("b", limit+1)).is(400, "8")
		p := u.post(at, "["+sized("c", limit+1)+"]").is(200).posted()
		if !maps.Equal(p.Failed, map[string]string{"c": "retry bytes"}) || len(p.Success) != 0 {
			t.Errorf("%s: %+v", collection, p)
		}
		u.get(at).is(200, `["a"]`)
	}
}

func TestPostBytes(t *testing.T) {
	t.Parallel()
	u := start(t, setup{config: small}).user(t)
	for i, row := range []struct {
		name    string
		sizes   []int
		success string // successful records among a, b and c
	}{
		{"exactly full", []int{100000, 100000, 40000}, "abc"},
		{"one byte over", []int{100000, 100000, 40001}, "ab"},
		{"full, and an empty one", []int{200000, 40000, 0}, "abc"},
		{"a record that is too large does not count", []int{200001, 10000, 20000}, "bc"},
		{"a record that does not fit does not count", []int{200000, 40001, 3000}, "ac"},
	} {
		collection := fmt.Sprint("/storage/toys", i)
		var list []string
		want := map[string]string{}
		for i, n := range row.sizes {
			id := string(rune('a' + i))
			if n == 0 {
				list = append(list, `{"id":"`+id+`"}`)
			} else {
				list = append(list, sized(id, n))
			}
			if !strings.Contains(row.success, id) {
				want[id] = "retry bytes"
			}
		}
		p := u.post(collection, "["+strings.Join(list, ",")+"]").is(200).posted()
		if strings.Join(p.Success, "") != row.success || !maps.Equal(p.Failed, want) {
			t.Errorf("%s: %+v", row.name, p)
		}
		if got := u.get(collection + "?sort=oldest").ids(); strings.Join(got, "") != row.success {
			t.Errorf("%s: %q are stored", row.name, got)
		}
	}
}

// TestPostRecords checks that surplus valid records fail, starting at the end.
func TestPostRecords(t *testing.T) {
	t.Parallel()
	u := start(t, setup{config: small}).user(t)
	list := []string{`{"id":"bad","payload":1}`}
	for i := range 8 {
		list = append(list, bso(string(rune('a'+i)), "x"))
	}
	for _, query := range []string{"", "?batch=true"} {
		p := u.post("/storage/toys"+query, "["+strings.Join(list, ",")+"]").posted()
		if !slices.Equal(p.Success, []string{"a", "b", "c", "d", "e", "f"}) ||
			!maps.Equal(p.Failed, map[string]string{"bad": "invalid json", "g": "retry bso", "h": "retry bso"}) {
			t.Errorf("%q: %+v", query, p)
		}
	}
	if got := u.get("/storage/toys").ids(); len(got) != 6 {
		t.Errorf("%q are stored", got)
	}
}

// TestFullPost checks that a hundred records with the maximum total size fit the default limits.
func TestFullPost(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	list := make([]string, 101)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"%d","payload":"%s"}`, i, strings.Repeat("x", 26214))
	}
	p := u.post("/storage/toys", strings.Join(list[:100], "\n"), "Content-Type: application/newlines").is(200).posted()
	if len(p.Success) != 100 {
		t.Errorf("%d succeed", len(p.Success))
	}
	list[100] = `{"id":"last"}`
	p = u.post("/storage/toys", strings.Join(list, "\n"), "Content-Type: application/newlines").is(200).posted()
	if len(p.Success) != 100 || p.Failed["last"] != "retry bso" {
		t.Errorf("%d succeed, %v fail", len(p.Success), p.Failed)
	}
}

func TestRequestBytes(t *testing.T) {
	t.Parallel()
	u := start(t, setup{config: small}).user(t)
	for collection, limit := range map[string]int{"toys": 244096, "images": 404096} {
		for method, path := range map[string]string{"PUT": "/storage/" + collection + "/a", "POST": "/storage/" + collection} {
			body := bso("a", "x")
			if method == "POST" {
				body = "[" + body + "]"
			}
			body += strings.Repeat(" ", limit-len(body))
			for _, chunked := range []bool{false, true} {
				send := func(body string, headers ...string) *answer {
					r := u.request(method, u.path(path), strings.NewReader(body), headers...)
					if chunked {
						r.ContentLength = -1
					}
					return u.send(r)
				}
				u.delete("/storage/" + collection).is(200)
				if chunked {
					send(body+" ").is(400, "17")
				} else {
					send(body+" ", "Expect: 100-continue").is(413, "17")
				}
				u.get("/storage/"+collection).is(200, "[]").has("X-Last-Modified", "0.00")
				send(body).is(200)
			}
		}
	}
	u.post("/storage/toys", strings.Repeat(" ", 244097)).is(413, "17")
}

func TestEnforcedQuota(t *testing.T) {
	t.Parallel()
	u := start(t, setup{config: func(c *ss.Config) {
		c.EnforceQuota = true
		c.Limits.MaxUserQuota = 4096
	}}).user(t)
	u.get("/info/quota").is(200, "[0,4]")
	u.put("/storage/toys/a", sized("a", 1024)).is(200).has("X-Weave-Quota-Remaining", "3")
	u.post("/storage/games", "["+sized("a", 1024)+","+sized("b", 1000)+"]").is(200).has("X-Weave-Quota-Remaining", "1.0234375")
	before := u.get("/info/collections").body
	for _, a := range []*answer{
		u.put("/storage/toys/b", sized("b", 1049)),
		u.put("/storage/toys/a", sized("a", 2073)),
		u.post("/storage/toys", "["+sized("c", 1000)+","+sized("d", 49)+"]"),
		u.post("/storage/tabs?batch=true", "["+sized("c", 1049)+"]"),
		u.post("/storage/tabs?batch=true&commit=true", "["+sized("c", 1049)+"]"),
	} {
		a.is(403, "14").has("X-Weave-Quota-Remaining", "")
	}
	id := u.open("tabs", "["+sized("a", 1000)+"]")
	u.post("/storage/tabs?batch="+id, "["+sized("b", 49)+"]").is(403, "14")
	u.post("/storage/tabs?commit=true&batch="+id, "["+sized("b", 49)+"]").is(403, "14")
	u.get("/info/collections").is(200, before)
	u.get("/info/quota").is(200, "[2.9765625,4]").has("X-Weave-Quota-Remaining", "")
	u.put("/storage/toys/b", sized("b", 1048)).is(200).has("X-Weave-Quota-Remaining", "0")
	u.put("/storage/toys/b", `{"payload":""}`).is(200)
	u.delete("/storage/games/b").is(200)
	u.delete("/storage/games").is(200)
	u.put("/storage/toys/b", sized("b", 3072)).is(200)
	u.put("/storage/toys/c", `{"sortindex":1}`).is(200) // adds no bytes
	u.server.user(t).put("/storage/toys/a", sized("a", 4096)).is(200)
}

// TestCollectionQuota checks that the response contains the smaller of the remaining sizes.
func TestCollectionQuota(t *testing.T) {
	t.Parallel()
	for _, user := range []int64{0, 4096} {
		u := start(t, setup{config: func(c *ss.Config) {
			c.EnforceQuota = true
			c.Limits.MaxQuotaLimit = 2048
			c.Limits.MaxUserQuota = user
		}}).user(t)
		limited := func(with, without string) string {
			if user > 0 {
				return with
			}
			return without
		}
		u.put("/storage/toys/a", sized("a", 1024)).is(200).has("X-Weave-Quota-Remaining", "1")
		u.put("/storage/toys/b", sized("b", 1025)).is(403, "14")
		u.put("/storage/games/a", sized("a", 2048)).is(200).has("X-Weave-Quota-Remaining", "0")
		u.put("/storage/tabs/a", sized("a", 512)).is(200).has("X-Weave-Quota-Remaining", limited("0.5", "1.5"))
		u.put("/storage/tabs/b", sized("b", 513)).is(map[bool]int{true: 403, false: 200}[user > 0])
		u.get("/info/quota").is(200, limited("[3.5,4]", "[4.0009765625,null]"))
	}
}

func TestReportedQuota(t *testing.T) {
	t.Parallel()
	u := start(t, setup{config: func(c *ss.Config) {
		c.EnableQuota = true
		c.Limits.MaxUserQuota = 1024
	}}).user(t)
	u.put("/storage/toys/a", sized("a", 1024)).is(200).has("X-Weave-Quota-Remaining", "0")
	if u.over.Load() != nil {
		t.Error("a user at the limit is reported")
	}
	u.put("/storage/toys/b", sized("b", 1000)).is(200).has("X-Weave-Quota-Remaining", "0")
	if got := u.over.Load(); got == nil || *got != (ss.Used{Collection: 2024, User: 2024}) {
		t.Errorf("reported with %v", got)
	}
	u.get("/info/quota").is(200, "[1.9765625,null]")
	u.delete("/storage/nothing").is(200).has("X-Weave-Quota-Remaining", "")
	newUser(t).put("/storage/toys/a", `{}`).is(200).has("X-Weave-Quota-Remaining", "")
}
