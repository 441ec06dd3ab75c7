package httpapi_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/httpapi"
	"holdfast/internal/web"
)

// TestLeastMemory checks that the minimum memory suffices for every request.
func TestLeastMemory(t *testing.T) {
	t.Parallel()
	limits := ss.DefaultConfig().Limits
	least := httpapi.LargestRequest(limits) * 7 / 6
	memory := web.NewMemory(least, 0, 0)
	u := start(t, setup{memory: memory}).user(t)
	free := func(what string) { t.Helper(); expectFree(t, memory, what) }
	u.fill(40, 220000) // large enough to be streamed
	free("writing")
	for _, target := range []string{"/storage/toys?full", "/storage/toys", "/storage/toys?full&limit=5", "/storage/toys/000001", "/storage/toys/none", "/info/collections"} {
		u.get(target)
		free(target)
	}
	for _, character := range []string{"x", `\u0001`} {
		n := int(limits.MaxRecordPayloadBytes) / len(character)
		u.put("/storage/tabs/large", `{"payload":"`+strings.Repeat(character, n)+`"}`).is(200)
		free("PUT")
		var got record
		if u.get("/storage/tabs/large").into(&got); len(got.Payload) != n {
			t.Errorf("%d bytes, want %d", len(got.Payload), n)
		}
		u.get("/storage/tabs?full").is(200)
		free("GET")
	}
	list := make([]string, 100*limits.MaxPostRecords+1)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"%x"}`, i)
	}
	if p := u.post("/storage/toys", "["+strings.Join(list[1:], ",")+"]").is(200).posted(); len(p.Success) != 100 || len(p.Failed) != len(list)-101 {
		t.Errorf("%d succeed, %d fail", len(p.Success), len(p.Failed))
	}
	u.post("/storage/toys", "["+strings.Join(list, ",")+"]").is(400, "17")
	u.post("/storage/toys", strings.Join(list, "\n"), "Content-Type: application/newlines").is(400, "17")
	free("many records")
}

func expectFree(t *testing.T, m *web.Memory, what string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); m.Stats().Used > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s: %+v", what, m.Stats())
		}
	}
}

// TestNoMemory checks that a request without memory changes nothing. Small requests need no memory.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	memory := web.NewMemory(size, 1, time.Millisecond)
	u := start(t, setup{memory: memory, log: quiet}).user(t)
	u.put("/storage/toys/small", `{"payload":"x"}`).is(200)
	u.get("/storage/toys/small").is(200)
	u.put("/storage/toys/middle", `{"payload":"`+strings.Repeat("x", 200<<10)+`"}`).is(200)
	for i := range 5 {
		u.put(fmt.Sprintf("/storage/large/%d", i), `{"payload":"`+strings.Repeat("x", 200<<10)+`"}`).is(200)
	}
	for what, a := range map[string]*answer{
		"PUT":  u.put("/storage/toys/large", `{"payload":"`+strings.Repeat("x", size)+`"}`),
		"list": u.get("/storage/large?full"),
	} {
		if a.is(http.StatusServiceUnavailable, "0"); a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	u.get("/storage/toys/large").is(404)
	u.get("/storage/toys/middle").is(200)
	u.get("/storage/toys?full").is(200)
	expectFree(t, memory, "all")
	if n := memory.Stats().Refused; n != 2 {
		t.Errorf("%d were refused", n)
	}
}

func TestManyIDs(t *testing.T) {
	t.Parallel()
	memory := web.NewMemory(math.MaxInt32, 0, 0)
	u := start(t, setup{memory: memory}).user(t)
	const n = 20000
	u.fill(n, 1)
	if a := u.get("/storage/toys?sort=oldest").is(200); len(a.ids()) != n || a.header.Get("X-Weave-Records") != fmt.Sprint(n) {
		t.Errorf("%d ids", len(a.ids()))
	}
	page := u.get("/storage/toys?sort=oldest&limit=15000").is(200)
	rest := u.get("/storage/toys?sort=oldest&offset=" + page.header.Get("X-Weave-Next-Offset")).is(200)
	if got := append(page.ids(), rest.ids()...); len(got) != n || got[0] != "000000" || got[n-1] != fmt.Sprintf("%06d", n-1) {
		t.Errorf("%d ids in two pages", len(got))
	}
}
