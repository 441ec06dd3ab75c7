package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/extstorage/httpapi"
	"holdfast/internal/web"
)

// expectFree waits until all memory is released, possibly shortly after the response.
func expectFree(t *testing.T, m *web.Memory, what string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); m.Stats().Used > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s: %+v", what, m.Stats())
		}
	}
}

// fillLarge writes n records of 60,000 bytes, and n schemas.
func (c *client) fillLarge(n int) {
	c.t.Helper()
	large := strings.Repeat("x", 60_000)
	for from := 0; from < n; from += 8 {
		var items []string
		for i := from; i < min(from+8, n); i++ {
			items = append(items, fmt.Sprintf(`{"key":"%03d","value":"%s"}`, i, large))
			c.post("/namespaces/a/schemas", `{"schema":{"description":"`+large+`"}}`).is(http.StatusCreated)
		}
		c.post(records, `{"items":[`+strings.Join(items, ",")+`]}`).is(http.StatusOK)
	}
}

var reads = []string{
	records + "?values=true&limit=100", records + "/001", "/namespaces/a/schemas?limit=100", "/namespaces/a/schemas/1", "/export", "/changes?limit=1000",
}

// TestLeastMemory checks that the minimum memory of a server suffices for every single request.
func TestLeastMemory(t *testing.T) {
	t.Parallel()
	memory := web.NewMemory(httpapi.LargestRequest()*7/6+1, 0, 0)
	c := start(t, setup{memory: memory}).install(t)
	c.fillLarge(32)
	expectFree(t, memory, "writing")
	for _, target := range reads {
		c.get(target).is(http.StatusOK)
		expectFree(t, memory, target)
	}
	large := strings.Repeat(`\u0061`, 26_000) // the longest encoding
	ops := make([]string, 20)
	for i := range ops {
		ops[i] = fmt.Sprintf(`{"op":"put","namespace":"a","key":"%03d","value":"%s"}`, i, large[:len(large)/2])
	}
	c.post("/batch", `{"ops":[`+strings.Join(ops, ",")+`]}`).is(http.StatusOK)
	expectFree(t, memory, "a batch")
	export := c.get("/export").is(http.StatusOK)
	c.post("/import", export.body, "Content-Type: application/x-ndjson").is(http.StatusOK)
	expectFree(t, memory, "an import")
	c.post("/import", strings.Repeat("x", 1<<20), "Content-Type: application/x-ndjson").is(http.StatusRequestEntityTooLarge)
	expectFree(t, memory, "an import that was refused")
	if n := memory.Stats().Refused; n != 0 {
		t.Errorf("%d were refused", n)
	}
}

// TestNoMemory checks that a request without memory is rejected before it changes anything, and that small requests need
// no memory.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	const all = 8 << 20
	memory := web.NewMemory(all, 1, time.Millisecond)
	c := start(t, setup{memory: memory, log: quiet}).install(t)
	c.fillLarge(8)
	c.put("small", `{"value":1}`).is(http.StatusCreated)
	expectFree(t, memory, "writing")
	release := occupy(memory, all)
	large := `"` + strings.Repeat("x", 20_000) + `"`
	for what, a := range map[string]*answer{
		"put":    c.put("new", `{"value":`+large+`}`),
		"batch":  c.post("/batch", `{"ops":[{"op":"put","namespace":"a","key":"new","value":`+large+`}]}`),
		"import": c.post("/import", `{"namespace":"a","key":"new","value":1}`, "Content-Type: application/x-ndjson"),
	} {
		a.fails(http.StatusServiceUnavailable, "UNAVAILABLE")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	for _, target := range reads {
		if strings.HasPrefix(target, "/changes") {
			continue
		}
		c.get(target).fails(http.StatusServiceUnavailable, "UNAVAILABLE")
	}
	c.get(records + "/new").is(http.StatusNotFound)
	c.get(records + "/small").is(http.StatusOK)
	c.put("small", `{"value":2}`).is(http.StatusOK)
	release()
	expectFree(t, memory, "all")
	for _, target := range reads {
		c.get(target).is(http.StatusOK)
		expectFree(t, memory, target)
	}
}

func occupy(m *web.Memory, bytes int64) (release func()) {
	over, taken, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := web.Service{
		Name: "other", Route: func(string) string { return "" },
		Serve: func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			err := web.ChargeMemory(r, bytes)
			close(taken)
			<-over
			return err
		},
		Error: func(w http.ResponseWriter, _ *http.Request, err error) { panic(err) },
	}.Handler(web.Options{Log: quiet, Memory: m})
	go func() {
		defer close(done)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}()
	<-taken
	return func() {
		close(over)
		<-done
	}
}
