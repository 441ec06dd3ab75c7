package httpapi_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	ext "holdfast/internal/extstorage"
)

func (a *answer) detail() string {
	a.t.Helper()
	text, _, ok := strings.Cut(strings.TrimPrefix(a.body, `{"error":`), `,"requestId"`)
	if !ok {
		a.t.Fatalf("%s: %q", a.what, clip(a.body))
	}
	return text + "}"
}

func (a *answer) wants(status int, detail string) {
	a.t.Helper()
	if got := a.is(status).detail(); got != detail {
		a.t.Errorf("%s:\n%s, want\n%s", a.what, got, detail)
	}
}

const orderSchema = `{"schema":{"type":"object","required":["id"],"properties":{
	"n":{"type":"number","maximum":5},"lines":{"items":{"properties":{"n":{"minimum":1,"maximum":9}}}}}}}`

func TestPlacesOfWrites(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":{"id":1,"n":1,"s":"x","lines":[],"big":1e308}}`).is(http.StatusCreated)
	c.post("/namespaces/a/schemas", orderSchema).is(http.StatusCreated)
	c.patch("/namespaces/a/schemas/1", `{"status":"active"}`, "Content-Type: application/json").is(http.StatusOK)
	inc := records + "/k/increment"
	r := c.runner()
	const in = `"namespace":"a","key":"k"`
	const most = `"keyword":"maximum","bound":5,"message":"must be at most 5"}]`

	c.put("k", `{"value":{"n":7,"lines":[{"n":1},{"n":0}]}}`).wants(400, `{"code":"VALIDATION_FAILED","message":"/value lacks a required member: id","retryable":false,"pointer":"/value","failures":[`+
		`{"pointer":"/value","location":"","missing":"id","keyword":"required","bound":["id"],"message":"lacks a required member: id"},`+
		`{"pointer":"/value/lines/1/n","location":"/lines/1/n","keyword":"minimum","bound":1,"message":"must be at least 1"},`+
		`{"pointer":"/value/n","location":"/n",`+most+`}`)

	const sum = `{"code":"VALIDATION_FAILED","message":"/by must be at most 5","retryable":false,"pointer":"/by","failures":[{"pointer":"/by","location":"/n",` + most + `}`
	c.post(inc, `{"pointer":"/n","by":9}`).wants(400, sum)
	r.ask(`{"operation":"increment",`+in+`,"pointer":"/n","by":9}`).wants(400, sum)
	c.post("/batch", `{"ops":[{"op":"check",`+in+`,"ifRevision":1},{"op":"increment",`+in+`,"pointer":"/n","by":9}]}`).
		wants(400, `{"code":"BULK_PARTIAL_FAILURE","message":"/ops/1/by must be at most 5","retryable":false,"pointer":"/ops/1/by",`+
			`"failures":[{"pointer":"/ops/1/by","location":"/n",`+most+`,"index":1,"cause":"VALIDATION_FAILED"}`)
	c.post(inc, `{"pointer":"/lines/n","by":1}`).fails(400, "VALIDATION_FAILED", "pointer /pointer")
	c.post(inc, `{"pointer":"/s","by":1}`).fails(400, "VALIDATION_FAILED", "pointer /pointer")
	c.post(inc, `{"pointer":"/big","by":1e-308}`).fails(400, "VALIDATION_FAILED", "pointer /by")
	c.post(inc, `{"pointer":"/n","by":1,"max":1}`).wants(409, `{"code":"BOUND_REACHED","message":"the sum would be greater than max","retryable":false,"pointer":"/max"}`)
	c.post(inc, `{"pointer":"/n","by":-1,"min":1}`).wants(409, `{"code":"BOUND_REACHED","message":"the sum would be less than min","retryable":false,"pointer":"/min"}`)
	c.post("/batch", `{"ops":[{"op":"increment",`+in+`,"pointer":"/n","by":1,"max":1}]}`).fails(409, "BULK_PARTIAL_FAILURE", "cause BOUND_REACHED", "pointer /ops/0/max")

	// A patch error points at the failing member, or the member's nearest parent in the patch.
	for patch, places := range map[string]string{
		`{"n":7}`:                               "/n /n",
		`{"id":null}`:                           "/id ",
		`{"lines":[{"n":1},{"n":{}},{"n":10}]}`: "/lines/2/n /lines/2/n",
		`{"s":1,"n":6}`:                         "/n /n",
		`[1]`:                                   " ",
	} {
		at, location, _ := strings.Cut(places, " ")
		want := `"pointer":"` + at + `","failures":[{"pointer":"` + at + `","location":"` + location + `"`
		if a := c.patch(records+"/k", patch).fails(400, "VALIDATION_FAILED"); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s, want %s", patch, a.body, want)
		}
		want = `"pointer":"/patch` + at + `","failures":[{"pointer":"/patch` + at + `","location":"` + location + `"`
		if a := r.ask(`{"operation":"patch",`+in+`,"patch":`+patch+`}`).fails(400, "VALIDATION_FAILED"); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s, want %s", patch, a.body, want)
		}
	}
	c.post(records, `{"items":[{"key":"x","value":{"id":1}},{"key":"y","value":{"id":1,"n":9}}]}`).fails(400, "BULK_PARTIAL_FAILURE", "index 1", "pointer /items/1/value/n")
	c.post("/import", `{"namespace":"a","key":"x","value":{"id":1}}`+"\n"+`{"namespace":"a","key":"y","value":{"id":1,"n":9}}`, lines).
		fails(400, "BULK_PARTIAL_FAILURE", "index 1", "pointer /value/n")

	var many strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&many, `{"n":%d},`, i%2)
	}
	a := c.put("k", `{"value":{"id":1,"lines":[`+many.String()+`{}]}}`).fails(400, "VALIDATION_FAILED", "pointer /value/lines/0/n")
	if n := strings.Count(a.body, `"location"`); n != ext.MaxSchemaFailures || !strings.Contains(a.body, `"/value/lines/38/n"`) {
		t.Errorf("%d failures: %s", n, a.body)
	}
	c.get(records + "/k").says(`{"revision":1}`)
}

func TestLimitsSay(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	large := func(pointer string, limit, size int, unit string) string {
		return fmt.Sprintf(`{"code":"LIMIT_EXCEEDED","message":"%[5]s has %[3]d %[4]s: the limit is %[2]d","retryable":false,"pointer":"%[1]s","limit":%[2]d,"size":%[3]d}`,
			pointer, limit, size, unit, cmp.Or(pointer, "the body"))
	}
	c.put("k", `{"value":`+text(65_537)+`}`).wants(413, large("/value", 65_536, 65_537, "bytes"))
	c.put("k", `{"value": `+text(270_000)+` }`).wants(413, large("/value", 65_536, 270_000, "bytes"))
	c.put("k", `{"value":1,"metadata":{"a":`+text(5_000)+`}}`).wants(413, large("/metadata", 4_096, 5_006, "bytes"))
	c.runner().ask(`{"operation":"put","namespace":"a","key":"k","value":`+text(65_537)+`}`).wants(413, large("/value", 65_536, 65_537, "bytes"))
	c.post(records, `{"items":[`+strings.Repeat(`{"key":"k","value":1},`, 24)+`{"key":"k","value":1}]}`).wants(413, large("/items", 20, 25, "items"))
	c.post("/batch", `{"ops":[`+strings.Repeat(`{"op":"delete","namespace":"a","key":"k"},`, 24)+`{}]}`).wants(413, large("/ops", 20, 25, "items"))
	item := func(i int) string { return `{"key":"` + strconv.Itoa(i) + `","value":` + text(60_000) + `},` }
	var items strings.Builder
	for i := range 9 {
		items.WriteString(item(i))
	}
	c.post(records, `{"items":[`+items.String()+`{"key":"x","value":1}]}`).wants(413, large("/items", 524_288, 540_001, "bytes of values and metadata"))
	if a := c.post(records, `{"items":[{"key":"a","value":1},{"key":"b","value":`+text(70_000)+`}]}`).fails(413, "BULK_PARTIAL_FAILURE", "index 1", "cause LIMIT_EXCEEDED", "pointer /items/1/value"); !strings.Contains(a.body, `"limit":65536,"size":70000`) {
		t.Errorf("an item: %s", a.body)
	}
	c.post("/namespaces/a/schemas", `{"schema":{"title":`+text(70_000)+`}}`).wants(413, large("/schema", 65_536, 70_010, "bytes"))
	c.put("p", `{"value":{"a":`+text(40_000)+`}}`).is(http.StatusCreated)
	c.patch(records+"/p", `{"b":`+text(40_000)+`}`).wants(413, large("", 65_536, 80_011, "bytes after the merge"))
	c.runner().ask(`{"operation":"patch","namespace":"a","key":"p","patch":{"b":`+text(40_000)+`}}`).wants(413, large("/patch", 65_536, 80_011, "bytes after the merge"))
	c.put("n", `{"value":[`+strings.Repeat("1e300,", 2_000)+`1]}`).
		wants(413, `{"code":"LIMIT_EXCEEDED","message":"/value/1771 is too large: the limit is 524288 zeros in its numbers when they are written without exponents","retryable":false,"pointer":"/value/1771","limit":524288}`)
	c.put("n", `{"value":[`+strings.Repeat("6.62607015e-34,", 3_000)+`1]}`).is(http.StatusCreated)

	body := strings.Repeat(" ", 300_000)
	c.put("k", body).wants(413, `{"code":"LIMIT_EXCEEDED","message":"the body has 300000 bytes: the limit is 294912 bytes","retryable":false,"pointer":"","limit":294912,"size":300000}`)
	unsaid := c.request(http.MethodPut, records+"/k", struct{ *strings.Reader }{strings.NewReader(body)})
	unsaid.ContentLength = -1
	c.send(unsaid).wants(413, `{"code":"LIMIT_EXCEEDED","message":"the body is too large: the limit is 294912 bytes","retryable":false,"pointer":"","limit":294912}`)
	c.post("/import", strings.Repeat("x", 300_000), lines).
		wants(413, `{"code":"BULK_PARTIAL_FAILURE","message":"line 1 is too large: the limit is 294912 bytes","retryable":false,"pointer":"","limit":294912,"index":0,"cause":"LIMIT_EXCEEDED","imported":{"lines":0,"records":0,"written":0,"unchanged":0,"expired":0,"schemas":0}}`)
}

func TestQuotaIsNotRetryable(t *testing.T) {
	t.Parallel()
	c := start(t, setup{config: func(config *ext.Config) { config.Quota.Keys, config.Quota.Bytes = 2, 100 }}).install(t)
	c.put("1", `{"value":1}`).is(http.StatusCreated)
	c.put("2", `{"value":1}`).is(http.StatusCreated)
	c.put("3", `{"value":1}`).has("Retry-After", "").wants(429, `{"code":"QUOTA_EXCEEDED",`+
		`"message":"the quota of 2 keys in a namespace is used up: delete records, or ask the operator for a larger quota","retryable":false,"limit":2,"size":3}`)
	c.put("2", `{"value":"`+strings.Repeat("x", 200)+`"}`).fails(429, "QUOTA_EXCEEDED")
	c.post("/batch", `{"ops":[{"op":"delete","namespace":"a","key":"1"},{"op":"put","namespace":"a","key":"2","value":"`+strings.Repeat("x", 200)+`"}]}`).
		fails(429, "BULK_PARTIAL_FAILURE", "cause QUOTA_EXCEEDED", "index 1")
}
