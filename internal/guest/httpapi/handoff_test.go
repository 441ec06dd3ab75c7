package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/inbox"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

const stay = `{"checkIn":"2036-12-30","checkOut":"2037-01-02","adults":2,"children":1,"rooms":1,"currency":"EUR","locale":"de-AT"}`

type receiver struct {
	t       testing.TB
	base    string
	tokens  *bearer.Keyring
	counts  []string
	profile *guest.Profile
}

func newReceiver(t testing.TB, s *server) *receiver {
	t.Helper()
	tokens, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{ID: "k", Alg: bearer.HS256, Text: strings.Repeat("t", 32)}}, Audience: httpapi.Audience})
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, tokens: tokens, profile: s.profile}
	h := &httpapi.Receiver{Handoffs: s.handoffs, Tokens: tokens, Clock: clock.System, Count: func(result string) { r.counts = append(r.counts, result) }}
	r.base = webtest.Serve(t, web.Service{Serve: h.Serve, Error: httpapi.WriteError, Route: httpapi.LabelReceiver}, web.Options{}).URL
	return r
}

func (r *receiver) token(service, tenant string) string {
	r.t.Helper()
	claims, err := httpapi.ServiceClaims(service, tenant)
	if err != nil {
		r.t.Fatal(err)
	}
	token, err := r.tokens.Sign(claims, clock.System(), time.Hour)
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

func (r *receiver) want(status int, path, body, part string, headers ...string) string {
	r.t.Helper()
	in := webtest.Request(r.t, r.base, http.MethodPost, path, strings.NewReader(body))
	in.Header.Set("Authorization", "Bearer "+r.token("booking", ""))
	in.Header.Set("Idempotency-Key", "a")
	webtest.SetHeaders(in, headers...)
	resp, err := described(r.t, r.profile).Do(in)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !strings.Contains(string(text), part) {
		r.t.Errorf("%s: %d %s %v, want %d and %s", path, resp.StatusCode, text, err, status, part)
	}
	return string(text)
}

type minted struct {
	HandoffID, Token, RedirectURL string
	ExpiresAt                     time.Time
}

func (b *browser) mint() (m minted) {
	b.t.Helper()
	a := b.want(201, http.MethodPost, b.mintPath(), b.mintBody())
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

func TestHandoff(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b, r := s.begin(), newReceiver(t, s)
	b.want(200, http.MethodGet, "/handoff", "", `{"items":[],"nextCursor":null}`)
	m := b.mint()
	if m.RedirectURL != "https://book.example/?t="+m.Token || !strings.HasPrefix(m.HandoffID, "bhd_") || time.Until(m.ExpiresAt) > 10*time.Minute {
		t.Errorf("%+v", m)
	}
	b.want(200, http.MethodPatch, "/session/preferences", `{"locale":"fr","currency":"CHF"}`)
	short := b.want(201, http.MethodPost, "/handoff/"+strings.ToUpper(tenant)+"/"+property, `{"checkIn":"2036-12-30","checkOut":"2036-12-31","adults":1,"campaign":{"source":"x"}}`)
	b.want(200, http.MethodGet, "/handoff?limit=1", "", `"currency":"CHF","locale":"fr","status":"open"`, `"nextCursor":"`)
	if strings.Contains(b.want(200, http.MethodGet, "/handoff", "").body, "bh1.") {
		t.Error("the history has tokens")
	}
	b.want(400, http.MethodGet, "/handoff?limit=0", "", `"code":"invalid"`)

	path, body := "/internal/handoff/"+m.HandoffID, `{"token":"`+m.Token+`"}`
	r.want(200, path+"/verify", body, `"sessionId":"gms_`)
	r.want(404, path+"/consume", body, `"not-found"`, "Authorization: Bearer "+r.token("booking", property))
	r.want(401, path+"/consume", body, `"unauthenticated"`, "Authorization")
	r.want(401, path+"/consume", body, `"unauthenticated"`, "Authorization: Bearer x")
	r.want(400, path+"/consume", body, `"idempotency-key-missing"`, "Idempotency-Key")
	r.want(403, path+"/consume", `{"token":"x"}`, `"token-invalid"`)
	r.want(403, path+"/consume", strings.Replace(body, m.Token[8:12], "AAAA", 1), `"token-invalid"`)
	r.want(422, path+"/consume", `{}`, `"invalid"`)
	r.want(422, path+"/consume", `{"token":"x","other":1}`, `"invalid"`)
	r.want(400, path+"/consume", `{`, `"invalid"`)
	r.want(415, path+"/consume", body, `"media-type"`, "Content-Type: text/plain")
	r.want(404, path+"/other", body, `"not-found"`)
	r.want(404, "/internal/handoff/bhd_x/consume", body, `"not-found"`)
	var other minted
	if err := json.Unmarshal([]byte(short.body), &other); err != nil {
		t.Fatal(err)
	}
	r.want(403, "/internal/handoff/"+other.HandoffID+"/consume", body, `"token-invalid"`)
	first := r.want(200, path+"/consume", body, `"consumedAt":"`, "Authorization: Bearer "+r.token("booking", tenant))
	if again := r.want(200, path+"/consume", body, ""); again != first {
		t.Errorf("again: %s, want %s", again, first)
	}
	r.want(409, path+"/consume", body, `"handoff-consumed"`, "Idempotency-Key: b")
	r.want(409, path+"/verify", body, `"handoff-consumed"`)
	b.want(200, http.MethodGet, "/handoff", "", `"status":"consumed"`)
	for _, result := range []string{"consumed", "handoff-consumed", "not-found", "unauthenticated", "token-invalid", "invalid"} {
		if !slices.Contains(r.counts, result) {
			t.Errorf("%s is not counted: %v", result, r.counts)
		}
	}
	old := *b
	b.want(204, http.MethodPost, "/session/clear", "")
	old.want(200, http.MethodGet, "/handoff", "", `"items":[]`)
	r.want(200, "/internal/handoff/"+other.HandoffID+"/consume", `{"token":"`+other.Token+`"}`, "")
}

func TestBindings(t *testing.T) {
	t.Parallel()
	inProfiles(t, bindings)
}

func bindings(t *testing.T, s *server) {
	b, r := s.begin(), newReceiver(t, s)
	a := b.send(http.MethodPost, s.mintPath(), s.mintBody(), "User-Agent: browser", "Accept-Language: de")
	var m minted
	if err := json.Unmarshal([]byte(a.body), &m); err != nil || a.status != 201 {
		t.Fatal(a)
	}
	from := func(agent, language, ip string) string {
		return fmt.Sprintf(`{"token":%q,"guest":{"userAgent":%q,"acceptLanguage":%q,"ip":%q}}`, m.Token, agent, language, ip)
	}
	path := "/internal/handoff/" + m.HandoffID + "/verify"
	r.want(200, path, from("browser", "de", "127.0.0.1"), `"suspect":false`)
	r.want(200, path, from("browser", "de", "127.0.0.2"), `"suspect":true`)
	r.want(403, path, from("other", "de", "127.0.0.1"), `"other-browser"`)
	r.want(403, path, from("browser", "en", "127.0.0.1"), `"other-browser"`)
	r.want(403, path, from("browserd", "e", "127.0.0.1"), `"other-browser"`)

	// Node may add this header for a browser without a language, which must not change the fingerprint.
	for _, sent := range []string{"Accept-Language", "Accept-Language: *"} {
		a := b.send(http.MethodPost, s.mintPath(), s.mintBody(), "User-Agent: browser", sent)
		if err := json.Unmarshal([]byte(a.body), &m); err != nil || a.status != 201 {
			t.Fatal(a)
		}
		path := "/internal/handoff/" + m.HandoffID + "/verify"
		for _, seen := range []string{"", "*"} {
			r.want(200, path, from("browser", seen, "127.0.0.1"), `"suspect":false`)
		}
		r.want(403, path, from("browser", "en", "127.0.0.1"), `"other-browser"`)
	}
}

func TestMintRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	at := "/handoff/" + tenant + "/" + property
	replace := func(old, text string) string { return strings.Replace(stay, old, text, 1) }
	for name, c := range map[string]struct {
		status     int
		path, body string
		part       string
	}{
		"tenant":         {422, "/handoff/x/" + property, stay, "tenantId"},
		"property":       {422, "/handoff/" + tenant + "/x", stay, "propertyId"},
		"dates":          {422, at, replace("2037-01-02", "2036-12-30"), "checkOut"},
		"no date":        {422, at, replace("2036-12-30", "2026-02-30"), "checkIn"},
		"adults":         {422, at, replace(`"adults":2`, `"adults":0`), "adults"},
		"children":       {422, at, replace(`"children":1`, `"children":-1`), "children"},
		"rooms":          {422, at, replace(`"rooms":1`, `"rooms":100`), "rooms"},
		"fraction":       {422, at, replace(`"rooms":1`, `"rooms":1.5`), "rooms"},
		"currency":       {422, at, replace("EUR", "eur"), "currency"},
		"past":           {422, at, replace("2036-12-30", "2020-12-30"), "checkIn"},
		"locale":         {422, at, replace("de-AT", "-"), "locale"},
		"campaign":       {422, at, replace(`"adults"`, `"campaign":[],"adults"`), "campaign"},
		"large campaign": {422, at, replace(`"adults"`, `"campaign":{"a":"`+strings.Repeat("a", 1100)+`"},"adults"`), "campaign"},
		"unknown member": {422, at, replace(`"adults"`, `"price":1,"adults"`), "unknown member: expected checkIn"},
		"no site":        {404, "/handoff/" + property + "/" + property, stay, "booking site"},
		"path":           {404, at + "/x", stay, "not-found"},
	} {
		t.Run(name, func(t *testing.T) {
			on := *b
			on.server = &server{t: t, base: s.base}
			on.check(on.send(http.MethodPost, c.path, c.body), c.status, c.part)
		})
	}
	event := func(kind, id string, minute int) {
		t.Helper()
		body := json.RawMessage(`{"tenantId":"` + tenant + `"}`)
		e := inbox.Event{Source: "/tenants", ID: id, Type: kind, Time: clock.System().Add(time.Duration(minute) * time.Minute), Body: body}
		if _, err := s.tenants.Receive(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	event(tenants.TypeSuspended, "1", 0)
	b.check(b.send(http.MethodPost, at, stay, "Idempotency-Key: s"), 403, `"tenant-suspended"`)
	event(tenants.TypeReinstated, "2", 1)
	b.want(200, http.MethodGet, "/handoff", "", `"items":[]`)
	b.check(b.send(http.MethodPost, at, stay, "Idempotency-Key: s"), 201) // a refusal is not stored
}

// TestMintProperty checks that a handoff requires a property of its tenant. While the catalogue is unavailable and
// no cache contains the property, a mint fails, but a repeated request gets its answer.
func TestMintProperty(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.begin()
	hotels := parse[found](t, b.want(200, http.MethodPost, "/search", `{"region":"vienna"}`).body).Items
	mine := slices.IndexFunc(hotels, func(l catalogue.Listing) bool { return l.TenantID != tenant })
	at, other := "/handoff/"+tenant+"/", hotels[mine]
	for name, path := range map[string]string{"of another tenant": at + other.PropertyID, "unknown": at + tenant} {
		b.want(404, http.MethodPost, path, stay, `"not-found"`, "there is no such property")
		if m := b.want(200, http.MethodGet, "/handoff", ""); !strings.Contains(m.body, `"items":[]`) {
			t.Errorf("%s: %s", name, m.body)
		}
	}
	b.want(201, http.MethodPost, "/handoff/"+strings.ToUpper(other.TenantID+"/"+other.PropertyID), stay)
	first := b.send(http.MethodPost, at+property, stay, "Idempotency-Key: first")
	away := s.at(func(p *parts) { p.source, p.hot = nil, memory.New(clock.System, 1<<20) })
	b.server = away
	if again := b.send(http.MethodPost, at+property, stay, "Idempotency-Key: first"); again.body != first.body || again.status != 201 {
		t.Errorf("repeated while the catalogue is away: %d %s, want %s", again.status, again.body, first.body)
	}
	refused := b.want(503, http.MethodPost, at+property, stay, `"unavailable"`, `"retriable":true`, "catalogue")
	if refused.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
