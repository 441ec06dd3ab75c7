package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// guestEngines returns guest settings for each engine.
var guestEngines = map[string]func(t *testing.T) []string{
	"SQLite": func(*testing.T) []string { return nil },
	"PostgreSQL": func(t *testing.T) []string {
		return []string{"HOLDFAST_GUEST__DATABASE_URL=" + testdb.PostgresDatabase(t)}
	},
}

func guestVars(more ...string) []string {
	return append([]string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0",
		"HOLDFAST_GUEST__HANDOFF_URL=https://book.example/{tenantId}/{propertyId}#{token}",
	}, more...)
}

func (v *visitor) mint(s *binary.Server, key string) (m guest.Handoff) {
	v.t.Helper()
	status, text := v.send(s, http.MethodPost, guest.Mint, guest.Stay, key)
	if err := json.Unmarshal([]byte(text), &m); status != http.StatusCreated || err != nil {
		v.t.Fatalf("mint: %d %s", status, text)
	}
	return m
}

type site struct {
	t *testing.T
	guest.Site
	internal string
}

func newSite(t *testing.T, s *binary.Server, name string) *site {
	t.Helper()
	token := strings.TrimSpace(s.Verb("guest", "tokens", "create", "--service", name))
	return &site{t, guest.Site{HTTP: siteClient, Token: token}, s.Internal()}
}

func (b *site) send(operation string, m guest.Handoff, key string) (status int, text string) {
	b.t.Helper()
	a, err := b.Send(b.t.Context(), b.internal, operation, m, key)
	if err != nil {
		b.t.Fatal(err)
	}
	return a.Status, a.Body
}

const racing = 200

// siteClient reuses connections, because new connections would exhaust the ports.
var siteClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: racing}}

func (b *site) want(status int, operation string, m guest.Handoff, key, part string) string {
	b.t.Helper()
	got, text := b.send(operation, m, key)
	if got != status || !strings.Contains(text, part) {
		b.t.Fatalf("%s: %d %s, want %d and %s", operation, got, text, status, part)
	}
	return text
}

// TestGuestHandoff mints, verifies and consumes a handoff, with kills in between.
func TestGuestHandoff(t *testing.T) {
	t.Parallel()
	for name, vars := range guestEngines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, vars := t.TempDir(), guestVars(vars(t)...)
			binary.Migrate(t, data, vars...)
			s := binary.Start(t, data, vars...)
			v := newVisitor(t, s)
			m := v.mint(s, "one")
			if want := "https://book.example/" + guest.Tenant + "/" + guest.Hotel + "#" + m.Token; m.RedirectURL != want {
				t.Errorf("redirectUrl %s, want %s", m.RedirectURL, want)
			}
			booking := newSite(t, s, "booking")
			booking.want(http.StatusOK, "verify", m, "", `"suspect":false`)
			s.Kill()
			s = binary.Start(t, data, vars...)
			if again := v.mint(s, "one"); again != m {
				t.Errorf("repeated after the kill: %v, want %v", again, m)
			}
			booking.internal = s.Internal()
			first := booking.want(http.StatusOK, "consume", m, "a", `"consumedAt":"`)
			s.Kill()
			s = binary.Start(t, data, vars...)
			if status, text := v.send(s, http.MethodPost, guest.Mint, guest.Stay, "one"); status != http.StatusConflict || !strings.Contains(text, `"handoff-consumed"`) {
				t.Errorf("the mint repeated after the consume: %d %s", status, text)
			}
			other := newSite(t, s, "other")
			booking.internal = other.internal
			if text := booking.want(http.StatusOK, "consume", m, "a", ""); text != first {
				t.Errorf("repeated: %s, want %s", text, first)
			}
			booking.want(http.StatusConflict, "consume", m, "b", "handoff-consumed")
			other.want(http.StatusConflict, "consume", m, "a", "handoff-consumed")
			other.want(http.StatusConflict, "verify", m, "a", "handoff-consumed")
			s.AwaitMetric(`holdfast_guest_handoff_consumes_total{result="consumed"} 1`)
			s.AwaitMetric(`holdfast_guest_handoff_consumes_total{result="handoff-consumed"} 2`)
		})
	}
}
