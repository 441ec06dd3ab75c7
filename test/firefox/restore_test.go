package firefox

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/test/binary"
)

// TestRestored checks that browsers upload again the data that a restored backup lacks, so that a new device gets it, and that
// nothing in a browser is lost.
func TestRestored(t *testing.T) {
	firefox := program(t)
	h := startPair(t, firefox)
	before := call[string](t, h.a, "addBookmark", "In the backup", "http://127.0.0.1/before")
	renamed := call[string](t, h.a, "addBookmark", "Old title", "http://127.0.0.1/renamed")
	deleted := call[string](t, h.a, "addBookmark", "Deleted later", "http://127.0.0.1/deleted")
	h.a.do(t, "addLogin", "http://127.0.0.1", "somebody", "correct horse")
	h.a.sync(t)
	h.b.sync(t)
	backup := filepath.Join(t.TempDir(), "backup")
	h.server.Verb("backup", backup)

	later := call[string](t, h.a, "addBookmark", "Later than the backup", "http://127.0.0.1/later")
	h.a.do(t, "renameBookmark", renamed, "New title")
	h.a.do(t, "removeBookmark", deleted)
	h.a.do(t, "addLogin", "http://127.0.0.1:81", "later", "battery staple")
	h.a.sync(t)
	h.b.sync(t)
	h.b.wantBookmark(t, later, "Later than the backup")

	h.server.Signal(syscall.SIGTERM)
	<-h.server.Ended
	data := filepath.Join(t.TempDir(), "restored")
	if r := binary.Run(t, append(h.server.Env, "HOLDFAST_DATA="+data), "restore", backup); r.Status != 0 {
		t.Fatalf("restore: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	next := binary.Launch(t, data, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+h.accounts, "HOLDFAST_SERVER__LISTEN="+strings.TrimPrefix(h.server.URL, "http://"))
	next.Await("/readyz", http.StatusOK)
	next.AwaitOutput("the browsers of all users were told to compare their data")

	// B syncs first: A then finds data on the server that is newer than its own.
	for _, b := range []*browser{h.b, h.a, h.b} {
		b.do(t, "endBackoff")
		b.sync(t)
	}
	c, err := startBrowser(t, firefox, "C", h.accounts, next.URL, h.network)
	if err != nil {
		t.Fatal(err)
	}
	c.signIn(t, h.account)
	c.sync(t)
	for _, b := range []*browser{h.a, h.b, c} {
		b.wantBookmark(t, before, "In the backup")
		b.wantBookmark(t, later, "Later than the backup")
		b.wantBookmark(t, renamed, "New title")
		if got := call[[]login](t, b, "logins", "http://127.0.0.1:81"); len(got) != 1 || got[0].Username != "later" {
			t.Errorf("passwords on %s: %v", b.name, got)
		}
		b.wantBookmark(t, deleted, "Deleted later") // as the guide says
	}
}
