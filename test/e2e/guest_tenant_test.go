package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

const structured = "Content-Type: application/cloudevents+json"

func (b *site) push(body string, headers ...string) (status int, text string) {
	b.t.Helper()
	a, err := b.Post(b.t.Context(), b.internal+"/internal/events", body, headers...)
	if err != nil {
		b.t.Fatal(err)
	}
	return a.Status, a.Body
}

// TestGuestTenants suspends and reinstates tenants by pushed events, in both CloudEvents modes, and by commands. The
// change with the latest event time wins, regardless of the arrival order.
func TestGuestTenants(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	vars := guestVars("HOLDFAST_GUEST__RATE_LIMITS=false")
	s := binary.Start(t, data, vars...)
	booking := newSite(t, s, "booking")
	pusher := &site{t, guest.Site{Token: strings.TrimSpace(s.Verb("guest", "tokens", "create", "--service", "tenants", "--events"))}, booking.internal}
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339Nano) }
	event := func(id, kind, at, reason string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/tenants","type":"melmastoon.%s","time":%q,"data":{"tenantId":%q,"reason":%q}}`,
			id, kind, at, guest.Tenant, reason)
	}
	v := newVisitor(t, s)
	keys := 0
	wantMint := func(what string, status int) {
		t.Helper()
		keys++
		got, text := v.send(s, http.MethodPost, guest.Mint, guest.Stay, fmt.Sprint("mint-", keys))
		if got != status {
			t.Errorf("%s: %d %s, want %d", what, got, text, status)
		}
	}
	want := func(what string, by *site, status int, part, body string, headers ...string) {
		t.Helper()
		if got, text := by.push(body, headers...); got != status || !strings.Contains(text, part) {
			t.Errorf("%s: %d %s, want %d and %s", what, got, text, status, part)
		}
	}
	first := event("1", "tenant.suspended.v1", at(time.Hour), "unpaid")
	wantMint("before", http.StatusCreated)
	want("structured", pusher, 200, `{"result":"applied"}`, first, structured+"; charset=utf-8")
	wantMint("suspended", http.StatusForbidden)
	want("again", pusher, 200, `{"result":"duplicate"}`, first, structured)
	want("another body", pusher, 200, `{"result":"quarantined"}`, strings.Replace(first, "unpaid", "forged", 1), structured)
	want("an older one", pusher, 200, `{"result":"stale"}`, event("2", "tenant.reinstated.v1", at(2*time.Hour), ""), structured)
	wantMint("still suspended", http.StatusForbidden)
	binaryMode := []string{"Content-Type: application/json", "ce-specversion: 1.0", "ce-id: %C3%A4", "ce-source: /tenants", "ce-type: tenant.reinstated.v1", "ce-time: " + at(time.Minute)}
	want("binary", pusher, 200, `{"result":"applied"}`, `{"tenantId":"`+guest.Tenant+`"}`, binaryMode...)
	wantMint("reinstated", http.StatusCreated)
	want("other event", pusher, 200, `{"result":"quarantined"}`, strings.Replace(first, "tenant.suspended.v1", "tenant.renamed.v1", 1), structured)

	want("no event", pusher, 400, `"code":"invalid"`, `{}`, structured)
	want("no time", pusher, 422, `"code":"invalid"`, `{"specversion":"1.0","id":"a","source":"b","type":"c"}`, structured)
	want("old version", pusher, 400, `"code":"invalid"`, "{}", "ce-specversion: 0.3", "ce-id: a", "ce-source: a", "ce-type: a")
	want("no mode", pusher, 415, `"code":"media-type"`, first, "Content-Type: application/json")
	want("large", pusher, 413, `"code":"too-large"`, strings.Repeat(" ", 65<<10), structured)
	want("token of a booking site", booking, 403, `"code":"denied"`, first, structured)
	want("no token", &site{t: t, internal: booking.internal}, 401, `"code":"unauthenticated"`, first, structured)
	if status, text := pusher.send("consume", v.mint(s, "m"), "a"); status != http.StatusUnauthorized {
		t.Errorf("consume with the token for events: %d %s", status, text)
	}

	s.Verb("guest", "tenants", "suspend", strings.ToUpper(guest.Tenant), "--reason", "by hand")
	wantMint("suspended by hand", http.StatusForbidden)
	if list := s.Verb("guest", "tenants", "list"); !strings.Contains(list, guest.Tenant) || !strings.Contains(list, "by hand") {
		t.Errorf("list: %s", list)
	}
	if list := s.Verb("guest", "tenants", "list", "--json"); !strings.Contains(list, `{"tenantId":"`+guest.Tenant+`","reason":"by hand","suspendedAt":"`) {
		t.Errorf("list --json: %s", list)
	}
	s.Verb("guest", "tenants", "reinstate", guest.Tenant)
	wantMint("reinstated by hand", http.StatusCreated)
	want("a later event", pusher, 200, `{"result":"applied"}`, event("3", "tenant.suspended.v1", at(-time.Hour), ""), structured)
	if r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), "guest", "tenants", "reinstate", guest.Tenant); r.Status == 0 || !strings.Contains(r.Stderr, "an event with a later time says otherwise") {
		t.Errorf("reinstate before a later event: %+v", r)
	}
	wantMint("suspended for an hour", http.StatusForbidden)
	if body := s.Await("/metrics", http.StatusOK); !strings.Contains(body, `holdfast_guest_received_events_total{result="quarantined"} 2`) {
		t.Error("the metric does not count two events in quarantine")
	}
	guestCommandsRefuse(t, data, vars)
}

func guestCommandsRefuse(t *testing.T, data string, vars []string) {
	t.Helper()
	for command, wanted := range map[string]string{
		"quarantine list --limit 0":            "holdfast guest quarantine list: --limit: must be at least 1",
		"outbox list --limit -1":               "holdfast guest outbox list: --limit: must be at least 1",
		"tokens create --service A":            "holdfast guest tokens create: --service: must be 1 to 64 characters",
		"tokens create --service a --tenant x": "holdfast guest tokens create: --tenant: must be a UUID",
		"sessions erase gms_x":                 "holdfast guest sessions erase: SESSION: expected gms_ and a ULID\n",
		"tenants suspend x":                    "holdfast guest tenants suspend: TENANT: expected a UUID, or tnt_ and a ULID\n",
	} {
		r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), append([]string{"guest"}, strings.Fields(command)...)...)
		if r.Status == 0 || !strings.HasPrefix(r.Stderr, wanted) {
			t.Errorf("guest %s: %d %s", command, r.Status, r.Stderr)
		}
	}
}
