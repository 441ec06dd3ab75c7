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
// through the requests of guests and booking sites.
var oddItems = []string{
	"a/b", "/", "//", "%", "%2F", "a%2Fb", "...", "../..", "a b", " ", " a", "a ", "+", "?q=1&session=x", "#top", `"`, "'", "`", `\`, `\n`, "'; --", "<script>alert(1)</script>", `"><b>`, "&amp;", "]]>", "{{.}}",
	"${x}", "-rf", "--json", "null", "0", "{token}", "{itemId}", ";", ",", "|", "*", "😀", "👩\u200d🚀", "é", "e\u0301", "שלום", "می\u200cخواهم", "界", "\ufffd",
	strings.Repeat("a", 256), strings.Repeat("&", 256), strings.Repeat(`"`, 256), strings.Repeat("😀", 64),
}

// TestOddItems walks item IDs from the guest to the webhook, the pages of the console, the commands and a copy.
func TestOddItems(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "the httpapi walks the IDs in make test")
	var mu sync.Mutex
	var published []string
	accepts, poisoned := false, []string{`"><b>`, "😀", "\ufffd"}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var event struct{ Data struct{ ItemID string } }
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil || !accepts && slices.Contains(poisoned, event.Data.ItemID) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if event.Data.ItemID != "" {
			published = append(published, event.Data.ItemID)
		}
	}))
	t.Cleanup(sink.Close)
	b, text, environ := serveConsole(t, "HOLDFAST_GUEST__PROFILE=shop", "HOLDFAST_GUEST__PROFILES__SHOP__EVENT_PREFIX=shop.guest.", "HOLDFAST_GUEST__PROFILES__SHOP__ITEMS=text",
		"HOLDFAST_GUEST__PROFILES__SHOP__TENANT="+someTenant, "HOLDFAST_GUEST__EVENTS="+sink.URL, "HOLDFAST_GUEST__EVENT_ATTEMPTS=1", "HOLDFAST_GUEST__RATE_LIMITS=false")
	c := commands{t, environ}
	main := addressOf(t, text, "clients")
	v := newVisitor(t, main)
	for n, item := range oddItems {
		quoted, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		v.send("/wishlist", `{"itemId":`+string(quoted)+`}`, fmt.Sprint("add-", n))
		v.send("/session/recently-viewed", `{"itemId":`+string(quoted)+`}`, "")
	}
	address, err := url.Parse(main + "/bff/consumer/v1/session")
	if err != nil {
		t.Fatal(err)
	}
	cookie := v.Jar.Cookies(address)[0]
	id, _, _ := strings.Cut(cookie.Value, ".")
	firsts := func(table *element) (all []string) {
		for _, row := range table.all("tr") {
			all = append(all, row.all("td")[0].String())
		}
		return all
	}
	newest := slices.Clone(oddItems)
	slices.Reverse(newest)
	for i, item := range newest {
		newest[i] = strings.TrimSpace(service.Printable(item)) // as the test's browser reads a cell
	}
	b.open("guest/sessions")
	b.submit("Show session", "cookie", cookie.Value)
	tables := b.page.all("tbody")
	if got := firsts(tables[0]); !slices.Equal(got, newest) {
		t.Errorf("the wishlist is %q\nwant %q", got, newest)
	}
	if got := firsts(tables[1]); len(got) == 0 || !slices.Equal(got, newest[:len(got)]) {
		t.Errorf("viewed %q\nwant %q", got, newest)
	}
	b.open("guest/session?session=" + id)
	if got := firsts(b.page.all("tbody")[0]); !slices.Equal(got, newest) {
		t.Errorf("by ID, the wishlist is %q\nwant %q", got, newest)
	}
	deadline := time.Now().Add(testdb.Patient(time.Minute))
	for b.open("guest/dead-letters"); len(b.page.all("tbody")) == 0 || len(b.page.all("tbody")[0].all("tr")) < len(poisoned); b.open("guest/dead-letters") {
		if time.Now().After(deadline) {
			t.Fatalf("fewer than %d dead letters:\n%s", len(poisoned), b.page)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, row := range b.page.all("tbody")[0].all("tr") {
		name := row.all("td")[0].String()
		var dead struct{ Payload struct{ ItemID string } }
		if err := json.Unmarshal([]byte(c.run("", "guest", "dead-letters", "show", name, "--json")), &dead); err != nil || !slices.Contains(poisoned, dead.Payload.ItemID) {
			t.Errorf("dead letter %s has the item %q, %v", name, dead.Payload.ItemID, err)
		}
		at := *b
		at.open("guest/dead-letters/show?event=" + name)
		quoted, err := json.Marshal(dead.Payload.ItemID)
		if err != nil {
			t.Fatal(err)
		}
		at.shows(string(quoted))
	}
	mu.Lock()
	accepts = true
	mu.Unlock()
	c.run("", "guest", "dead-letters", "retry-all")
	want := slices.Sorted(slices.Values(oddItems))
	for ; ; time.Sleep(20 * time.Millisecond) {
		mu.Lock()
		got := slices.Sorted(slices.Values(published))
		mu.Unlock()
		if len(got) >= len(want) {
			if !slices.Equal(got, want) {
				t.Errorf("published %q\nwant %q", got, want)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("published %q\nwant %q", got, want)
		}
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
