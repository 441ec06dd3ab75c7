package httpapi_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

const lines = "Content-Type: application/x-ndjson"

func (a *answer) exported() (list []map[string]any) {
	a.t.Helper()
	a.is(http.StatusOK).has("Content-Type", "application/x-ndjson")
	for line := range strings.Lines(a.body) {
		var m map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&m); err != nil || !strings.HasSuffix(line, "\n") {
			a.t.Fatalf("the line %q: %v", line, err)
		}
		list = append(list, m)
	}
	return list
}

func end(records int) string { return fmt.Sprintf("\n{\"complete\":true,\"records\":%d}", records) }

func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%03d", i)
	}
	return keys
}

func TestExport(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	if a := c.get("/export"); a.body != "{\"export\":1,\"records\":0,\"lastChange\":0}\n{\"complete\":true,\"records\":0,\"schemas\":0}\n" {
		t.Errorf("nothing is %q", a.body)
	}
	c.fill("a", numbered(150)...)
	c.do("PUT", "/namespaces/d/records/hidden", `{"value":1}`).is(http.StatusCreated)
	c.do("PUT", "/namespaces/b/records/k", `{"value":1.50,"metadata":{"m":1},"ttlSeconds":60}`).is(http.StatusCreated)
	all := c.get("/export")
	list := all.exported()
	if len(list) != 154 || fmt.Sprint(list[0]) != "map[export:1 lastChange:152 records:151]" || list[101]["cursor"] == nil || fmt.Sprint(list[153]) != "map[complete:true records:151 schemas:0]" {
		t.Fatalf("%d lines, the last is %v", len(list), list[len(list)-1])
	}
	text := strings.Split(all.body, "\n")
	if want := `{"namespace":"b","key":"k","revision":1,"etag":"\"152\"","ttlExpiresAt":"2026-09-21T14:14:20.123Z","createdAt":"2026-09-21T14:13:20.123Z",` +
		`"updatedAt":"2026-09-21T14:13:20.123Z","value":1.5,"metadata":{"m":1}}`; text[152] != want {
		t.Errorf("a line is %s, want %s", text[152], want)
	}
	// A resumed export counts the earlier pages.
	rest := c.get("/export?cursor=" + url.QueryEscape(list[101]["cursor"].(string)))
	if want := strings.Join(text[102:153], "\n") + "\n{\"complete\":true,\"records\":151,\"schemas\":0}\n"; rest.body != want {
		t.Errorf("the rest is %q, want %q", clip(rest.body), clip(want))
	}
	c.installOf(t, c.tenant).get("/export?cursor="+list[101]["cursor"].(string)).fails(400, "VALIDATION_FAILED", "pointer /cursor")
}

// TestExportThatFails checks that a failed export closes the connection, so that a part does not look complete.
func TestExportThatFails(t *testing.T) {
	t.Parallel()
	s := start(t, setup{log: quiet})
	c := s.install(t)
	c.fill("a", numbered(150)...)
	var gone atomic.Bool
	s.store.export = func(after ext.Position) error {
		if after.Key != "" || gone.Load() {
			return errors.New("the disk is gone")
		}
		return nil
	}
	res, err := s.client.Do(c.request(http.MethodGet, "/export", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil || res.StatusCode != http.StatusOK || strings.Count(string(body), "\n") != 102 {
		t.Errorf("%d, %d lines and then %v", res.StatusCode, strings.Count(string(body), "\n"), err)
	}
	gone.Store(true)
	c.get("/export").fails(500, "INTERNAL_ERROR").has("Content-Type", "application/json")
}

func TestExportOfLargeValues(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	value := strings.Repeat("x", 60_000)
	for i := range 10 {
		c.put(fmt.Sprint(i), `{"value":"`+value+`"}`).is(http.StatusCreated)
	}
	list := c.get("/export").exported()
	for i, rec := range list[1:11] {
		if rec["key"] != fmt.Sprint(i) || rec["value"] != value {
			t.Errorf("line %d is of %v", i, rec["key"])
		}
	}
	if fmt.Sprint(list[11:]) != "[map[complete:true records:10 schemas:0]]" {
		t.Errorf("at the end is %v", list[11:])
	}
}

func TestExportIsFlushed(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	c := s.install(t)
	c.fill("a", numbered(101)...)
	next := make(chan struct{})
	s.store.export = func(after ext.Position) error {
		if after.Key != "" {
			<-next
		}
		return nil
	}
	res, err := s.client.Do(c.request(http.MethodGet, "/export", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for range 102 {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(r); err != nil || strings.Count(string(rest), "\n") != 2 {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.fill("a", numbered(130)...)
	c.put("ttl", `{"value":"é","metadata":{"m":1},"ttlSeconds":3600}`).is(http.StatusCreated)
	c.put("short", `{"value":1,"ttlSeconds":60}`).is(http.StatusCreated)
	file := c.get("/export").body

	c.clock.Advance(time.Minute)
	other := c.installOf(t, c.tenant)
	if a := other.post("/import", file, lines).is(http.StatusOK); a.body != `{"lines":135,"records":132,"written":131,"unchanged":0,"expired":1,"schemas":0}` {
		t.Errorf("imported: %s", a.body)
	}
	other.get(records + "/ttl").says(`{"value":"é","metadata":{"m":1},"ttlExpiresAt":"2026-09-21T15:13:20.123Z","revision":1,"createdAt":"2026-09-21T14:14:20.123Z"}`)
	if a := other.post("/import", file, lines).is(http.StatusOK); a.body != `{"lines":135,"records":132,"written":0,"unchanged":131,"expired":1,"schemas":0}` {
		t.Errorf("imported again: %s", a.body)
	}
	// Handwritten lines with only required members, and a repeated key.
	const byHand = "\n{\"namespace\":\"b\",\"key\":\"k\",\"value\":1}\r\n\n{\"namespace\":\"b\",\"key\":\"k\",\"value\":2,\"ttlExpiresAt\":null}\n{\"cursor\":\"x\"}\n" +
		"{\"namespace\":\"b\",\"key\":\"l\",\"value\":3}\n{\"complete\":true,\"records\":3}"
	if a := other.post("/import", byHand, lines).is(http.StatusOK); a.body != `{"lines":7,"records":3,"written":3,"unchanged":0,"expired":0,"schemas":0}` {
		t.Errorf("imported by hand: %s", a.body)
	}
	other.get("/namespaces/b/records/k").says(`{"value":2,"revision":2}`)
	if a := other.post("/import", `{"namespace":"b","key":"old","value":1,"ttlExpiresAt":"1970-01-01T00:00:00.000Z"}`+end(1), lines); a.body != `{"lines":2,"records":1,"written":0,"unchanged":0,"expired":1,"schemas":0}` {
		t.Errorf("imported from 1970: %s", a.body)
	}
	if a := other.post("/import", end(0)+"\n\n", lines).is(http.StatusOK); a.body != `{"lines":3,"records":0,"written":0,"unchanged":0,"expired":0,"schemas":0}` {
		t.Errorf("nothing: %s", a.body)
	}
}

func TestImportThatFails(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	var good strings.Builder
	for i := range 25 {
		fmt.Fprintf(&good, "{\"namespace\":\"a\",\"key\":\"%02d\",\"value\":1}\n", i)
	}
	const partial = "BULK_PARTIAL_FAILURE"
	large := strings.Repeat("x", ext.MaxValueBytes)
	for _, x := range []struct {
		line   string
		status int
		more   []string
	}{
		{`x`, 400, []string{"cause VALIDATION_FAILED"}},
		{`{"namespace":"a","key":"k","value":1`, 400, []string{"cause VALIDATION_FAILED"}},
		{`{"namespace":"a","key":"k","value":1}{}`, 400, []string{"cause VALIDATION_FAILED"}},
		{`{"namespace":"a","key":"k"}`, 400, []string{"cause VALIDATION_FAILED", "pointer "}},
		{`{"namespace":"A","key":"k","value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /namespace"}},
		{`{"key":"k","value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer "}},
		{`{"namespace":"a","key":"a/b","value":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /key"}},
		{`{"namespace":"a","key":"k","value":{"a":1e999}}`, 400, []string{"cause VALIDATION_FAILED", "pointer /value/a"}},
		{`{"namespace":"a","key":"k","value":1,"metadata":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /metadata"}},
		{`{"namespace":"a","key":"k","value":1,"x":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /x"}},
		{`{"namespace":"a","key":"k","value":1,"records":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /records"}},
		{`{"namespace":"a","key":"k","value":1,"revision":nan}`, 400, []string{"cause VALIDATION_FAILED", "pointer /revision"}},
		{`{"namespace":"a","key":"k","value":1,"revision":0}`, 400, []string{"cause VALIDATION_FAILED", "pointer /revision"}},
		{`{"namespace":"a","key":"k","value":1,"etag":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /etag"}},
		{`{"namespace":"a","key":"k","value":1,"createdAt":null}`, 400, []string{"cause VALIDATION_FAILED", "pointer /createdAt"}},
		{`{"cursor":""}`, 400, []string{"cause VALIDATION_FAILED", "pointer /cursor"}},
		{`{"cursor":"x","key":"k"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /key"}},
		{`{"complete":false,"records":1}`, 400, []string{"cause VALIDATION_FAILED", "pointer /complete"}},
		{`{"complete":true}`, 400, []string{"cause VALIDATION_FAILED", "pointer "}},
		{`{"namespace":"a","key":"k","value":1,"ttlExpiresAt":"soon"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ttlExpiresAt"}},
		{`{"namespace":"a","key":"k","value":1,"ttlExpiresAt":"2027-09-21T14:13:20Z"}`, 400, []string{"cause VALIDATION_FAILED", "pointer /ttlExpiresAt"}},
		{`{"namespace":"a","key":"k","value":"` + large + `"}`, 413, []string{"cause LIMIT_EXCEEDED"}},
		{strings.Repeat(" ", 4*len(large)+32<<10) + `{`, 413, []string{"cause LIMIT_EXCEEDED"}},
		{`{"namespace":"z","key":"k","value":1}`, 403, []string{"cause NAMESPACE_DENIED"}},
		{`{"namespace":"c","key":"k","value":1}`, 403, []string{"cause UNAUTHORIZED"}},
		{`{"namespace":"d","key":"k","value":1}`, 403, []string{"cause UNAUTHORIZED"}}, // "unchanged" would reveal the stored value
	} {
		by := c.installOf(t, c.tenant)
		by.post("/import", good.String()+x.line, lines).fails(x.status, partial, append(x.more, "index 25")...)
		if keys, _ := by.get(records + "?limit=100").keys(); len(keys) != 20 {
			t.Errorf("%s: %d records stay", clip(x.line), len(keys))
		}
	}
	c.register(quotas(ext.Quota{Keys: 22}))
	a := c.post("/import", good.String()+end(25), lines).fails(429, partial, "index 22", "cause QUOTA_EXCEEDED").has("Retry-After", "")
	if !strings.Contains(a.body, `"imported":{"lines":27,"records":25,"written":20,"unchanged":0,"expired":0,"schemas":0}`) {
		t.Errorf("what was imported before: %s", a.body)
	}
	c.register(ext.Registration{})
	if a := c.post("/import", good.String()+end(25), lines).is(http.StatusOK); a.body != `{"lines":27,"records":25,"written":5,"unchanged":20,"expired":0,"schemas":0}` {
		t.Errorf("it goes on: %s", a.body)
	}
}

// TestImportOfAPart checks that an incomplete export is imported with an error, and that importing the whole export
// adds the rest.
func TestImportOfAPart(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.fill("a", numbered(130)...)
	all := strings.SplitAfter(c.get("/export").body, "\n")
	whole, cursor := strings.Join(all, ""), all[101]
	var at map[string]string
	if err := json.Unmarshal([]byte(cursor), &at); err != nil {
		t.Fatal(err)
	}
	rest := c.get("/export?cursor=" + url.QueryEscape(at["cursor"])).body
	for _, x := range []struct {
		name, file     string
		lines, records int
		message        string
	}{
		{name: "nothing", file: "\n", lines: 1, message: "0 records and no last line with complete"},
		{name: "the first line", file: all[0], lines: 1, message: "received 0 records of 130 and no last line with complete"},
		{name: "cut at a line", file: strings.Join(all[:50], ""), lines: 50, records: 49, message: "received 49 records of 130 and no last line with complete"},
		{name: "cut at a cursor", file: strings.Join(all[:102], ""), lines: 102, records: 100, message: "received 100 records of 130 and no last line with complete"},
		{name: "cut before the end", file: strings.Join(all[:132], ""), lines: 132, records: 130, message: "received 130 records of 130 and no last line with complete"},
		{name: "lines are lost", file: strings.Join(all[:20], "") + all[132], lines: 21, records: 19, message: "received 19 records and 0 schemas, but the last line counts 130 and 0"},
		{name: "a line twice", file: all[0] + all[1] + strings.Join(all[1:], ""), lines: 134, records: 131, message: "received 131 records and 0 schemas, but the last line counts 130 and 0"},
		{name: "the rest alone", file: rest, lines: 31, records: 30, message: "received 30 records and 0 schemas, but the last line counts 130 and 0"},
	} {
		by := c.installOf(t, c.tenant)
		a := by.post("/import", x.file, lines).fails(400, "IMPORT_INCOMPLETE")
		distinct := min(x.records, 130)
		done := fmt.Sprintf(`"imported":{"lines":%d,"records":%d,"written":%d,"unchanged":%d,"expired":0,"schemas":0}`, x.lines, x.records, distinct, x.records-distinct)
		if !strings.Contains(a.body, x.message) || !strings.Contains(a.body, done) {
			t.Errorf("%s: %s", x.name, a.body)
		}
		left := by.get("/export").exported()
		if fmt.Sprint(left[len(left)-1]["records"]) != fmt.Sprint(distinct) {
			t.Errorf("%s: at the end is %v", x.name, left[len(left)-1])
		}
		by.post("/import", whole, lines).is(http.StatusOK).says(fmt.Sprintf(`{"records":130,"written":%d,"unchanged":%d}`, 130-distinct, distinct))
	}
	by := c.installOf(t, c.tenant)
	by.post("/import", strings.Join(all[:102], "")+rest, lines).is(http.StatusOK).says(`{"lines":133,"records":130,"written":130}`)
	by.post("/import", whole+all[1], lines).fails(400, "BULK_PARTIAL_FAILURE", "index 133", "cause VALIDATION_FAILED")
}

// TestImportOfSchemas checks that schemas are imported before the records, which may be older than the active schema.
func TestImportOfSchemas(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const schemas = "/namespaces/a/schemas"
	c.put("older", `{"value":"text"}`).is(http.StatusCreated)
	for i, document := range []string{`{"type":"string"}`, `{"type":["number","boolean"]}`, `{"type":"boolean"}`} {
		c.post(schemas, `{"schema":`+document+`}`).is(http.StatusCreated)
		if i < 2 {
			c.do("PATCH", fmt.Sprintf("%s/%d", schemas, i+1), `{"status":"active"}`).is(http.StatusOK)
		}
	}
	c.post("/namespaces/b/schemas", `{"schema":true}`).is(http.StatusCreated)
	c.put("newer", `{"value":1}`).is(http.StatusCreated)
	file := c.get("/export").body
	text := strings.Split(file, "\n")
	if want := `{"namespace":"a","version":1,"status":"deprecated","schema":{"type":"string"},"createdAt":"2026-09-21T14:13:20.123Z",` +
		`"updatedAt":"2026-09-21T14:13:20.123Z","createdBy":"5b0c11c1-ab6c-4c5e-9b0c-0d7a3b1d2e3f"}`; text[1] != want || text[7] != `{"complete":true,"records":2,"schemas":4}` {
		t.Errorf("lines are\n%s\n%s, want\n%s", text[1], text[7], want)
	}
	other := c.installOf(t, c.tenant)
	const once = `{"lines":8,"records":2,"written":2,"unchanged":0,"expired":0,"schemas":4}`
	if a := other.post("/import", file, lines).is(http.StatusOK); a.body != once {
		t.Errorf("imported: %s", a.body)
	}
	for _, path := range []string{schemas, "/namespaces/b/schemas", schemas + "/2"} {
		if a, b := c.get(path).is(http.StatusOK).body, other.get(path).is(http.StatusOK).body; a != b {
			t.Errorf("%s is\n%s here and\n%s there", path, a, b)
		}
	}
	other.put("third", `{"value":"text"}`).fails(400, "VALIDATION_FAILED", "pointer /value")
	other.post(schemas, `{"schema":true}`).is(http.StatusCreated).says(`{"version":4}`)
	if a := other.post("/import", file, lines).is(http.StatusOK); a.body != strings.Replace(once, `"written":2,"unchanged":0`, `"written":0,"unchanged":2`, 1) {
		t.Errorf("imported again: %s", a.body)
	}
	// This part omits the schema that validated its values.
	rest := strings.Join(append([]string{text[0]}, text[5:]...), "\n")
	other.post("/import", rest, lines).fails(400, "IMPORT_INCOMPLETE")
	other.do("DELETE", "/namespaces/a/records/older", "").is(http.StatusNoContent)
	other.post("/import", rest, lines).fails(400, "BULK_PARTIAL_FAILURE", "index 2", "cause VALIDATION_FAILED", "pointer /value")
	other.post("/import", file, lines).is(http.StatusOK).says(`{"written":1}`)

	third := c.installOf(t, c.tenant)
	third.post(schemas, `{"schema":{"type":"number"}}`).is(http.StatusCreated)
	third.post("/import", file, lines).fails(409, "BULK_PARTIAL_FAILURE", "index 1", "cause SCHEMA_CONFLICT")
	if a := third.get("/export").exported(); len(a) != 3 {
		t.Errorf("after a conflict: %v", a)
	}
}

func TestImportOfBadLines(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const (
		schema = `{"namespace":"a","version":1,"status":"active","schema":true,"createdAt":"2026-09-21T14:13:20Z","updatedAt":"2026-09-21T14:13:20Z","createdBy":null}`
		header = `{"export":1,"records":1,"lastChange":1}`
	)
	for line, want := range map[string]string{
		header + "\n" + header:                                             "index 1 pointer /export",
		schema + "\n" + header:                                             "index 1 pointer /export",
		`{"namespace":"a","key":"k","value":1}` + "\n" + header:            "index 1 pointer /export",
		strings.Replace(header, `1`, `2`, 1):                               "index 0 pointer /export",
		strings.Replace(header, `"records":1`, `"records":-1`, 1):          "index 0 pointer /records",
		strings.Replace(header, `"lastChange":1`, `"lastChange":-1`, 1):    "index 0 pointer /lastChange",
		strings.Replace(header, `"lastChange":1`, `"lastChange":1e18`, 1):  "index 0 pointer /lastChange",
		strings.Replace(header, `"lastChange":1`, `"key":"a"`, 1):          "index 0 pointer /key",
		strings.Replace(schema, `"a"`, `"A"`, 1):                           "index 0 pointer /namespace",
		strings.Replace(schema, `"version":1`, `"version":0`, 1):           "index 0 pointer /version",
		strings.Replace(schema, `"version":1`, `"version":-1`, 1):          "index 0 pointer /version",
		strings.Replace(schema, `"version":1`, `"version":2147483647`, 1):  "index 0 pointer /version",
		strings.Replace(schema, `"version":1`, `"version":99999999999`, 1): "index 0 pointer /version",
		strings.Replace(schema, `"version":1,`, ``, 1):                     "index 0 pointer ",
		strings.Replace(schema, `"active"`, `"gone"`, 1):                   "index 0 pointer /status",
		strings.Replace(schema, `"active"`, `1`, 1):                        "index 0 pointer /status",
		strings.Replace(schema, `:true`, `:{"type":"x"}`, 1):               "index 0 pointer /schema/type",
		strings.Replace(schema, `:true`, `:tru`, 1):                        "index 0 pointer /schema",
		strings.Replace(schema, `:true`, `:true,"value":1`, 1):             "index 0 pointer /value",
		strings.Replace(schema, `2026-09`, `soon`, 1):                      "index 0 pointer /createdAt",
	} {
		index, pointer, _ := strings.Cut(want, " pointer")
		c.installOf(t, c.tenant).post("/import", line+end(1), lines).fails(400, "BULK_PARTIAL_FAILURE", index, "cause VALIDATION_FAILED", "pointer"+pointer)
	}
	for ns, cause := range map[string]string{"z": "NAMESPACE_DENIED", "c": "UNAUTHORIZED", "d": "UNAUTHORIZED"} {
		c.post("/import", strings.Replace(schema, `"a"`, `"`+ns+`"`, 1)+end(0), lines).fails(403, "BULK_PARTIAL_FAILURE", "index 0", "cause "+cause)
	}
	c.post("/import?preserve=true", end(0), lines).fails(400, "VALIDATION_FAILED", "pointer /preserve")
	large := `"` + strings.Repeat("x", ext.MaxSchemaBytes) + `"`
	c.post("/import", strings.Replace(schema, `:true`, `:{"description":`+large+`}`, 1)+end(0), lines).fails(413, "BULK_PARTIAL_FAILURE", "index 0", "cause LIMIT_EXCEEDED")
	if a := c.get("/export").exported(); len(a) != 2 {
		t.Errorf("after bad lines: %v", a)
	}
}

type late struct {
	io.Reader
	asked chan<- struct{}
	come  <-chan struct{}
}

func (l late) Read(p []byte) (int, error) {
	l.asked <- struct{}{}
	<-l.come
	return l.Reader.Read(p)
}

func TestSlowImport(t *testing.T) {
	t.Parallel()
	gate := web.NewGate(1, time.Minute)
	s := start(t, setup{gate: gate})
	c := s.install(t)
	asked, come, done := make(chan struct{}), make(chan struct{}), make(chan *answer)
	var file strings.Builder
	for i := range 21 {
		fmt.Fprintf(&file, "{\"namespace\":\"a\",\"key\":\"%02d\",\"value\":1}\n", i)
	}
	file.WriteString(end(21))
	c.server.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	body := late{strings.NewReader(file.String()), asked, come}
	go func() {
		done <- c.sendBy(c.Client(), c.request("POST", "/import", body, lines, "Expect: 100-continue"))
	}()
	for range 2 { // before the first line, and after the last
		<-asked
		c.get("/usage").is(http.StatusOK)
		come <- struct{}{}
	}
	(<-done).is(http.StatusOK).says(`{"written":21}`)
	if stats := gate.Stats(); stats.Active != 0 {
		t.Errorf("at the gate: %+v", stats)
	}
}

func TestTransfersWait(t *testing.T) {
	t.Parallel()
	gate := web.NewGate(1, time.Minute)
	waits, may := make(chan time.Duration), make(chan time.Time)
	with := setup{gate: gate, rates: &ext.Rates{Reads: 60, ReadBurst: 2, Writes: 60, WriteBurst: 2, Tenant: 100, TenantBurst: 100}}
	with.after = func(d time.Duration) <-chan time.Time {
		waits <- d
		return may
	}
	s := start(t, with)
	c := s.install(t)
	var file strings.Builder
	for i := range 101 {
		fmt.Fprintf(&file, "{\"namespace\":\"a\",\"key\":\"%03d\",\"value\":1}\n", i)
	}
	file.WriteString(end(101))
	done := make(chan *answer)
	go func() { done <- c.post("/import", file.String(), lines) }()
	for range 4 { // two of six steps may run at once
		d := <-waits
		if d < time.Second || d > 2*time.Second {
			t.Errorf("it waits %s", d)
		}
		s.installOf(t, "99999999-0000-4000-8000-000000000000").get("/usage").is(http.StatusOK) // the only slot is free
		s.clock.Advance(d)
		may <- t0
	}
	(<-done).is(http.StatusOK).says(`{"written":101}`)

	s.clock.Advance(time.Hour - 20*time.Second)
	c.get(records).is(http.StatusOK) // two reads, so an export gets one
	go func() { done <- c.get("/export") }()
	s.clock.Advance(<-waits)
	may <- t0
	if list := (<-done).exported(); len(list) != 104 {
		t.Errorf("%d lines", len(list))
	}
	c.get(records).fails(429, "RATE_LIMITED")
}
