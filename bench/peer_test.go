package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// A peer is compared in the operations of Sync. Its CPU and memory are measured if its processes
// are given.
func TestPeer(t *testing.T) {
	t.Parallel()
	needSchedstat(t)
	testdb.SQLite(t)
	theirs := newSync()
	e := &engine{name: "sqlite"}
	peer, err := serve(t.Context(), binary.Path(), e, theirs.settings(e))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := peer.remove(); err != nil {
			t.Error(err)
		}
	})
	for name, pids := range map[string]string{"here": fmt.Sprint(peer.pid()), "elsewhere": ""} {
		path := filepath.Join(t.TempDir(), "performance.md")
		if err := os.WriteFile(path, []byte("<!-- bench: peer -->\nold\n<!-- bench: end of peer -->\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := parse([]string{
			"-binary", binary.Path(), "-peer", "http://" + peer.listen, "-peer-secret", theirs.secret, "-peer-pids", pids, "-out", path,
			"-engines", "sqlite", "-window", "20ms", "-runs", "1", "-connections", "2", "-works", "^PUT|^GET 100 ",
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), &o, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spent := ` \| [1-9][\d.]* \| – \| – \| – \| – \| – \| \d+ MB \| –`
		if pids != "" {
			spent = ` \| [1-9][\d.]* \| [1-9][\d.]* \| \*\*[\d.]+\*\* \| – \| – \| – \| \d+ MB \| \d+ MB`
		}
		for _, work := range []string{workPut, workPage} {
			row := regexp.MustCompile(`(?m)^\| ` + work + ` \| sqlite \| 2 \| [1-9][\d.]* \| [1-9][\d.]* \| \*\*[\d.]+\*\*( \| \d+\.\d\d ms){4}` + spent + ` \|$`)
			if !row.Match(text) {
				t.Errorf("%s: no row %s in:\n%s", name, row, text)
			}
		}
		if strings.Contains(string(text), theirs.secret) {
			t.Errorf("%s: the secret is in the document", name)
		}
	}
}

func TestPeerFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"need -peer":          {"-peer-secret", "s"},
		"needs -peer-secret":  {"-peer", "http://127.0.0.1:8001"},
		"expected an address": {"-peer", "https://127.0.0.1:8001", "-peer-secret", "s"},
	} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
