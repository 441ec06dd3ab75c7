package firefox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func crossing(t *testing.T, h *pair) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>A page</title>")
	}))
	defer site.Close()
	page := site.URL + "/page"

	bookmark := call[string](t, h.a, "addBookmark", "Made on A", "http://127.0.0.1/made")
	h.a.do(t, "addLogin", "http://127.0.0.1", "somebody", "correct horse")
	h.a.do(t, "visit", page)
	h.a.sync(t)
	h.b.sync(t)

	h.b.wantBookmark(t, bookmark, "Made on A")
	if got := call[[]login](t, h.b, "logins", "http://127.0.0.1"); !slices.Equal(got, []login{{"somebody", "correct horse"}}) {
		t.Errorf("passwords on B: %v", got)
	}
	if got := call[int](t, h.b, "visits", page); got != 1 {
		t.Errorf("visits of %s on B: %d, want 1", page, got)
	}
	if got := call[[]string](t, h.b, "siblingTabs"); !slices.Contains(got, page) {
		t.Errorf("open on B's siblings: %v, want %s among them", got, page)
	}
}

type login struct{ Username, Password string }

func renaming(t *testing.T, h *pair) {
	bookmark := call[string](t, h.a, "addBookmark", "To rename", "http://127.0.0.1/rename")
	h.a.sync(t)
	h.b.sync(t)
	h.b.do(t, "renameBookmark", bookmark, "Renamed on B ☃")
	h.b.sync(t)
	h.a.sync(t)
	h.a.wantBookmark(t, bookmark, "Renamed on B ☃")
}

func deleting(t *testing.T, h *pair) {
	bookmark := call[string](t, h.a, "addBookmark", "To delete", "http://127.0.0.1/delete")
	h.a.sync(t)
	h.b.sync(t)
	h.b.wantBookmark(t, bookmark, "To delete")
	h.a.do(t, "removeBookmark", bookmark)
	h.a.sync(t)
	h.b.sync(t)
	h.b.wantBookmark(t, bookmark, "")
}

// wantBookmark expects a bookmark's title; "" expects no bookmark.
func (b *browser) wantBookmark(t *testing.T, guid, title string) {
	t.Helper()
	if got := call[string](t, b, "bookmark", guid); got != title {
		t.Errorf("bookmark on %s: %q, want %q", b.name, got, title)
	}
}

// many exceeds a download page (1,000) and a POST (100).
const many = 2000

func importing(t *testing.T, h *pair) {
	mark := h.network.mark()
	h.folder = call[string](t, h.a, "addFolder", "Import", "http://127.0.0.1/import", many)
	h.a.sync(t)
	h.b.sync(t)

	posts := h.network.since(mark, "A", http.MethodPost, "/storage/bookmarks?")
	if len(posts) < many/100 {
		t.Fatalf("%d bookmarks took %d POSTs: %v", many, len(posts), posts)
	}
	last := len(posts) - 1
	for i, post := range posts {
		want := exchange{browser: "A", method: http.MethodPost, url: post.url, status: http.StatusAccepted}
		if i == last {
			want.status = http.StatusOK
		}
		if commits := strings.Contains(post.url, "commit=true"); post != want || commits != (i == last) {
			t.Errorf("POST %d of %d: %v, want status %d", i+1, len(posts), post, want.status)
		}
	}
	if pages := h.network.since(mark, "B", http.MethodGet, "&offset="); len(pages) < many/1000 {
		t.Errorf("B read on after a page %d times: %v", len(pages), pages)
	}
	h.b.wantImport(t, h.folder)
}

func (b *browser) wantImport(t *testing.T, folder string) {
	t.Helper()
	want := make([]string, many)
	for i := range want {
		want[i] = fmt.Sprintf("Import %d", i)
	}
	if got := call[[]string](t, b, "folder", folder); !slices.Equal(got, want) {
		t.Errorf("imported folder on %s: %d bookmarks, want %d in their order", b.name, len(got), many)
	}
}

// wiping wipes the server from B: A notices the empty storage and uploads its data, and B, emptied as well, downloads
// all of it.
func wiping(t *testing.T, h *pair) {
	h.b.do(t, "wipeServer")
	if got := call[map[string]int](t, h.a, "counts"); len(got) != 0 {
		t.Fatalf("after the wipe the server still holds %v", got)
	}
	h.a.sync(t)
	if got := call[map[string]int](t, h.a, "counts"); got["bookmarks"] <= many || got["passwords"] != 1 {
		t.Fatalf("after A's sync the server holds %v", got)
	}
	h.b.sync(t)
	h.b.do(t, "wipeBookmarks")
	if got := call[[]string](t, h.b, "folder", h.folder); len(got) != 0 {
		t.Fatalf("after its own wipe B still has %d bookmarks", len(got))
	}
	h.b.sync(t)
	h.b.wantImport(t, h.folder)
}

// resettingPassword changes the account's password. B gets it first: its new key leads to a new uid with empty storage,
// which it fills. From then on the old key and the old token must fail, so A is refused until its user signs in again.
func resettingPassword(t *testing.T, h *pair) {
	old := call[string](t, h.b, "endpoint")
	h.account.ResetPassword()

	h.b.signIn(t, h.account)
	h.b.sync(t)
	moved := call[string](t, h.b, "endpoint")
	if moved == old {
		t.Fatalf("with a new key B still syncs with %s", old)
	}

	mark := h.network.mark()
	h.a.do(t, "forgetToken")
	if got := call[outcome](t, h.a, "sync"); got.Login != "error.login.reason.account" {
		t.Errorf("A synced with the old password: %+v", got)
	}
	asked := h.network.since(mark, "A", http.MethodGet, "/1.0/sync/1.5")
	if len(asked) != 1 || asked[0].status != http.StatusUnauthorized {
		t.Errorf("A asked for storage with the old password: %v", asked)
	}

	h.a.signIn(t, h.account)
	bookmark := call[string](t, h.a, "addBookmark", "After the reset", "http://127.0.0.1/after")
	h.a.sync(t)
	if got := call[string](t, h.a, "endpoint"); got != moved {
		t.Errorf("A syncs with %s, B with %s", got, moved)
	}
	h.b.sync(t)
	h.b.wantBookmark(t, bookmark, "After the reset")
	h.a.wantImport(t, h.folder)
}
