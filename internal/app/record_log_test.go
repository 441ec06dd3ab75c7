package app

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/changes"
)

// TestOperatorChanges checks that the console and admin requests log changes and downloads of secrets in the same way.
func TestOperatorChanges(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_EXTSTORAGE__ENABLED=true")
	var log logged
	a.changes.Log = slog.New(slog.NewTextHandler(&log, nil))
	token := a.Config().Server.AdminToken.Reveal()
	o, script := browse(token), browse("")
	script.edit = func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }
	for _, path := range []string{"/guest/keys", "/guest/keys/rotate"} {
		if status, body, _ := script.do(http.MethodPost, path, nil); status != http.StatusUnauthorized {
			t.Errorf("%s with a wrong token: %d %s", path, status, body)
		}
	}
	wantLines(t, &log)
	script.edit = func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	o.want("add by the console", http.StatusSeeOther, "", http.MethodPost, "/console/guest/keys?do=add", o.form("/console/guest/keys"))
	wantLines(t, &log, `who="admin session 1" service=guest page=keys action=add key=ID`)
	send := func(status int, method, path string) {
		t.Helper()
		if got, body, _ := script.do(method, path, nil); got != status {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
	send(http.StatusCreated, http.MethodPost, "/guest/keys")
	wantLines(t, &log, `who="admin token" service=guest page=keys action=add key=ID`)
	send(http.StatusNotFound, http.MethodPost, "/guest/keys/none/retire")
	wantLines(t, &log, `who="admin token" service=guest page=keys action=retire key=ID error=ERROR`)
	send(http.StatusOK, http.MethodGet, "/guest/keys/export")
	wantLines(t, &log, `who="admin token" service=guest page=keys/export action=download`)
	if status, _, _ := o.do(http.MethodGet, "/console/guest/keys/export", nil); status != http.StatusOK {
		t.Errorf("an export by the console: %d", status)
	}
	wantLines(t, &log, `who="admin session 1" service=guest page=keys/export action=download`)
	send(http.StatusOK, http.MethodGet, "/guest/keys")
	wantLines(t, &log)
	if list := o.want("changes", http.StatusOK, "keys/export download", http.MethodGet, "/console/changes", nil); strings.Count(list, "admin token") < 3 {
		t.Errorf("the console does not list the changes with the admin token:\n%s", list)
	}
	for query, want := range map[string]string{
		"who=admin+token&text=retire": "Error", "who=session&text=retire": "No change matches", "since=2020-01-01&until=2020-01-02+15:04": "No change matches",
		"service=guest&since=2020-01-01": "keys/export download", "text=%3Cb%3E": `value="&lt;b&gt;"`, "after=2": "keys add",
	} {
		o.want(query, http.StatusOK, want, http.MethodGet, "/console/changes?"+query, nil)
	}
	o.want("no time", http.StatusBadRequest, "Since: expected a UTC date or time", http.MethodGet, "/console/changes?since=soon", nil)
	if text, err := os.ReadFile(filepath.Join(a.data, changes.File)); err != nil || strings.Count(string(text), "\n") != 5 {
		t.Errorf("the file of the changes: %v, %q", err, text)
	}
	if status, body, _ := script.do(http.MethodGet, "/changes?text=retire", nil); status != http.StatusOK || strings.Count(body, `"number":`) != 1 {
		t.Errorf("%d %s", status, body)
	}
}

func wantLines(t *testing.T, log *logged, want ...string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(log.take()) {
		line = regexp.MustCompile(`key=[\w-]+`).ReplaceAllString(strings.TrimSpace(line), "key=ID")
		line = regexp.MustCompile(`error="[^"]*"`).ReplaceAllString(line, "error=ERROR")
		_, line, _ = strings.Cut(line, `level=INFO msg="operator change" `)
		line, address, _ := strings.Cut(line, " client_address=")
		if !strings.HasPrefix(address, "127.0.0.") {
			t.Errorf("the address is %q", address)
		}
		lines = append(lines, line)
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}
