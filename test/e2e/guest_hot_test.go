package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/test/binary"
)

// TestGuestHotStateAfterARestart checks on SQLite that preferences, attributes, lists and searches
// survive a stop, and a kill once they are stored. A session that a command erases is gone from the running server, too,
// and a backup does not bring such state back.
func TestGuestHotStateAfterARestart(t *testing.T) {
	t.Parallel()
	const enabled = "HOLDFAST_GUEST__ENABLED=true"
	data := t.TempDir()
	s := binary.Start(t, data, enabled)
	kept := func() { t.Helper(); s.AwaitMetric("holdfast_guest_hot_unsaved 0") }
	v := newVisitor(t, s)
	want := func(status int, method, path, body, key string, parts ...string) (text string) {
		t.Helper()
		got, text := v.send(s, method, path, body, key)
		for _, part := range parts {
			if got != status || !strings.Contains(text, part) {
				t.Fatalf("%s %s: %d %s, want %d and %s", method, path, got, text, status, part)
			}
		}
		return text
	}
	viewed := `{"tenantId":"11111111-2222-4333-8444-555555555555","propertyId":"00000001-2222-4333-8444-555555555555"}`
	search := `{"checkIn":"2027-06-01","checkOut":"2027-06-03","adults":2,"rooms":1}`
	want(http.StatusOK, http.MethodPatch, "/session/preferences", `{"locale":"de-AT","currency":"EUR"}`, "", "de-AT")
	want(http.StatusOK, http.MethodPatch, "/session/attributes", `{"cart":["a"]}`, "", "cart")
	want(http.StatusCreated, http.MethodPost, "/session/recently-viewed", viewed, "", "00000001")
	found := want(http.StatusOK, http.MethodPost, "/search", search, "", "srs_")
	_, id, _ := strings.Cut(found, `"searchId":"`)
	id, _, _ = strings.Cut(id, `"`)
	whole := func() {
		t.Helper()
		want(http.StatusOK, http.MethodGet, "/session", "", "", `"locale":"de-AT"`, `"currency":"EUR"`, `"cart":["a"]`)
		want(http.StatusOK, http.MethodGet, "/session/recently-viewed", "", "", "00000001")
		want(http.StatusOK, http.MethodGet, "/session/history", "", "", id)
		want(http.StatusOK, http.MethodGet, "/search/"+id, "", "", id)
	}
	for range 2 { // restored state is kept, too
		s.Signal(syscall.SIGTERM)
		<-s.Ended
		s = binary.Start(t, data, enabled)
		whole()
	}
	want(http.StatusOK, http.MethodPatch, "/session/attributes", `{"cart":["a"],"note":"b"}`, "", "note")
	kept()
	s.Kill()
	s = binary.Start(t, data, enabled)
	whole()
	want(http.StatusOK, http.MethodGet, "/session", "", "", `"note":"b"`)

	backup := filepath.Join(t.TempDir(), "backup")
	s.Verb("backup", backup)
	old := binary.Start(t, backup, enabled)
	if _, text := v.send(old, http.MethodGet, "/session", "", ""); strings.Contains(text, "cart") {
		t.Errorf("a server on a backup answers %s", text)
	}

	_, after, _ := strings.Cut(v.Cookie, "gms_")
	session := "gms_" + after[:26]
	s.Verb("guest", "sessions", "erase", "--yes", session)
	s.AwaitAnswer("/healthz", func(int, string) bool { // the command does not reach the server: it reads the erasure
		_, text := v.send(s, http.MethodGet, "/session", "", "")
		return !strings.Contains(text, "cart") && !strings.Contains(text, "de-AT")
	})
	kept()
	s.Kill()
	s = binary.Start(t, data, enabled)
	if _, text := v.send(s, http.MethodGet, "/session", "", ""); strings.Contains(text, "cart") || strings.Contains(text, "de-AT") {
		t.Errorf("after the erasure: %s", text)
	}
}
