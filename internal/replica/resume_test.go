package replica

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"holdfast/internal/testdb"
)

// TestResume checks that a restarted server continues its series and sends only differing pages. After a kill, or with
// an older copy of the data folder, a new series begins.
func TestResume(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	w := newWorld(t, t.TempDir(), nil)
	defer func() { w.close() }()
	w.must(w.exec("one.db", insert, 500, 3000))
	sync := func() Position {
		t.Helper()
		w.must(w.capture())
		w.must(w.ship())
		return w.r.newest().Files["one.db"]
	}
	first := sync()
	w.shutDown()
	copied := filepath.Join(w.root, "copied")
	w.must(os.CopyFS(copied, os.DirFS(w.folder)))

	w.open()
	w.must(w.exec("one.db", insert, 1, 10))
	w.must(w.capture())
	_, files := w.r.sources[0].pending()
	second := sync()
	if second.Run != first.Run || second.TXID <= first.TXID || len(files) != 1 || files[0].size > 100_000 {
		t.Errorf("it was at %+v and is at %+v, with %+v", first, second, files)
	}

	w.goBack(copied)
	w.must(w.r.capture(context.Background()))
	if err := w.r.ship(context.Background()); err != nil {
		t.Fatal(err)
	}
	back := sync()
	if back.Run == first.Run || back.TXID != 1 {
		t.Errorf("an older copy goes on at %+v", back)
	}

	w.kill()
	if killed := sync(); killed.Run == back.Run || killed.TXID != 1 {
		t.Errorf("a server that was killed goes on at %+v", killed)
	}

	w.shutDown()
	chain := filepath.Join(w.folder, "spool", "one.db", chainName)
	text, err := os.ReadFile(chain)
	w.must(err)
	text[len(text)/2] ^= 1
	w.must(os.WriteFile(chain, text, 0o600))
	w.open()
	if damaged := sync(); damaged.TXID != 1 {
		t.Errorf("a damaged chain goes on at %+v", damaged)
	}
}
