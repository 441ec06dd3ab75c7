package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/testdb"
)

// oddItems are item IDs that HTML, a form, JSON, a webhook or a copy could change. internal/guest/httpapi walks such IDs
// through requests from guests and booking sites.
var oddItems = []string{
	"a/b", "/", "//", "%", "%2F", "a%2Fb", "...", "../..", "a b", " ", " a", "a ", "+", "?q=1&session=x", "#top", `"`, "'", "`", `\`, `\n`, "'; --", "<script>alert(1)</script>", `"><b>`, "&amp;", "]]>", "{{.}}",
	"${x}", "-rf", "--json", "null", "0", "{token}", "{itemId}", ";", ",", "|", "*", "😀", "👩\u200d🚀", "é", "e\u0301", "שלום", "می\u200cخواهم", "界", "\ufffd",
	strings.Repeat("a", 256), strings.Repeat("&", 256), strings.Repeat(`"`, 256), strings.Repeat("😀", 64),
}

// itemSink is a webhook that collects the events' item IDs. It refuses some until accepts is set.
type itemSink struct {
	mu        sync.Mutex
	refused   []string
	accepts   bool
	published []string
}

func (s *itemSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var event struct{ Data struct{ ItemID string } }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	switch item := event.Data.ItemID; {
	case err != nil || !s.accepts && slices.Contains(s.refused, item):
		w.WriteHeader(http.StatusBadRequest)
	case item != "":
		s.published = append(s.published, item)
	}
}

func (s *itemSink) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepts = true
}

// await waits for so many events and returns their sorted item IDs.
func (s *itemSink) await(t *testing.T, n int) []string {
	t.Helper()
	for deadline := time.Now().Add(testdb.Patient(time.Minute)); ; time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		got := slices.Sorted(slices.Values(s.published))
		s.mu.Unlock()
		if len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("published %q", got)
		}
	}
}

// TestOddItems walks item IDs from the guest to the webhook, the console, the commands and a copy.
func TestOddItems(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "the httpapi walks the IDs in make test")
	sink := &itemSink{refused: []string{`"><b>`, "😀", "\ufffd"}}
	hook := httptest.NewServer(sink)
	t.Cleanup(hook.Close)
	b, text, environ := serveConsole(t, "HOLDFAST_GUEST__PROFILE=shop", "HOLDFAST_GUEST__PROFILES__SHOP__EVENT_PREFIX=shop.guest.", "HOLDFAST_GUEST__PROFILES__SHOP__ITEMS=text",
		"HOLDFAST_GUEST__PROFILES__SHOP__TENANT="+someTenant, "HOLDFAST_GUEST__EVENTS="+hook.URL, "HOLDFAST_GUEST__EVENT_ATTEMPTS=1", "HOLDFAST_GUEST__RATE_LIMITS=false")
	c := commands{t, environ}
	v := newVisitor(t, addressOf(t, text, "clients"))
	for n, item := range oddItems {
		quoted := quotedJSON(t, item)
		v.send("/wishlist", `{"itemId":`+quoted+`}`, fmt.Sprint("add-", n))
		v.send("/session/recently-viewed", `{"itemId":`+quoted+`}`, "")
	}
	id := oddItemsInConsole(b, v)
	oddDeadLetters(b, c, sink.refused)
	sink.accept()
	c.run("", "guest", "dead-letters", "retry-all")
	want := slices.Sorted(slices.Values(oddItems))
	if got := sink.await(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("published %q\nwant %q", got, want)
	}
	for _, to := range []string{testdb.PostgresDatabase(t), sqliteURL(t)} {
		c.run("", "copy", "guest", "--to", to)
		c.environ = append(slices.Clone(environ), "HOLDFAST_GUEST__DATABASE_URL="+to)
		wishes, err := guestStore(t, to).Wishes(t.Context(), guest.ID(id), nil, len(want)+1)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range wishes {
			got = append(got, w.Item)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("copied to %s: %q\nwant %q", to, got, want)
		}
	}
}

func quotedJSON(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// oddItemsInConsole finds the visitor's items by cookie and by session ID, which it returns.
func oddItemsInConsole(b *browser, v *visitor) (id string) {
	address, err := url.Parse(v.main + "/bff/consumer/v1/session")
	if err != nil {
		b.t.Fatal(err)
	}
	cookie := v.Jar.Cookies(address)[0]
	id, _, _ = strings.Cut(cookie.Value, ".")
	newest := slices.Clone(oddItems)
	slices.Reverse(newest)
	for i, item := range newest {
		newest[i] = strings.TrimSpace(service.Printable(item)) // as the test's browser reads a cell
	}
	check := func(what string, table, want int) {
		b.t.Helper()
		var got []string
		for _, row := range b.page.all("tbody")[table].all("tr") {
			got = append(got, row.all("td")[0].String())
		}
		if len(got) < want || !slices.Equal(got, newest[:len(got)]) {
			b.t.Errorf("%s: %q\nwant %q", what, got, newest)
		}
	}
	b.open("guest/sessions")
	b.submit("Show session", "cookie", cookie.Value)
	check("the wishlist", 0, len(newest))
	check("viewed", 1, 1) // the latest ones
	b.open("guest/session?session=" + id)
	check("the wishlist by ID", 0, len(newest))
	return id
}

// oddDeadLetters waits for the events that the webhook refuses, and finds their items by command and in the console.
func oddDeadLetters(b *browser, c commands, refused []string) {
	deadline := time.Now().Add(testdb.Patient(time.Minute))
	for b.open("guest/dead-letters"); len(b.page.all("tbody")) == 0 || len(b.page.all("tbody")[0].all("tr")) < len(refused); b.open("guest/dead-letters") {
		if time.Now().After(deadline) {
			b.t.Fatalf("fewer than %d dead letters:\n%s", len(refused), b.page)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, row := range b.page.all("tbody")[0].all("tr") {
		name := row.all("td")[0].String()
		var dead struct{ Payload struct{ ItemID string } }
		if err := json.Unmarshal([]byte(c.run("", "guest", "dead-letters", "show", name, "--json")), &dead); err != nil || !slices.Contains(refused, dead.Payload.ItemID) {
			b.t.Errorf("dead letter %s has the item %q, %v", name, dead.Payload.ItemID, err)
		}
		at := *b
		at.open("guest/dead-letters/show?event=" + name)
		at.shows(quotedJSON(b.t, dead.Payload.ItemID))
	}
}
