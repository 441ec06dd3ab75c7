package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// await opens a page until it contains a text.
func (b *browser) await(path, text string) {
	b.t.Helper()
	b.awaitPage(path, "no "+strconv.Quote(text), func() bool { return strings.Contains(b.page.String(), text) })
}

// awaitPage opens a page until it shows the end of something that the server does in the background, which gives a browser
// no signal. missing says what is wrong if it never does.
func (b *browser) awaitPage(path, missing string, isDone func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for b.open(path); !isDone(); b.open(path) {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s in\n%s", missing, b.page)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestConsoleBackups(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	address := "file://" + filepath.ToSlash(folder)
	b, _, _ := serveConsole(t, "HOLDFAST_BACKUP__URL="+address+"/back'up", "HOLDFAST_REPLICA__URL="+address+"/replica")
	b.open("backup")
	b.shows("No backup at backup.url is known", address+"/back'up")
	b.shows("By backup.keep, it replaces no backup.")
	b.submit("Back up now")
	b.shows("Backup started.")
	b.await("backup", "Restored to verify it")
	b.shows("By backup.keep, it replaces the backup of 20")
	b.await("backup", "OK at ") // a slow machine first shows an older list
	b.shows("ended", "true", "tokenserver.db", "secrets.toml", "OK at ", "0 minutes")
	b.submit("Verify backup " + b.page.all("tbody")[0].all("a")[0].String())
	b.shows("Verification started.")
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

// TestConsoleOffersWhatIsSet checks that no button fails because of missing configuration.
func TestConsoleOffersWhatIsSet(t *testing.T) {
	t.Parallel()
	b, _, _ := serveConsole(t)
	b.open("")
	pages, pressed := []string{""}, 0
	for i := 0; i < len(pages); i++ {
		page := pages[i]
		b.open(page)
		for _, nav := range b.page.all("nav") { // the menu and the tabs
			for _, a := range nav.all("a") {
				if path, ok := strings.CutPrefix(a.attrs["href"], "/console/"); ok && !strings.ContainsAny(path, "/?#") && !slices.Contains(pages, path) {
					pages = append(pages, path)
				}
			}
		}
		for _, f := range b.page.all("form") {
			to := f.attrs["action"]
			if f.attrs["method"] != "post" || strings.Contains(to, "sign-out") || strings.HasPrefix(to, "/console/sessions") {
				continue
			}
			pressed++
			if status := b.post(f, b.fill(f)); status == http.StatusNotFound {
				t.Errorf("%s: there is no %s", page, to)
			}
			b.hides("is not set", "is not configured")
			b.open(page)
		}
	}
	if len(pages) < 12 || pressed < 10 {
		t.Errorf("%d pages, %d buttons", len(pages), pressed)
	}
	for page, lines := range map[string][]string{
		"backup": {"/guide/backup", "Set backup.url to a folder", "[backup]", "schedule = "}, "restore-points": {"/guide/backup", "Set replica.url to a folder", "[replica]"},
		"alerts": {"/guide/monitoring", "Set alerts.url to a webhook", "[alerts]"},
	} {
		b.open(page)
		if b.shows(lines[1:]...); !strings.Contains(b.raw, `href="`+lines[0]) {
			t.Errorf("%s does not link to %s", page, lines[0])
		}
		b.hides("Back up now", "Send a test")
	}
}

// TestConsoleEncryptedBackups checks that a server with only the public key explains how to verify backups elsewhere.
func TestConsoleEncryptedBackups(t *testing.T) {
	t.Parallel()
	public := regexp.MustCompile(`age1\w+`).FindString(runCommand(t, nil, "backup", "key"))
	b, _, _ := serveConsole(t, "HOLDFAST_BACKUP__URL=file://"+filepath.ToSlash(t.TempDir())+"/backups", "HOLDFAST_BACKUP__RECIPIENTS="+public)
	b.open("backup")
	b.submit("Back up now")
	b.await("backup", "read back only: its key is not here")
	b.shows("This server knows only the backups", "/backups' --identity backup.key")
	if b.form("Verify") != nil {
		t.Error("there is a button that fails")
	}
	row := b.page.all("tbody")[0].all("tr")[0]
	for _, title := range []string{"Databases", "Sent", "Took"} {
		b.shows(title)
	}
	if text := row.String(); !strings.Contains(text, "KiB") {
		t.Errorf("no sizes in %q", text)
	}
	link := row.all("a")[0].attrs["href"]
	b.open(strings.TrimPrefix(link, "/console/"))
	b.shows("holdfast backup verify 'file://", " --identity backup.key --signed-by hfsig1", " --time 20")
}
