package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

func bodiesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != dir {
			return nil
		}
		if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// killed runs a command and kills it when ready returns true, if it is still running.
func killed(t *testing.T, s *binary.Server, ready func() bool, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary.Path(), args...)
	cmd.Env = s.Env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	for !ready() {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	<-ended
}

// damage corrupts one body, removes another, and adds a body without a row.
func damage(t *testing.T, files []string) {
	t.Helper()
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text[1] ^= 4
	stray := filepath.Join(filepath.Dir(files[0]), "00000000-0000-4000-8000-000000000000,00000000000000000000000000000000")
	old := time.Now().Add(-25 * time.Hour)
	err = errors.Join(os.WriteFile(files[0], text, 0o600), os.Remove(files[1]), os.WriteFile(stray, text, 0o600), os.Chtimes(stray, old, old))
	if err != nil {
		t.Fatal(err)
	}
}

// TestBucketsNodes adds storage nodes to a running server, drains a node with a killed command, and repairs damage on the
// others. All objects stay readable.
func TestBucketsNodes(t *testing.T) {
	t.Parallel()
	data, disks, listen := t.TempDir(), t.TempDir(), testdb.FreeAddress(t)
	s := binary.Start(t, data, "HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN="+listen)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/box", nil)
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 20_000+i) }
	const objects = 60
	check := func(what string) {
		t.Helper()
		for i := range objects {
			if got := c.want(http.StatusOK, http.MethodGet, fmt.Sprintf("/box/o%d", i), nil); !bytes.Equal(got, body(i)) {
				t.Fatalf("%s: object %d has %d bytes", what, i, len(got))
			}
		}
	}
	for i := range objects {
		c.want(http.StatusOK, http.MethodPut, fmt.Sprintf("/box/o%d", i), body(i))
	}
	verb := func(args ...string) string { return s.Verb(append([]string{"buckets"}, args...)...) }
	for _, id := range []string{"east:1", "east:2", "west:1"} {
		verb("nodes", "add", id, "file://"+filepath.Join(disks, id))
	}
	if r := binary.Run(t, s.Env, "buckets", "nodes", "add", "west:2", "file://"+filepath.Join(disks, "west:1")); r.Status != 1 || !strings.Contains(r.Stderr, "west:1") {
		t.Errorf("two nodes in one folder: %+v", r)
	}
	r := binary.Run(t, s.Env, "buckets", "audits", "run")
	if r.Status != 1 || !regexp.MustCompile(`few-copies +left +- +main/box/o\d+ \(body [0-9a-f-]{36}\)`).MatchString(r.Stdout) || !strings.Contains(r.Stdout, "40 more") {
		t.Errorf("bodies with one copy and four nodes: %+v", r)
	}
	verb("audits", "run", "--repair")
	check("with two copies")

	local := filepath.Join(data, "buckets")
	drain := []string{"buckets", "nodes", "drain", "local:1"}
	killed(t, s, func() bool { return len(bodiesIn(t, local)) < objects-5 }, drain...)
	check("after the drain was killed")
	if out := s.Verb(drain...); !strings.Contains(out, "storage node local:1 is removed") {
		t.Errorf("drain: %s", out)
	}
	if left := bodiesIn(t, local); len(left) > 8 { // the first drain was killed while it moved bodies
		t.Errorf("left on the node: %v", left)
	}
	check("after the drain")
	list := verb("nodes", "list", "--bodies")
	if strings.Contains(list, "local:1") || strings.Count(list, "active") != 3 {
		t.Errorf("nodes: %s", list)
	}

	damage(t, bodiesIn(t, filepath.Join(disks, "west:1")))
	audit := []string{"buckets", "audits", "run", "--verify", "--json"}
	killed(t, s, func() bool {
		_, err := os.Stat(filepath.Join(data, "buckets-maintenance", "work", "audit.json"))
		return err == nil
	}, audit...)
	r = binary.Run(t, s.Env, audit...)
	for _, problem := range []string{"corrupt", "missing", "unreferenced"} {
		if strings.Count(r.Stdout, `{"problem":"`+problem+`","node":"west:1"`) != 1 {
			t.Errorf("%s was not found exactly once", problem)
		}
	}
	if r.Status != 1 || !strings.Contains(r.Stdout, `"left":3`) || strings.Count(r.Stdout, `"account_name":"main","bucket_name":"box"`) != 2 {
		t.Errorf("audit: %+v", r)
	}
	verb("audits", "run", "--verify", "--repair")
	if out := verb("audits", "run", "--verify"); !strings.Contains(out, "none") {
		t.Errorf("after the repair: %s", out)
	}
	check("after the repair")
	if r := binary.Run(t, s.Env, "buckets", "audits", "run", "--grace", "1m"); r.Status != 2 {
		t.Errorf("grace of a minute: %+v", r)
	}
	if r := binary.Run(t, s.Env, "buckets", "nodes", "drain", "local:1"); r.Status != 1 {
		t.Errorf("drain of a removed node: %+v", r)
	}
}

// TestBucketsDrainOfTwo drains one of two nodes. During the drain, new bodies get one copy by default. The drain gives
// up copies without a place only if the operator agrees.
func TestBucketsDrainOfTwo(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), testdb.FreeAddress(t)
	s := binary.Start(t, data, "HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN="+listen)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/box", nil)
	disk := filepath.Join(t.TempDir(), "disk")
	s.Verb("buckets", "nodes", "add", "east:1", "file://"+disk)
	s.AwaitMetric(`holdfast_buckets_node_active{node="east:1"} 1`)
	body := bytes.Repeat([]byte("two"), 10_000)
	c.want(http.StatusOK, http.MethodPut, "/box/before", body)
	if n := len(bodiesIn(t, disk)); n != 1 {
		t.Fatalf("%d copies on the second of two nodes", n)
	}
	r := binary.Run(t, s.Env, "buckets", "nodes", "drain", "local:1")
	if r.Status != 1 || !strings.Contains(r.Stderr, "--fewer-copies") {
		t.Errorf("drain of one of two nodes: %+v", r)
	}
	s.AwaitMetric(`holdfast_buckets_node_active{node="local:1"} 0`)
	c.want(http.StatusOK, http.MethodPut, "/box/while", body)
	s.Await("/readyz", http.StatusOK)
	s.Verb("buckets", "nodes", "drain", "local:1", "--fewer-copies")
	for _, key := range []string{"before", "while"} {
		if got := c.want(http.StatusOK, http.MethodGet, "/box/"+key, nil); !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes", key, len(got))
		}
	}
}
