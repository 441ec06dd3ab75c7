package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestSweepSaysWhy checks that a sweep without results gives the reason, and that an audit counts the recent files
// that it skips.
func TestSweepSaysWhy(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), testdb.FreeAddress(t)
	s := binary.Start(t, data, "HOLDFAST_BUCKETS__LISTEN="+listen)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/box", nil)
	c.want(http.StatusOK, http.MethodPut, "/box/a", bytes.Repeat([]byte("a"), 20_000))
	want := func(text, re string) {
		t.Helper()
		if !regexp.MustCompile(re).MatchString(text) {
			t.Errorf("output:\n%s\nwant %s", text, re)
		}
	}
	if out := s.Verb("sweep"); regexp.MustCompile("left:").MatchString(out) {
		t.Errorf("a sweep without garbage: %s", out)
	}
	c.want(http.StatusNoContent, http.MethodDelete, "/box/a", nil)
	want(s.Verb("sweep"), `deleted bucket objects: 0\n  left: 1 deleted object: 1 deleted less than 24h0m0s ago \(buckets.garbage_after\), the first due 20`)

	files := bodiesIn(t, filepath.Join(data, "buckets"))
	if err := os.WriteFile(files[0]+"0", []byte("of a write that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(s.Verb("buckets", "audits", "run"), `findings +none\nskipped +1 file without a row, younger than 24h0m0s`)
}

// endless is a request body that blocks after its beginning.
type endless struct {
	begin io.Reader
	ctx   context.Context
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.begin.Read(p); n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	<-e.ctx.Done()
	return 0, e.ctx.Err()
}

func allFiles(t *testing.T, dir string, keep func(name string) bool) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != dir {
			return nil
		}
		if err == nil && !e.IsDir() && keep(e.Name()) {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLeftoversOfKill kills a server during writes. The next start must remove temporary files, and the scrubber must
// later remove bodies without a row. A server that stops normally removes its registration.
func TestLeftoversOfKill(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), testdb.FreeAddress(t)
	nodes := filepath.Join(data, "buckets")
	vars := []string{"HOLDFAST_BUCKETS__LISTEN=" + listen, "HOLDFAST_BUCKETS__SCRUB_INTERVAL=1m"}
	s := binary.Start(t, data, vars...)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/box", nil)
	c.want(http.StatusOK, http.MethodPut, "/box/kept", bytes.Repeat([]byte("k"), 50_000))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, c.URL+"/box/cut", &endless{bytes.NewReader(make([]byte, 4<<20)), ctx})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = 64 << 20
	c.Sign(r, "UNSIGNED-PAYLOAD", time.Now())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if a, err := http.DefaultClient.Do(r); err == nil {
			_ = a.Body.Close()
		}
	}()
	temporary := func() []string {
		return allFiles(t, nodes, func(name string) bool { return strings.HasPrefix(name, ".tmp-") })
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for start := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > binary.Bound {
				t.Fatalf("%s: not within %s", what, binary.Bound)
			}
		}
	}
	await("a temporary file", func() bool { return len(temporary()) > 0 })
	s.Kill()
	cancel()
	<-ended
	if len(temporary()) == 0 {
		t.Fatal("the killed server left no temporary file")
	}
	body := bodiesIn(t, nodes)[0]
	stray, old := body+"0", time.Now().Add(-25*time.Hour)
	if err := errors.Join(os.WriteFile(stray, []byte("of a write that was killed"), 0o600), os.Chtimes(stray, old, old)); err != nil {
		t.Fatal(err)
	}

	binary.Start(t, data, vars...)
	await("the removal of temporary files", func() bool { return len(temporary()) == 0 })
	await("the removal of a body without a row", func() bool { return len(bodiesIn(t, nodes)) == 1 })
	c.want(http.StatusOK, http.MethodGet, "/box/kept", nil)
}
