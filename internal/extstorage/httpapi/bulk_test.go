package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	ext "holdfast/internal/extstorage"
)

func TestBulkPut(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	a := c.post(records, `{"items":[{"key":"b","value":{"x":1},"metadata":{"m":1},"ttlSeconds":60},{"key":"a","value":null}]}`).is(http.StatusOK)
	const times = `"createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:20.123Z"`
	if want := `{"namespace":"a","items":[{"key":"b","revision":1,"etag":"\"1\"","created":true,"ttlExpiresAt":"2026-09-21T14:14:20.123Z",` + times +
		`},{"key":"a","revision":1,"etag":"\"2\"","created":true,"ttlExpiresAt":null,` + times + `}]}`; a.body != want {
		t.Errorf("%s, want %s", a.body, want)
	}
	c.get(records + "/b").says(`{"value":{"x":1},"metadata":{"m":1}}`)
	c.post(records, `{"items":[{"key":"a","value":1,"ifRevision":1,"ifMatch":"\"2\""},{"key":"c","value":1,"ifRevision":0}]}`).is(http.StatusOK)
	if n := strings.Count(c.get("/changes").body, `"seq"`); n != 4 {
		t.Errorf("%d changes", n)
	}
}

func TestItemsFail(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("there", `{"value":1}`).is(http.StatusCreated)
	const good = `{"key":"new","value":1}`
	large := strings.Repeat("x", ext.MaxValueBytes-1)
	const partial = "BULK_PARTIAL_FAILURE"
	for _, x := range []struct {
		item   string
		status int
		more   []string
	}{
		{`1`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1"}},
		{`{}`, 400, []string{"cause VALIDATION_FAILED"}},
		{`{"value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1"}},
		{`{"key":"a/b","value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1/key"}},
		{`{"key":"k"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1"}},
		{`{"key":"k","value":{"a":[1e999]}}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1/value/a/0"}},
		{`{"key":"k","value":1,"ttlSeconds":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1/ttlSeconds"}},
		{`{"key":"k","value":1,"x":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1/x"}},
		{`{"key":"k","value":1,"ifMatch":"1"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1/ifMatch"}},
		{`{"key":"k","value":1,"schemaVersion":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1/schemaVersion"}},
		{`{"key":"new","value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /items/1/key"}},
		{`{"key":"there","value":1,"ifRevision":0}`, 409, []string{"cause REVISION_MISMATCH", "revision 1"}},
		{`{"key":"there","value":1,"ifMatch":"\"9\""}`, 412, []string{"cause REVISION_MISMATCH", "revision 1"}},
		{`{"key":"k","value":1,"ifRevision":2}`, 409, []string{"cause REVISION_MISMATCH", "revision 0"}},
		{`{"key":"k","value":"` + large + `"}`, 413, []string{"cause LIMIT_EXCEEDED"}},
	} {
		c.post(records, `{"items":[`+good+`,`+x.item+`]}`).fails(x.status, partial, append(x.more, "index 1")...)
	}
	c.register(quotas(ext.Quota{Keys: 2}))
	c.post(records, `{"items":[`+good+`,{"key":"new2","value":1}]}`).fails(429, partial, "index 1", "cause QUOTA_EXCEEDED").has("Retry-After", "")
	if keys, _ := c.get(records).keys(); len(keys) != 1 {
		t.Errorf("there are %q", keys)
	}

	items := func(n int, value string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"key":"%d","value":%s}`, i, value)
		}
		return `{"items":[` + strings.Join(list, ",") + `]}`
	}
	c.register(ext.Registration{})
	c.post(records, items(21, "1")).fails(413, "LIMIT_EXCEEDED")
	c.post(records, items(9, `"`+strings.Repeat("x", ext.MaxItemsBytes/9)+`"`)).fails(413, "LIMIT_EXCEEDED")
	c.post(records, items(8, `"`+strings.Repeat("x", ext.MaxItemsBytes/8-2)+`"`)).is(http.StatusOK)
	c.post(records, items(20, "1")).is(http.StatusOK)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	a := c.post("/batch", `{"ops":[
		{"op":"put","namespace":"a","key":"k","value":{"n":1},"ttlSeconds":60,"ifRevision":0},
		{"op":"increment","namespace":"a","key":"k","pointer":"/n","by":0.5,"max":2,"ifRevision":1},
		{"op":"check","namespace":"a","key":"k","ifRevision":2},
		{"op":"check","namespace":"c","key":"k","ifRevision":0},
		{"op":"delete","namespace":"b","key":"k"},
		{"op":"put","namespace":"d","key":"k","value":1},
		{"op":"delete","namespace":"d","key":"k","ifMatch":"*"}]}`).is(http.StatusOK)
	const times = `"ttlExpiresAt":"2026-09-21T14:14:20.123Z","createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:20.123Z"`
	never := strings.Replace(times, `"2026-09-21T14:14:20.123Z"`, "null", 1)
	want := `{"results":[{"op":"put","namespace":"a","key":"k","revision":1,"etag":"\"1\"","created":true,` + times +
		`},{"op":"increment","namespace":"a","key":"k","revision":2,"etag":"\"2\"","created":false,` + times +
		`,"sum":1.5},{"op":"check","namespace":"a","key":"k","revision":2,"etag":"\"2\""},{"op":"check","namespace":"c","key":"k","revision":0,"etag":null}` +
		`,{"op":"delete","namespace":"b","key":"k","existed":false},{"op":"put","namespace":"d","key":"k","revision":1,"etag":"\"3\"","created":true,` + never +
		`},{"op":"delete","namespace":"d","key":"k","existed":true}]}`
	if a.body != want {
		t.Errorf("%s\nwant %s", a.body, want)
	}
	const partial = "BULK_PARTIAL_FAILURE"
	for _, x := range []struct {
		op     string
		status int
		more   []string
	}{
		{`{"namespace":"a","key":"x"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1"}},
		{`{"op":"patch","namespace":"a","key":"x"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1/op"}},
		{`{"op":"put","key":"x","value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1"}},
		{`{"op":"put","namespace":"a","key":"x","value":1,"by":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1/by"}},
		{`{"op":"delete","namespace":"a","key":"x","value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1/value"}},
		{`{"op":"check","namespace":"a","key":"x"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1"}},
		{`{"op":"increment","namespace":"a","key":"x","by":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1"}},
		{`{"op":"increment","namespace":"a","key":"k","by":1,"pointer":"/x"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ops/1/pointer"}},
		{`{"op":"increment","namespace":"a","key":"x","by":1,"pointer":""}`, 404, []string{"cause NOT_FOUND"}},
		{`{"op":"check","namespace":"a","key":"k","ifRevision":9}`, 409, []string{"cause REVISION_MISMATCH", "revision 2"}},
		{`{"op":"check","namespace":"a","key":"k","ifMatch":"\"9\""}`, 412, []string{"cause REVISION_MISMATCH", "revision 2"}},
		{`{"op":"delete","namespace":"a","key":"x","ifRevision":1}`, 409, []string{"cause REVISION_MISMATCH", "revision 0"}},
		{`{"op":"put","namespace":"z","key":"x","value":1}`, 403, []string{"cause NAMESPACE_DENIED"}},
		{`{"op":"put","namespace":"c","key":"x","value":1}`, 403, []string{"cause UNAUTHORIZED"}},
		{`{"op":"check","namespace":"d","key":"x","ifRevision":0}`, 403, []string{"cause UNAUTHORIZED"}},
	} {
		c.post("/batch", `{"ops":[{"op":"put","namespace":"a","key":"new","value":1},`+x.op+`]}`).fails(x.status, partial, append(x.more, "index 1")...)
	}
	c.get(records + "/new").is(http.StatusNotFound)
	c.post("/batch", `{"ops":[`+strings.Repeat(`{"op":"delete","namespace":"a","key":"x"},`, 20)+`{"op":"delete","namespace":"a","key":"x"}]}`).fails(413, "LIMIT_EXCEEDED")
}

// TestFirstFailing checks that the first failing operation determines the error, whether or not the database finds it.
func TestFirstFailing(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":{"n":1}}`).is(http.StatusCreated)
	c.post("/namespaces/b/schemas", `{"schema":{"type":"object"}}`).is(http.StatusCreated)
	c.patch("/namespaces/b/schemas/1", `{"status":"active"}`, "Content-Type: application/json").is(http.StatusOK)
	fails := []struct {
		op     string
		status int
	}{
		{`{"op":"check","namespace":"a","key":"k","ifRevision":9}`, 409},
		{`{"op":"put","namespace":"a","key":"k","value":1,"ifMatch":"\"9\""}`, 412},
		{`{"op":"delete","namespace":"a","key":"x","ifRevision":0}`, 409},
		{`{"op":"increment","namespace":"a","key":"k","pointer":"/n","by":1,"ifMatch":"\"9\""}`, 412},
		{`{"op":"increment","namespace":"a","key":"k","pointer":"/n","by":1,"max":1}`, 409},
		{`{"op":"increment","namespace":"a","key":"x","pointer":"/n","by":1}`, 404},
		{`{"op":"put","namespace":"b","key":"k","value":1}`, 400},
	}
	const good = `{"op":"increment","namespace":"a","key":"new","pointer":"","by":1,"create":true}`
	for _, first := range fails {
		for _, second := range fails {
			ops := `{"ops":[` + good + `,` + first.op + `,` + second.op + `]}`
			for _, headers := range [][]string{nil, {"Idempotency-Key: again"}} {
				c.post("/batch", ops, headers...).fails(first.status, "BULK_PARTIAL_FAILURE", "index 1")
			}
		}
	}
	c.get(records + "/new").is(http.StatusNotFound)
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	inc, body := records+"/k/increment", `{"pointer":"/n","by":1,"create":true}`
	first := c.post(inc, body, "Idempotency-Key: 1").is(http.StatusCreated).has("Idempotency-Replayed", "")
	again := c.post(inc, body, "Idempotency-Key: 1").is(http.StatusCreated).has("Idempotency-Replayed", "true").has("ETag", `"1"`)
	if first.body != again.body {
		t.Errorf("%s is answered again with %s", first.body, again.body)
	}
	const reused = "IDEMPOTENCY_KEY_REUSED"
	c.post(inc, `{"pointer":"/n","by":2,"create":true}`, "Idempotency-Key: 1").fails(422, reused)
	c.post(inc, body, "Idempotency-Key: 1", `If-Match: "1"`).fails(422, reused)
	c.post(records+"/j/increment", body, "Idempotency-Key: 1").fails(422, reused)
	c.post("/batch", `{"ops":[{"op":"delete","namespace":"a","key":"k"}]}`, "Idempotency-Key: 1").fails(422, reused)

	c.post(inc, body, "Idempotency-Key: 2").is(http.StatusOK).says(`{"sum":2,"revision":2}`)
	c.post(inc, body, "Idempotency-Key: 1").has("Idempotency-Replayed", "true").says(`{"sum":1,"revision":1}`)

	ops := `{"ops":[{"op":"put","namespace":"b","key":"k","value":1},{"op":"increment","namespace":"a","key":"k","pointer":"/n","by":1}]}`
	one := c.post("/batch", ops, "Idempotency-Key: 3").is(http.StatusOK)
	two := c.post("/batch", ops, "Idempotency-Key: 3").is(http.StatusOK).has("Idempotency-Replayed", "true")
	if one.body != two.body {
		t.Errorf("%s is answered again with %s", one.body, two.body)
	}
	// Failures are not stored, and idempotency keys belong to an install.
	c.post(inc, `{"pointer":"/x","by":1}`, "Idempotency-Key: 4").is(http.StatusBadRequest)
	c.post(inc, body, "Idempotency-Key: 4").is(http.StatusOK).has("Idempotency-Replayed", "")
	c.installOf(t, c.tenant).post(inc, body, "Idempotency-Key: 1").is(http.StatusCreated).has("Idempotency-Replayed", "")
	c.post(inc, body, "Idempotency-Key: "+strings.Repeat("~", 255)).is(http.StatusOK)
}

// TestConcurrentIncrements checks that each concurrent increment is applied with its own revision, and that a request
// sent twice is applied once.
func TestConcurrentIncrements(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const clients, each = 8, 10
	var mu sync.Mutex
	revisions := map[string]int{}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for j := range each {
				r := c.request("POST", records+"/k/increment", strings.NewReader(`{"pointer":"/n","by":1,"create":true}`), fmt.Sprintf("Idempotency-Key: %d", (i/2)*each+j))
				a := c.send(r)
				mu.Lock()
				revisions[fmt.Sprint(a.members()["revision"])]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	const want = clients / 2 * each
	for revision, n := range revisions {
		if n != 2 {
			t.Errorf("revision %s was answered %d times", revision, n)
		}
	}
	c.get(records + "/k").says(fmt.Sprintf(`{"revision":%d,"value":{"n":%d}}`, want, want))
	c.get("/changes?since=1000000").fails(410, "CHANGES_EXPIRED")
	c.get("/changes").says(fmt.Sprintf(`{"nextSince":%d}`, want))
}
