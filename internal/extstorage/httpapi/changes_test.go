package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	if a := c.get("/changes").is(http.StatusOK); a.body != `{"changes":[],"nextSince":0}` {
		t.Errorf("nothing is %s", a.body)
	}
	c.put("k", `{"value":1,"ttlSeconds":60}`).is(http.StatusCreated)
	c.do("PUT", "/namespaces/d/records/hidden", `{"value":1}`).is(http.StatusCreated)
	c.do("PUT", "/namespaces/b/records/k", `{"value":1}`).is(http.StatusCreated)
	c.do("DELETE", "/namespaces/b/records/k", "").is(http.StatusNoContent)
	const at = `"at":"2026-09-21T14:13:20.123Z"}`
	const first = `{"seq":1,"op":"put","namespace":"a","key":"k","revision":1,` + at
	const third = `{"seq":3,"op":"put","namespace":"b","key":"k","revision":1,` + at
	const fourth = `{"seq":4,"op":"delete","namespace":"b","key":"k","revision":1,` + at
	for args, want := range map[string]string{
		"":                 `{"changes":[` + first + `,` + third + `,` + fourth + `],"nextSince":4}`,
		"?since=1":         `{"changes":[` + third + `,` + fourth + `],"nextSince":4}`,
		"?since=1&limit=2": `{"changes":[` + third + `],"nextSince":3}`,
		"?limit=1":         `{"changes":[` + first + `],"nextSince":1}`,
		"?limit=0&wait=60": `{"changes":[],"nextSince":4}`,
		"?since=4&wait=0":  `{"changes":[],"nextSince":4}`,
	} {
		if a := c.get("/changes" + args).is(http.StatusOK); a.body != want {
			t.Errorf("%s: %s, want %s", args, a.body, want)
		}
	}
	c.get("/changes?since=5").fails(410, "CHANGES_EXPIRED")
	c.clock.Advance(time.Minute)
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	c.get("/changes?since=4").says(`{"nextSince":5}`)
}

// TestLongPoll checks that a waiting client holds no slot, sees a change immediately, and gets an empty response at
// its time limit.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	waits := make(chan chan time.Time, 10)
	gate := web.NewGate(1, time.Minute)
	s := start(t, setup{gate: gate, timeout: time.Minute, after: func(time.Duration) <-chan time.Time {
		tick := make(chan time.Time, 1)
		waits <- tick
		return tick
	}})
	c := s.install(t)
	poll := func(since int) <-chan *answer {
		done := make(chan *answer, 1)
		go func() { done <- c.get(fmt.Sprintf("/changes?wait=60&since=%d", since)) }()
		return done
	}
	first, second := poll(0), poll(0)
	<-waits
	<-waits // both wait, so the only slot is free
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	for _, done := range []<-chan *answer{first, second} {
		(<-done).is(http.StatusOK).says(`{"nextSince":1}`)
	}
	third := poll(1)
	tick := <-waits
	s.clock.Advance(59 * time.Second)
	tick <- t0 // polls the database and keeps waiting
	tick = <-waits
	s.clock.Advance(time.Second)
	tick <- t0
	if a := <-third; a.is(http.StatusOK).body != `{"changes":[],"nextSince":1}` {
		t.Errorf("nothing is %s", a.body)
	}
	fourth := poll(1)
	tick = <-waits
	c.revoke()
	s.clock.Advance(2 * time.Second)
	tick <- t0
	(<-fourth).fails(403, "UNAUTHORIZED")
	if stats := gate.Stats(); stats.Active != 0 {
		t.Errorf("at the gate: %+v", stats)
	}
}

// TestShutdownEndsWaits checks that a shutdown ends waits for changes, and that an import waiting for its rate gets a
// retryable error.
func TestShutdownEndsWaits(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{}, 10)
	s := start(t, setup{
		log: quiet, rates: &ext.Rates{Reads: 1, ReadBurst: 1, Writes: 1, WriteBurst: 1, Tenant: 10, TenantBurst: 10},
		after: func(time.Duration) <-chan time.Time {
			waits <- struct{}{}
			return nil
		},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	down := make(chan error, 1)
	go func() {
		down <- web.Serve(ctx, web.NewServer(s.Config.Handler, web.DefaultLimits(), slog.New(slog.DiscardHandler)), l, web.Drain{Grace: time.Minute})
	}()
	c := s.install(t)
	base, polled, imported := "http://"+l.Addr().String(), make(chan *answer, 1), make(chan *answer, 1)
	go func() { polled <- c.send(c.requestTo(base, "GET", c.path("/changes?wait=60"), nil)) }()
	<-waits
	other, file := s.install(t), strings.NewReader(strings.Repeat("{\"namespace\":\"a\",\"key\":\"k\",\"value\":1}\n", 2))
	go func() { imported <- other.send(other.requestTo(base, "POST", other.path("/import"), file, lines)) }()
	<-waits
	stop()
	if a := <-polled; a.is(http.StatusOK).body != `{"changes":[],"nextSince":0}` {
		t.Errorf("the poll is answered with %s", a.body)
	}
	(<-imported).fails(503, "UNAVAILABLE")
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const at = "/namespaces/a/schemas"
	status := func(version int, status string) *answer {
		return c.patch(fmt.Sprintf("%s/%d", at, version), `{"status":"`+status+`"}`, "Content-Type: application/json")
	}
	if a := c.get(at).is(http.StatusOK); a.body != `{"schemas":[],"nextCursor":null}` {
		t.Errorf("nothing is %s", a.body)
	}
	c.put("good", `{"value":{"n":1}}`).is(http.StatusCreated)
	c.put("bad", `{"value":{"n":"x"}}`).is(http.StatusCreated)

	const document = `{"type":"object","properties":{"n":{"type":"integer"}}}`
	made := c.post(at, `{"schema":`+document+`}`).is(http.StatusCreated).has("Location", c.path(at)+"/1")
	const times = `"createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:20.123Z","createdBy":"5b0c11c1-ab6c-4c5e-9b0c-0d7a3b1d2e3f"}`
	if want := `{"namespace":"a","version":1,"status":"draft","schema":` + document + `,` + times; made.body != want {
		t.Errorf("registered is %s, want %s", made.body, want)
	}
	c.put("bad", `{"value":{"n":"y"}}`).is(http.StatusOK) // drafts validate nothing
	var failures struct {
		Records struct {
			Checked, Failed int
			FirstFailures   []struct{ Key, Pointer, Reason string }
		}
	}
	for _, body := range []string{`{"version":1}`, `{"schema":` + document + `}`} {
		c.post(at+"/check", body).is(http.StatusOK).says(`{"activeVersion":null,"compatibility":{"effect":"harmless","changes":[]}}`).into(&failures)
		if f := failures.Records; f.Checked != 2 || f.Failed != 1 || len(f.FirstFailures) != 1 || f.FirstFailures[0].Key != "bad" || f.FirstFailures[0].Pointer != "/n" {
			t.Errorf("%s: %+v", body, f)
		}
	}

	status(1, "active").is(http.StatusOK).says(`{"status":"active"}`)
	c.put("bad", `{"value":{"n":"z"}}`).fails(400, "VALIDATION_FAILED", "pointer /value/n")
	c.put("new", `{"value":[1]}`).fails(400, "VALIDATION_FAILED", "pointer /value")
	c.patch(records+"/good", `{"n":"x"}`).fails(400, "VALIDATION_FAILED", "pointer /n")
	c.post(records+"/good/increment", `{"pointer":"/n","by":0.5}`).fails(400, "VALIDATION_FAILED", "pointer /by")
	c.post(records, `{"items":[{"key":"x","value":{}},{"key":"y","value":{"n":[]}}]}`).fails(400, "BULK_PARTIAL_FAILURE", "index 1", "pointer /items/1/value/n")
	c.get(records + "/bad").is(http.StatusOK) // stored values are not validated again

	// The next version rejects the values that were valid.
	c.post(at, `{"schema":{"type":"object","properties":{"n":{"type":"string"}}}}`).is(http.StatusCreated)
	c.post(at+"/check", `{"version":2}`).is(http.StatusOK).says(`{"activeVersion":1}`)
	var compared struct {
		Compatibility struct {
			Effect  string
			Changes []struct{ Pointer, Change, Effect string }
		}
	}
	c.post(at+"/check", `{"version":2}`).into(&compared)
	if got := compared.Compatibility; got.Effect != "breaking" || len(got.Changes) == 0 || got.Changes[0].Effect == "" {
		t.Errorf("the comparison is %+v", got)
	}
	status(2, "active").is(http.StatusOK)
	c.get(at + "/1").is(http.StatusOK).says(`{"status":"deprecated","version":1}`)
	var all struct{ Schemas []struct{ Version int } }
	if c.get(at).into(&all); len(all.Schemas) != 2 || all.Schemas[0].Version != 2 {
		t.Errorf("the versions are %+v", all)
	}
	c.pagesOfSchemas(t, at)
	// Puts must name the active version.
	for _, version := range []string{"1", "3", "999"} {
		c.put("x", `{"value":{},"schemaVersion":`+version+`}`).fails(400, "VALIDATION_FAILED", "pointer /schemaVersion")
	}
	c.put("x", `{"value":{"n":"s"},"schemaVersion":2}`).is(http.StatusCreated)
	status(2, "deprecated").is(http.StatusOK)
	c.put("x", `{"value":1}`).is(http.StatusOK)

	c.get(at+"/9").fails(404, "NOT_FOUND")
	status(9, "active").fails(404, "NOT_FOUND")
	c.post(at+"/check", `{"version":9}`).fails(404, "NOT_FOUND")
	c.post(at+"/check", `{"version":4294967297}`).fails(404, "NOT_FOUND")
	c.post(at, `{"schema":{"$ref":"https://example.org/x"}}`).fails(400, "VALIDATION_FAILED", "pointer /schema/$ref")
	c.post(at, `{"schema":{"const":"`+strings.Repeat("x", ext.MaxSchemaBytes)+`"}}`).fails(413, "LIMIT_EXCEEDED", "pointer /schema")
}

func TestArraysAreValidatedWhole(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.post("/namespaces/a/schemas", `{"schema":{"type":"array","minItems":1,"items":{"type":"integer"}}}`).is(http.StatusCreated)
	c.patch("/namespaces/a/schemas/1", `{"status":"active"}`, "Content-Type: application/json").is(http.StatusOK)
	c.put("k", `{"value":[1,2]}`).is(http.StatusCreated)
	c.put("k", `{"value":[]}`).fails(400, "VALIDATION_FAILED", "pointer /value")
	c.put("k", `{"value":1}`).fails(400, "VALIDATION_FAILED", "pointer /value")
	c.put("k", `{"value":[1,"x"]}`).fails(400, "VALIDATION_FAILED", "pointer /value/1")
}

// TestWhoRegistered checks that no creator is stored with a schema if the token's subject is not a UUID.
func TestWhoRegistered(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	claims := c.claims(everything)
	claims["sub"] = "a user"
	a := c.with(c.sign(t, claims)).post("/namespaces/a/schemas", `{"schema":true}`).is(http.StatusCreated)
	if by := a.member("createdBy"); by != "null" {
		t.Errorf("created by %s", by)
	}
}

func TestDescriptionIsServed(t *testing.T) {
	t.Parallel()
	c := newClient(t).with("")
	a := c.get("/ext/openapi.json").is(http.StatusOK).has("Content-Type", "application/json")
	if a.member("openapi") != `"3.1.0"` && a.member("openapi") != `"3.1.1"` {
		t.Errorf("openapi is %s", a.member("openapi"))
	}
	c.do(http.MethodHead, "/ext/openapi.json", "").is(http.StatusOK).has("Content-Length", fmt.Sprint(len(a.body)+1))
	if !json.Valid([]byte(a.body)) {
		t.Error("it is no JSON")
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, target := range []string{records + "/k", "/nothing", "/ext/openapi.json"} {
		a := c.with("").do(http.MethodOptions, target, "", "Origin: https://example.org", "Access-Control-Request-Method: PUT")
		a.is(http.StatusNoContent).has("Access-Control-Allow-Origin", "*").has("Access-Control-Allow-Credentials", "").
			has("Access-Control-Allow-Methods", "DELETE, GET, HEAD, PATCH, POST, PUT").has("Access-Control-Max-Age", "86400").
			has("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Revision-Match, X-Request-Id")
	}
	for _, a := range []*answer{
		c.put("k", `{"value":1}`, "Origin: https://example.org").is(http.StatusCreated),
		c.with("").get(records, "Origin: https://example.org").is(http.StatusUnauthorized),
		c.get("/ext/nothing", "Origin: null").is(http.StatusNotFound),
	} {
		a.has("Access-Control-Allow-Origin", "*").
			has("Access-Control-Expose-Headers", "ETag, Idempotency-Replayed, Location, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id")
	}
}

func (c *client) pagesOfSchemas(t *testing.T, at string) {
	t.Helper()
	var page struct {
		Schemas    []struct{ Version int }
		NextCursor *string
	}
	for want, cursor := 2, ""; want > 0; want-- {
		c.get(at + "?limit=1" + cursor).is(http.StatusOK).into(&page)
		if len(page.Schemas) != 1 || page.Schemas[0].Version != want || (page.NextCursor == nil) != (want == 1) {
			t.Errorf("the page is %+v", page)
		}
		if page.NextCursor != nil {
			cursor = "&cursor=" + *page.NextCursor
			c.get("/namespaces/b/schemas?limit=1"+cursor).fails(400, "VALIDATION_FAILED", "pointer /cursor")
			c.get(records+"?limit=1"+cursor).fails(400, "VALIDATION_FAILED", "pointer /cursor")
		}
	}
	for _, limit := range []string{"0", "101", "x"} {
		c.get(at+"?limit="+limit).fails(400, "VALIDATION_FAILED", "pointer /limit")
	}
}
