package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/guest"
)

// inSites runs a test on both profiles, each with SQLite and memory, and with PostgreSQL and Redis. Every site
// limits attributes to 1 KiB and requires theme to be a text.
func inSites(t *testing.T, test func(*testing.T, *server)) {
	site := guest.Site{AttributesLimit: 1 << 10, AttributesSchema: json.RawMessage(`{"properties":{"theme":{"type":"string"}}}`)}
	for name, profile := range map[string]*guest.Profile{"hotel": {Name: guest.Hotel.Name, Types: guest.Hotel.Types}, "shop": shop()} {
		profile.Site = site
		t.Run(name, func(t *testing.T) { onEngines(t, profile, test) })
	}
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	inSites(t, attributes)
}

func attributes(t *testing.T, s *server) {
	const path = "/session/attributes"
	b := s.begin()
	empty := b.want(200, http.MethodGet, path, "", "{}\n").header.Get("Etag")
	first := b.send(http.MethodPatch, path, `{"theme":"dark","seen":[1,2],"box":{"a":1,"b":2}}`, "Content-Type: application/merge-patch+json", "Idempotency-Key", "If-Match: "+empty)
	b.check(first, 200, `{"box":{"a":1,"b":2},"seen":[1,2],"theme":"dark"}`)
	tag := first.header.Get("Etag")
	b.want(200, http.MethodGet, "/session", "", `"preferences":{},"attributes":{"box":{"a":1,"b":2},"seen":[1,2],"theme":"dark"}}`)
	b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de"}`, `"attributes":{"box"`)
	if a := b.send(http.MethodGet, path, "", "If-None-Match: "+tag); a.status != http.StatusNotModified || a.header.Get("Etag") != tag || a.body != "" {
		t.Errorf("If-None-Match: %d %s", a.status, a.body)
	}
	b.want(200, http.MethodPatch, path, `{"box":{"b":null,"c":3},"seen":null}`, `{"box":{"a":1,"c":3},"theme":"dark"}`)
	for _, match := range []string{tag, empty, `"x", ` + tag, "W/" + tag, `""`} {
		b.check(b.send(http.MethodPatch, path, `{"late":true}`, "If-Match: "+match), 412, `"code":"attributes-changed"`)
	}
	for _, match := range []string{"x", "", " ", ",", `"`, `"x`, tag + ", *", "*, " + tag, tag + tag, "w/" + tag} {
		b.check(b.send(http.MethodPatch, path, `{"late":true}`, "If-Match: "+match), 400, `"header":"If-Match"`)
		b.check(b.send(http.MethodGet, path, "", "If-None-Match: "+match), 400, `"header":"If-None-Match"`)
	}
	for _, other := range []string{"If-None-Match: *", "If-Unmodified-Since: Sat, 28 Nov 2026 19:20:00 GMT", "If-Range: " + tag} {
		b.check(b.send(http.MethodPatch, path, `{"late":true}`, other), 400, "is not supported by this request: use If-Match")
	}
	b.check(b.send(http.MethodPatch, path, `{"box":{"a":1}}`, "If-Match: *"), 200, `{"box":{"a":1,"c":3},"theme":"dark"}`) // no change

	for _, body := range []string{`[]`, `null`, `"x"`, `1`} {
		b.want(422, http.MethodPatch, path, body, "expected an object")
	}
	b.want(422, http.MethodPatch, path, `{"theme":7}`, `"pointer":"/theme"`)
	b.want(400, http.MethodPatch, path, `{"a"`, `"code":"invalid"`)
	b.check(b.send(http.MethodPatch, path, `{}`, "Content-Type: text/plain"), 415)
	b.want(409, http.MethodPatch, path, `{"text":"`+strings.Repeat("a", 1100)+`"}`, `"code":"attributes-full"`, "1024 bytes")
	b.want(413, http.MethodPatch, path, `{"text":"`+strings.Repeat("a", 33<<10)+`"}`, `"code":"too-large"`)
	b.want(200, http.MethodGet, path, "", `{"box":{"a":1,"c":3},"theme":"dark"}`)
	(&browser{server: s}).want(401, http.MethodGet, path, "", "session-required")
	(&browser{server: s}).want(401, http.MethodPatch, path, `{}`, "session-required")
	s.begin().want(200, http.MethodGet, path, "", "{}\n")

	var names []string
	for _, payload := range s.observed("session.attributes_changed.v1") {
		names = append(names, fmt.Sprint(parse[struct{ Changed []string }](t, payload).Changed))
		if strings.Contains(payload, "dark") {
			t.Errorf("an event has a value: %s", payload)
		}
	}
	if got := strings.Join(names, " "); got != "[box seen theme] [box seen]" {
		t.Errorf("changed: %s", got)
	}

	b.want(204, http.MethodPost, "/session/clear", "")
	b.want(200, http.MethodGet, path, "", "{}\n")
	b.want(200, http.MethodPatch, path, `{"theme":"light"}`)
	id, _, _ := strings.Cut(b.cookie, ".")
	if _, err := s.guests.Erase(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.want(200, http.MethodGet, path, "", "{}\n")
}

// TestAttributesAtOnce checks that all concurrent patches take effect, and only one with the same If-Match.
func TestAttributesAtOnce(t *testing.T) {
	t.Parallel()
	inSites(t, func(t *testing.T, s *server) {
		b := s.begin()
		tag := b.want(200, http.MethodGet, "/session/attributes", "").header.Get("Etag")
		var mu sync.Mutex
		counts := map[int]int{}
		var all sync.WaitGroup
		for i := range 6 {
			racer, matcher := *b, *b
			all.Go(func() {
				racer.want(200, http.MethodPatch, "/session/attributes", fmt.Sprintf(`{"member-%d":%d}`, i, i))
			})
			all.Go(func() {
				a := matcher.send(http.MethodPatch, "/session/attributes", fmt.Sprintf(`{"winner":%d}`, i), "If-Match: "+tag)
				mu.Lock()
				defer mu.Unlock()
				counts[a.status]++
			})
		}
		all.Wait()
		if counts[200] > 1 || counts[200]+counts[412] != 6 {
			t.Errorf("If-Match: %v", counts)
		}
		for i := range 6 {
			b.want(200, http.MethodGet, "/session/attributes", "", fmt.Sprintf(`"member-%d":%d`, i, i))
		}
	})
}
