package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// await opens a page until it shows a text.
func (b *browser) await(path, text string) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for b.open(path); !strings.Contains(b.page.String(), text); b.open(path) {
		if time.Now().After(deadline) {
			b.t.Fatalf("no %q in\n%s", text, b.page)
		}
	}
}

// Operators make, verify and restore backups with the console, which also has the restore points of the replica.
func TestConsoleBackups(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	address := "file://" + filepath.ToSlash(folder)
	b, _, _ := serveConsole(t, "HOLDFAST_BACKUP__URL="+address+"/back'up", "HOLDFAST_REPLICA__URL="+address+"/replica")
	b.open("backup")
	b.shows("No backup at backup.url is known", address+"/back'up")
	b.submit("Back up now")
	b.shows("The backup has begun.")
	b.await("backup", "Restored to verify it")
	b.shows("ended", "true", "tokenserver.db", "secrets.toml", "OK at ", "0 minutes")
	b.submit("Verify backup " + b.page.all("tbody")[0].all("a")[0].String())
	b.shows("The verification has begun.")
	b.await("backup", "No damage was found.")
	link := b.page.all("tbody")[0].all("a")[0].attrs["href"]
	b.open(strings.TrimPrefix(link, "/console/"))
	command := b.page.all("pre")[0].String()
	b.viewer.open("backup")
	if b.viewer.form("Back up now") != nil {
		t.Error("a viewer can make a backup")
	}
	for moment, want := range map[string]int{"2020-01-01T00:00:00Z": http.StatusNotFound, "yesterday": http.StatusBadRequest} {
		if status := b.send(http.MethodGet, b.base+"/console/backup/show?backup="+moment, nil); status != want {
			t.Errorf("%s: %d", moment, status)
		}
	}
	restored := filepath.Join(t.TempDir(), "restored")
	args := strings.Fields(strings.NewReplacer("holdfast ", "", "'"+address+"/back'\\''up'", address+"/back'up", "./restored", restored).Replace(command))
	runCommand(t, nil, args...)
	if _, err := os.Stat(filepath.Join(restored, "buckets.db")); err != nil {
		t.Errorf("%s: %v", command, err)
	}
	b.await("restore-points", "Newest")
	b.shows("holdfast restore '"+address+"/replica' --time 20", "With an earlier --time")
	b.open("backup")
	b.shows(address+"/replica", "Restore points")
}
