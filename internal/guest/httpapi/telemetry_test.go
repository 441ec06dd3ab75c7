package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/guest"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/outbox"
)

func batchOf(n int, item string) string {
	return `{"items":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`
}

func (s *server) waiting() (all []outbox.WaitingEvent) {
	s.t.Helper()
	all, err := s.store.Outbox().ListWaiting(s.t.Context(), 0, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func TestTelemetry(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	views := `{"items":[{"page":"home"},{"page":"detail","tenantId":"` + strings.ToUpper(tenant) + `","propertyId":"` + property + `",
		"searchId":"srs_01J8ZQ4Y7N5M3K2H1G0F9E8D7B","occurredAt":"2026-11-23T04:00:00.123456+01:00","durationMs":1500}]}`
	first := b.send(http.MethodPost, "/telemetry/page-view", views, "Idempotency-Key: a")
	b.check(first, 202, `{"ids":["mpv_`)
	again := b.send(http.MethodPost, "/telemetry/page-view", views, "Idempotency-Key: a")
	if again.status != 202 || again.body != first.body || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeated: %d %s", again.status, again.body)
	}
	b.check(b.send(http.MethodPost, "/telemetry/page-view", `{"items":[{"page":"home"}]}`, "Idempotency-Key: a"), 422, `"code":"idempotency-key-reused"`)
	b.check(b.send(http.MethodPost, "/telemetry/page-view", views, "Idempotency-Key"), 400, `"code":"idempotency-key-missing"`)
	b.want(202, http.MethodPost, "/telemetry/funnel", `{"items":[{"step":"handoff","handoffId":"bhd_01J8ZQ4Y7N5M3K2H1G0F9E8D7B"}]}`, `{"ids":["cfe_`)

	var ids struct{ IDs []string }
	if err := json.Unmarshal([]byte(first.body), &ids); err != nil || len(ids.IDs) != 2 {
		t.Fatal(first.body, err)
	}
	session, _, _ := strings.Cut(b.cookie, ".")
	events := s.waiting()
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	for i, want := range []string{
		`{"id":"` + ids.IDs[0] + `","sessionId":"` + session + `","page":"home","occurredAt":"2`,
		`{"id":"` + ids.IDs[1] + `","sessionId":"` + session + `","page":"detail","tenantId":"` + tenant + `","propertyId":"` + property +
			`","searchId":"srs_01J8ZQ4Y7N5M3K2H1G0F9E8D7B","occurredAt":"2026-11-23T03:00:00.123Z","durationMs":1500}`,
		`"sessionId":"` + session + `","step":"handoff","handoffId":"bhd_`,
	} {
		if e := events[i]; !strings.Contains(string(e.Payload), want) || e.Class != guest.Operational || string(e.Headers) != "{}" || i < 2 && e.Key != ids.IDs[i] ||
			e.Topic != "melmastoon.bff.consumer."+[]string{"page_view", "page_view", "funnel"}[i]+".recorded.v1" {
			t.Errorf("event %d: %+v, payload %s, want %s", i, e, e.Payload, want)
		}
	}
}

// TestSampling checks that a session's telemetry is published completely or not at all, with the sample rate. The
// answer is the same.
func TestSampling(t *testing.T) {
	t.Parallel()
	recorded := map[string]int{}
	s := newServer(t).at(func(p *parts) {
		p.samples = telemetry.SampleRates{PageViews: 4, FunnelEvents: 1}
		p.recorded = func(kind, result string, n int) { recorded[kind+" "+result] += n }
	})
	sampled := 0
	for range 40 {
		b, before := s.begin(), len(s.waiting())
		for range 2 {
			b.want(202, http.MethodPost, "/telemetry/page-view", batchOf(3, `{"page":"list"}`), `"mpv_`)
		}
		switch n := len(s.waiting()) - before; n {
		case 6:
			sampled += 6
		case 0:
		default:
			t.Errorf("%d events of a session", n)
		}
	}
	for _, e := range s.waiting() {
		if string(e.Headers) != `{"sampledrate":"4"}` {
			t.Errorf("headers %s", e.Headers)
		}
	}
	if sampled == 0 || sampled == 240 || recorded["page-view published"] != sampled || recorded["page-view sampled-out"] != 240-sampled {
		t.Errorf("%d page views are sampled of 240; counted %v", sampled, recorded)
	}
	s.begin().want(202, http.MethodPost, "/telemetry/funnel", batchOf(1, `{"step":"search"}`))
	if all := s.waiting(); len(all) != sampled+1 {
		t.Errorf("%d events, want %d", len(all), sampled+1)
	}
}

func TestTelemetryRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	pointers := regexp.MustCompile(`"pointer":"([^"]*)"`)
	for name, c := range map[string]struct {
		status     int
		path, body string
		pointers   string
	}{
		"page":          {422, "page-view", `{"items":[{"page":"home"},{"page":"x"}]}`, "/items/1/page"},
		"everything":    {422, "page-view", `{"items":[{"page":"x","tenantId":"a","propertyId":"b","searchId":"c","occurredAt":"1899-01-01T00:00:00Z","durationMs":-1}]}`, "/items/0/page /items/0/durationMs /items/0/tenantId /items/0/propertyId /items/0/searchId /items/0/occurredAt"},
		"types":         {422, "page-view", `{"items":[{"page":1},{"page":"home","durationMs":1.5},{"page":"home","durationMs":"1"}]}`, "/items/0/page /items/1/durationMs /items/2/durationMs"},
		"time":          {422, "page-view", `{"items":[{"page":"home","occurredAt":"yesterday"}]}`, "/items/0/occurredAt"},
		"unknown":       {422, "page-view", `{"items":[{"page":"home"},{"page":"home","url":"x"}]}`, "/items/1"},
		"no objects":    {422, "page-view", `{"items":[1,null,[]]}`, "/items/0 /items/1 /items/2"},
		"step":          {422, "funnel", `{"items":[{"step":"home","handoffId":"wsh_01J8ZQ4Y7N5M3K2H1G0F9E8D7B"}]}`, "/items/0/step /items/0/handoffId"},
		"empty":         {422, "funnel", `{"items":[]}`, "/items"},
		"none":          {422, "funnel", `{}`, "/items"},
		"no array":      {422, "funnel", `{"items":{}}`, "/items"},
		"51 items":      {413, "page-view", batchOf(51, `{"page":"home"}`), ""},
		"50 items":      {202, "page-view", batchOf(50, `{"page":"home"}`), ""},
		"large":         {413, "page-view", batchOf(50, `{"page":"`+strings.Repeat("a", 1400)+`"}`), ""},
		"20 of 50":      {422, "page-view", batchOf(50, `{"page":"`+strings.Repeat("a", 1000)+`"}`), "20"},
		"another route": {422, "funnel", batchOf(1, `{"page":"home"}`), "/items/0"},
	} {
		a := b.send(http.MethodPost, "/telemetry/"+c.path, c.body)
		var got []string
		for _, m := range pointers.FindAllStringSubmatch(a.body, -1) {
			got = append(got, m[1])
		}
		if text := strings.Join(got, " "); a.status != c.status || text != c.pointers && fmt.Sprint(len(got)) != c.pointers {
			t.Errorf("%s: %d %q, want %d %q: %.300s", name, a.status, text, c.status, c.pointers, a.body)
		}
	}
	if n := len(s.waiting()); n != 50 {
		t.Errorf("%d events, want 50", n)
	}
}
