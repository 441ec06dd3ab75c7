package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	ss "holdfast/internal/syncstorage"
)

func (u *user) open(collection, body string) string {
	u.t.Helper()
	return u.post("/storage/"+collection+"?batch=true", body).is(202).posted().Batch
}

func TestBatch(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.post("/storage/toys", `[{"id":"a","payload":"old","sortindex":5}]`).is(200)
	u.later(time.Second)

	opened := u.post("/storage/toys?batch=true", `[{"id":"a","payload":"new"},{"id":"bad","payload":1}]`).is(202)
	p := opened.posted()
	if p.Batch == "" || p.Batch != url.QueryEscape(p.Batch) || p.Modified != "" {
		t.Errorf("opened: %+v", p)
	}
	if want := fmt.Sprintf(`{"batch":%q,"success":["a"],"failed":{"bad":"invalid json"}}`, p.Batch); opened.body != want {
		t.Errorf("opened: %s; want %s", opened.body, want)
	}
	opened.has("X-Last-Modified", aStamp).has("X-Weave-Timestamp", "1790000001.12")

	u.later(time.Second)
	again := u.post("/storage/toys?batch="+p.Batch, `[{"id":"a","sortindex":6},{"id":"b","payload":"B"}]`).is(202)
	again.has("X-Last-Modified", aStamp).has("X-Weave-Timestamp", "1790000002.12")
	if got := again.posted(); got.Batch != p.Batch || !slices.Equal(got.Success, []string{"a", "b"}) {
		t.Errorf("appended: %+v", got)
	}
	u.get("/storage/toys?full").is(200, `[{"id":"a","modified":1790000000.12,"payload":"old","sortindex":5}]`)
	u.get("/info/collection_counts").is(200, `{"toys":1}`)

	u.later(time.Second)
	const commit = "1790000003.12"
	u.post("/storage/toys?commit=true&batch="+p.Batch, `[{"id":"c","payload":"C"},{"id":"b","payload":"last"},{"id":"bad","ttl":-1}]`).
		is(200, `{"modified":`+commit+`,"success":["c","b"],"failed":{"bad":"invalid json"}}`).
		has("X-Last-Modified", commit).has("X-Weave-Timestamp", commit)
	u.get("/storage/toys?full&sort=oldest").is(200, `[{"id":"a","modified":`+commit+`,"payload":"new","sortindex":6},`+
		`{"id":"b","modified":`+commit+`,"payload":"last"},{"id":"c","modified":`+commit+`,"payload":"C"}]`)
	u.get("/info/collections").is(200, `{"toys":`+commit+`}`)
	u.post("/storage/toys?batch="+p.Batch, bsos("d")).is(400, "0")
	u.post("/storage/toys?commit=true&batch="+p.Batch, bsos("d")).is(400, "0")
	u.get("/storage/toys?sort=oldest").is(200, `["a","b","c"]`)
}

func TestBatchQueries(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, query := range []string{"batch", "batch=", "batch=true", "batch=TRUE", "batch=True", "batch=%74rue", "other=1&batch"} {
		if u.post("/storage/toys?"+query, `[]`).is(202).posted().Batch == "" {
			t.Errorf("%q opens no batch", query)
		}
	}
	u.get("/info/collections").is(200, "{}")
	for _, query := range []string{"batch&commit=true", "batch=true&commit=TRUE", "batch=&commit=true"} {
		p := u.post("/storage/toys?"+query, bsos("a")).is(200).posted()
		if p.Batch != "" || p.Modified == "" {
			t.Errorf("%q: %+v", query, p)
		}
	}
	id := u.open("toys", bsos("b"))
	unknown := strings.Repeat("0", 32)
	for _, query := range []string{
		"commit=true", "commit", "commit=false", "batch=true&commit", "batch=true&commit=", "batch=true&commit=1", "batch=true&commit=yes", "batch=true&commit=false", "batch=" + id + "&commit=false",
		"batch=sammich", "batch=false", "batch=1", "batch=" + unknown, "batch=" + unknown + "&commit=true", "batch=" + strings.ToUpper(id), "batch=" + id + "0", "batch=" + id[1:], "batch=%00" + id[1:],
		"batch=" + id + "%20", "batch=" + url.QueryEscape("' OR 1=1 --"), "batch=" + strings.Repeat("9", 3000), "batch=%ff",
	} {
		u.post("/storage/toys?"+query, bsos("c")).is(400, "0")
	}
	u.get("/storage/toys").is(200, `["a"]`)
	u.post("/storage/toys?commit=true&batch="+id, "", "Content-Type: application/newlines").is(200)
	u.get("/storage/toys").is(200, `["b","a"]`)
}

func TestBatchIsOnesOwn(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	other := u.server.user(t)
	id := u.open("toys", bsos("a"))
	other.post("/storage/toys?batch="+id, bsos("b")).is(400, "0")
	other.post("/storage/toys?commit=true&batch="+id, bsos("b")).is(400, "0")
	u.post("/storage/games?batch="+id, bsos("b")).is(400, "0")
	u.post("/storage/games?commit=true&batch="+id, bsos("b")).is(400, "0")
	other.get("/info/collections").is(200, "{}")
	u.get("/info/collections").is(200, "{}")
	u.post("/storage/toys?commit=true&batch="+id, "[]").is(200)
	u.get("/storage/toys").is(200, `["a"]`)
}

func TestBatchLifetime(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	id := u.open("toys", bsos("a"))
	late := u.open("toys", bsos("b"))
	u.later(ss.BatchLifetime - 10*time.Millisecond)
	u.post("/storage/toys?batch="+id, bsos("c")).is(202)
	u.post("/storage/toys?commit=true&batch="+id, "[]").is(200)
	u.post("/storage/toys?batch="+late, bsos("d")).is(202) // appending does not extend the lifetime
	u.later(10 * time.Millisecond)
	u.post("/storage/toys?batch="+late, bsos("e")).is(400, "0")
	u.post("/storage/toys?commit=true&batch="+late, bsos("e")).is(400, "0")
	u.get("/storage/toys").is(200, `["c","a"]`)
}

func TestBatchTimeToLive(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	id := u.open("toys", `[{"id":"a","ttl":10},{"id":"b","ttl":0}]`)
	u.later(time.Hour)
	u.post("/storage/toys?commit=true&batch="+id, `[{"id":"c","ttl":5}]`).is(200)
	u.get("/storage/toys").is(200, `["c","a"]`)
	u.later(5 * time.Second)
	u.get("/storage/toys").is(200, `["a"]`)
	u.later(5 * time.Second)
	u.get("/storage/toys").is(200, `[]`)
}

// TestBatchesSideBySide checks that a collection's batches are independent. Deleting the collection ends them.
func TestBatchesSideBySide(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	one, two := u.open("toys", bsos("a", "b")), u.open("toys", bsos("b", "c"))
	u.put("/storage/toys/d", `{}`).is(200)
	u.post("/storage/toys?commit=true&batch="+two, "[]").is(200)
	u.get("/storage/toys?sort=oldest").is(200, `["d","b","c"]`)
	u.post("/storage/toys?commit=true&batch="+one, "[]").is(200)
	u.get("/storage/toys?sort=oldest").is(200, `["d","c","a","b"]`)

	id := u.open("toys", bsos("e"))
	u.delete("/storage/toys?ids=a").is(200)
	u.post("/storage/toys?batch="+id, bsos("f")).is(202)
	u.delete("/storage/toys").is(200)
	u.post("/storage/toys?batch="+id, bsos("f")).is(400, "0")
	id = u.open("games", bsos("e"))
	u.delete("/storage").is(200)
	u.post("/storage/games?commit=true&batch="+id, bsos("f")).is(400, "0")
	u.get("/info/collections").is(200, "{}")
}

// TestBatchPrecondition checks that a failed commit leaves the batch open.
func TestBatchPrecondition(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	seen := u.put("/storage/toys/a", `{}`).modified()
	id := u.post("/storage/toys?batch=true", bsos("b"), unless+seen).is(202).posted().Batch
	u.post("/storage/toys?batch="+id, bsos("c"), unless+seen).is(202)
	u.put("/storage/toys/a", `{"payload":"x"}`).is(200)
	u.post("/storage/toys?batch="+id, bsos("d"), unless+seen).is(412)
	u.post("/storage/toys?commit=true&batch="+id, bsos("d"), unless+seen).is(412)
	u.get("/storage/toys").is(200, `["a"]`)
	now := u.get("/storage/toys").modified()
	u.post("/storage/toys?commit=true&batch="+id, bsos("e"), unless+now).is(200)
	u.get("/storage/toys").is(200, `["e","c","b","a"]`)
}

// TestBatchTotals checks that limits apply to the actual, not the declared, size.
func TestBatchTotals(t *testing.T) {
	t.Parallel()
	s := start(t, setup{config: func(c *ss.Config) {
		c.Limits.MaxPostRecords, c.Limits.MaxTotalRecords = 6, 8
		c.Limits.MaxPostBytes = 300 << 10
		c.Limits.MaxRequestBytes = 400 << 10
		c.Limits.MaxTotalBytes = 300<<10 + 10
	}})
	for _, commit := range []string{"", "&commit=true"} {
		u := s.user(t)
		id := u.open("toys", bsos("a", "b", "c", "d", "e", "f"))
		u.post("/storage/toys?batch="+id, bsos("f", "g")).is(202)
		u.post("/storage/toys?batch="+id+commit, bsos("g", "h", "i"), "X-Weave-Total-Records: 3").is(400, "17")
		u.post("/storage/toys?commit=true&batch="+id, bsos("h")).is(200)
		if got := u.get("/storage/toys").ids(); len(got) != 8 {
			t.Errorf("%q are stored", got)
		}
		id = u.open("games", "["+bso("a", strings.Repeat("x", 300<<10))+"]")
		u.post("/storage/games?batch="+id, "["+bso("b", strings.Repeat("x", 10))+"]").is(202)
		u.post("/storage/games?batch="+id+commit, "["+bso("c", "x")+"]").is(400, "17")
		u.post("/storage/games?commit=true&batch="+id, "["+bso("b", "y")+"]").is(200)
		if got := u.get("/storage/games").ids(); len(got) != 2 {
			t.Errorf("%q are stored", got)
		}
	}
}

func TestDeclaredSizes(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	id := u.open("toys", "[]")
	const total, post = 250 << 20, 2560 << 10
	for _, query := range []string{"", "?batch=true", "?batch=true&commit=true", "?batch=" + id} {
		for name, limit := range map[string]int{"X-Weave-Records": 100, "X-Weave-Bytes": post, "X-Weave-Total-Records": 10000, "X-Weave-Total-Bytes": total} {
			ok := http.StatusOK
			if strings.Contains(query, "batch") && !strings.Contains(query, "commit") {
				ok = http.StatusAccepted
			}
			for value, status := range map[string]int{"0": ok, fmt.Sprint(limit): ok, "007": ok} {
				u.post("/storage/toys"+query, bsos("a"), name+": "+value).is(status)
			}
			for _, value := range []string{fmt.Sprint(limit + 1), "4294967295"} {
				u.post("/storage/toys"+query, bsos("b"), name+": "+value).is(400, "17")
			}
			for _, value := range []string{"x", "-1", "1.0", "1e1", "+1", "0x1", "4294967296", "99999999999999999999", "1 2", "1,2", "NaN"} {
				u.post("/storage/toys"+query, bsos("b"), name+": "+value).is(400, "0")
			}
			r := u.request("POST", u.path("/storage/toys"+query), strings.NewReader(bsos("b")), "Content-Type: application/json")
			r.Header[name] = []string{""}
			u.send(r).is(400, "0")
			u.post("/storage/toys"+query, bsos("b"), name+": 1", name+": 1").is(400, "0")
			u.put("/storage/toys/a", `{}`, name+": x").is(200)
			u.get("/storage/toys", name+": x").is(200)
		}
	}
	u.get("/storage/toys").is(200, `["a"]`)
}
