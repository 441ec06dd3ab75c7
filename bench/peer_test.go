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

// TestPeer compares a peer's Sync operations, and measures its CPU and memory if its processes are given.
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

// TestS3Peers compares buckets with each S3 server built by `make bench-peers-s3`, using the same works. No server may
// refuse a request.
func TestS3Peers(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes half a minute for each server")
	needSchedstat(t)
	testdb.SQLite(t)
	for _, name := range []string{"minio", "versitygw"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := filepath.Glob("../bin/" + name + "-v*")
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 {
				t.Skipf("no %s in bin: make bench-peers-s3 builds it", name)
			}
			o, err := parse([]string{"-binary", binary.Path(), "-" + name, found[len(found)-1], "-engines", "sqlite", "-window", "20ms", "-runs", "1", "-connections", "1,4"})
			if err != nil {
				t.Fatal(err)
			}
			*o.size = size{reads: 40, large: 2 << 20, listKeys: 2000, deletes: 20}
			var terminal bytes.Buffer
			if err := run(t.Context(), &o, &terminal); err != nil {
				t.Fatalf("%v\n%s", err, &terminal)
			}
			for _, op := range o.service("buckets").operations() {
				row := regexp.MustCompile(`(?m)^\| ` + op.name + ` \| sqlite \| [14]( \| [1-9][\d.]*){2} \| \*\*[\d.]+\*\*( \| \d+\.\d\d ms){4} \| [1-9].* \| \d+ MB \| \d+ MB \|$`)
				if n := len(row.FindAllString(terminal.String(), -1)); n != 2 {
					t.Errorf("%s: %d rows, want 2, in:\n%s", op.name, n, &terminal)
				}
			}
		})
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
