package firefox

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestCopied checks that browsers continue after their server was copied from SQLite to PostgreSQL while a browser
// changed bookmarks. Refused changes arrive later, and nothing is uploaded twice.
func TestCopied(t *testing.T) {
	testdb.SoakOnly(t, "TestSync has shown that browsers sync; this one takes minutes")
	firefox, database := program(t), testdb.PostgresDatabase(t)
	h := startPair(t, firefox)
	crossing(t, h)
	h.folder = call[string](t, h.a, "addFolder", "Import", "http://127.0.0.1/import", many)
	h.a.sync(t)
	h.b.sync(t)
	h.b.wantImport(t, h.folder)
	h.a.sync(t) // downloads B's uploads
	endpoint := call[string](t, h.a, "endpoint")

	bookmarks := map[string]string{}
	add := func() outcome {
		t.Helper()
		title := fmt.Sprintf("Made during the copy: %d", len(bookmarks))
		bookmarks[call[string](t, h.a, "addBookmark", title, "http://127.0.0.1/during")] = title
		h.a.do(t, "endBackoff")
		return call[outcome](t, h.a, "sync")
	}
	copies, copied := copyServices(h.server.Env, database)
	for going := true; going; {
		t.Logf("a sync during the copy: %+v", add()) // refused near the end
		select {
		case <-copied:
			going = false
		default:
		}
	}
	if err := copies.Wait(); err != nil {
		t.Fatal(err)
	}
	mark := h.network.mark()
	if got := add(); got.Sync == "success.sync" {
		t.Errorf("a sync with the source of a complete copy: %+v", got)
	}
	if refused := h.network.since(mark, "A", http.MethodPost, "/storage/"); len(refused) == 0 || refused[0].status != http.StatusServiceUnavailable {
		t.Errorf("a write to the source of a complete copy: %v", refused)
	}

	h.server.Signal(syscall.SIGTERM)
	<-h.server.Ended
	next := binary.Launch(t, h.server.Data, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+h.accounts, "HOLDFAST_SERVER__LISTEN="+strings.TrimPrefix(h.server.URL, "http://"),
		"HOLDFAST_SYNCSTORAGE__DATABASE_URL="+database, "HOLDFAST_TOKENSERVER__DATABASE_URL="+database)
	next.Await("/readyz", http.StatusOK)

	mark = h.network.mark()
	h.a.do(t, "endBackoff")
	h.a.do(t, "forgetToken")
	h.a.sync(t)
	h.b.sync(t) // with its old token
	for guid, title := range bookmarks {
		h.b.wantBookmark(t, guid, title)
	}
	h.a.sync(t)
	h.wantUploads(t, mark, "A", 1) // one POST with at most 100 records
	h.wantUploads(t, mark, "B", 0)
	for _, b := range []*browser{h.a, h.b} {
		if got := call[string](t, b, "endpoint"); got != endpoint {
			t.Errorf("%s syncs with %s, want %s", b.name, got, endpoint)
		}
	}
	renaming(t, h)
	deleting(t, h)
	h.b.wantImport(t, h.folder)
}

// copyServices copies the services that browsers use to another database. The channel is closed once all data is copied.
func copyServices(env []string, to string) (*errgroup.Group, <-chan struct{}) {
	group, copied := &errgroup.Group{}, make(chan struct{})
	group.Go(func() error {
		defer close(copied)
		for _, service := range []string{"syncstorage", "tokenserver"} {
			cmd := exec.Command(binary.Path(), "copy", service, "--to", to)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), fmt.Sprintf("[%s]\ndatabase_url = %q\n", service, to)) {
				return fmt.Errorf("copy %s: %w\n%s", service, err, out)
			}
		}
		return nil
	})
	return group, copied
}

// wantUploads expects n writes from a browser since a mark, not counting its client record and tabs.
func (h *pair) wantUploads(t *testing.T, mark int, browser string, n int) {
	t.Helper()
	var all []exchange
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		for _, e := range h.network.since(mark, browser, method, "/storage/") {
			if !strings.Contains(e.url, "/storage/clients") && !strings.Contains(e.url, "/storage/tabs") {
				all = append(all, e)
			}
		}
	}
	if len(all) != n {
		t.Errorf("%s has uploaded: %v; want %d", browser, all, n)
	}
}
