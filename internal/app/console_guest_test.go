package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// poison ends the IDs of properties whose events newPoisonedSink refuses.
const poison = "dead"

// newPoisonedSink returns a webhook that refuses poisoned events until accepts is set.
func newPoisonedSink(t *testing.T) (url string, accepts *atomic.Bool) {
	t.Helper()
	accepts = &atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || !accepts.Load() && strings.Contains(string(body), poison) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, accepts
}

type visitor struct {
	t    *testing.T
	main string
	*http.Client
}

func newVisitor(t *testing.T, main string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t, main, &http.Client{Jar: jar, Transport: &http.Transport{}}}
	t.Cleanup(v.CloseIdleConnections)
	v.send("/session", "", "")
	return v
}

func (v *visitor) send(path, body, key string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.main+"/bff/consumer/v1"+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := v.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(resp.Body)
		v.t.Fatalf("%s: %s %s", path, resp.Status, text)
	}
}

func (v *visitor) wish(n int, end string) {
	v.t.Helper()
	property := fmt.Sprintf("%08d-2222-4333-8444-55555555%s", n, end)
	v.send("/wishlist", `{"tenantId":"`+someTenant+`","propertyId":"`+property+`","source":"map"}`, property)
}

func (b *browser) awaitPublished() {
	b.t.Helper()
	b.await("guest/outbox", "All events are published.")
}

// awaitDead waits until at least n events are set aside. The sink must accept other events: if it refuses all, the relay
// considers it down.
func (b *browser) awaitDead(main string, n int) {
	b.t.Helper()
	other, deadline := newVisitor(b.t, main), time.Now().Add(time.Minute)
	for i := 0; ; i++ {
		b.open("guest/dead-letters")
		if bodies := b.page.all("tbody"); len(bodies) == 1 && len(bodies[0].all("tr")) >= n {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("fewer than %d dead letters:\n%s", n, b.page)
		}
		if i%5 == 0 && i < 100 {
			other.wish(i, "0000")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// consoleGuests checks pages with an event, a session and jobs, which TestConsoleChanges does not read.
func consoleGuests(b *browser, main string, accepts *atomic.Bool) {
	newVisitor(b.t, main).wish(0, poison)
	b.awaitDead(main, 1)
	name := b.page.all("tbody")[0].all("tr")[0].all("td")[0].String()
	b.try(http.StatusBadRequest, "Nothing was changed", "Drop all", "confirm", "all")
	b.open("guest/dead-letters")
	b.follow(name)
	b.shows("Dead letter "+name, "Payload", "55555555"+poison)
	accepts.Store(true)
	b.submit("Retry event " + name)
	b.shows("1 event queued again.", "No event was set aside.")
	b.awaitPublished()
	for wrong, want := range map[string]int{"dead-letters/show?event=" + name: http.StatusNotFound, "dead-letters?after=" + name: http.StatusBadRequest} {
		if status := b.send(http.MethodGet, b.base+"/console/guest/"+wrong, nil); status != want {
			b.t.Errorf("%s: %d, want %d", wrong, status, want)
		}
	}
	b.open("guest/tenants")
	b.try(http.StatusBadRequest, "UUID", "Suspend", "tenant", hostile)
	consoleSession(b, main)
	consoleJobs(b)
}

// consoleSession finds a session by its cookie, which is not logged.
func consoleSession(b *browser, main string) {
	v := newVisitor(b.t, main)
	v.send("/wishlist", `{"tenantId":"`+someTenant+`","propertyId":"`+someInstall+`","source":"map","note":"a balcony"}`, "note")
	address, err := url.Parse(main + "/bff/consumer/v1/session")
	if err != nil {
		b.t.Fatal(err)
	}
	cookie := v.Jar.Cookies(address)[0]
	id, _, _ := strings.Cut(cookie.Value, ".")
	b.open("guest/sessions")
	for _, wrong := range []string{id, cookie.Value[:len(cookie.Value)-1], hostile, strings.Repeat("x", 1000)} {
		b.try(http.StatusBadRequest, "The cookie is not valid", "Show session", "cookie", wrong)
	}
	b.viewer.open("guest/sessions")
	for _, who := range []*browser{b, b.viewer} {
		who.try(http.StatusOK, id, "Show session", "cookie", cookie.Name+"="+cookie.Value)
		who.shows("a balcony", someInstall[:8], "signed with the current secret")
	}
	b.open("changes")
	b.hides(id)
	b.open("guest/sessions")
	b.try(http.StatusBadRequest, "Session: expected gms_ and a ULID", "Erase", "session", hostile)
	b.try(http.StatusOK, "Kept events", "Erase", "session", id)
	b.shows("Wishes", "Backups")
	b.open("changes")
	b.shows("session="+id, "sessions erase")
}

func consoleJobs(b *browser) {
	b.open("guest/jobs")
	b.shows("audit-events", "Deletes before")
	b.submit("Run job events")
	b.shows("Events: 0 rows deleted.")
	b.submit("Run all", "dry-run", "yes")
	b.shows("audit-events: 0 rows from before ")
	b.submit("Run all")
	b.shows("audit-events: 0 rows deleted")
	b.open("guest/quarantine")
	b.shows("All received events took effect.")
	b.open("guest/refusals")
	b.shows("No handoff was consumed twice.")
}
