package e2e

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestBucketsCopy moves a server's metadata to PostgreSQL and leaves the bodies in place. Audits on the source, or on
// a target with a partial copy, must not remove bodies that only the other database references.
func TestBucketsCopy(t *testing.T) {
	t.Parallel()
	url, disks, data := testdb.PostgresDatabase(t), t.TempDir(), t.TempDir()
	s := binary.Start(t, data, bucketsOn(t, "sqlite:"+filepath.Join(data, "buckets.db"), disks)...)
	c := newS3(t, s, s.S3URL())
	large := bytes.Repeat([]byte("large"), 10_000)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	for _, name := range []string{"/photos/large", "/photos/changed", "/photos/deleted"} {
		c.want(http.StatusOK, http.MethodPut, name, large)
	}
	c.want(http.StatusOK, http.MethodPut, "/photos/small", []byte("small"))
	c.want(http.StatusNoContent, http.MethodDelete, "/photos/deleted", nil)

	if out := s.Verb("copy", "buckets", "--to", url); !strings.Contains(out, "[buckets]\ndatabase_url = ") {
		t.Errorf("copy: %s", out)
	}
	if got := string(c.want(http.StatusServiceUnavailable, http.MethodPut, "/photos/small", []byte("x"))); !strings.Contains(got, "<Code>ServiceUnavailable</Code>") {
		t.Errorf("a write to the source: %s", got)
	}
	c.want(http.StatusOK, http.MethodGet, "/photos/large", nil)

	target := binary.Start(t, t.TempDir(), bucketsOn(t, url, disks)...)
	d := c.at(target.S3URL())
	d.want(http.StatusOK, http.MethodPut, "/photos/changed", large)
	d.want(http.StatusOK, http.MethodPut, "/photos/new", large)
	refused := func(s *binary.Server, want string, args ...string) {
		t.Helper()
		if r := binary.Run(t, s.Env, args...); r.Status != 1 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%v: status %d, %s; want %q", args, r.Status, r.Stderr, want)
		}
	}
	refused(s, "buckets are read-only", "buckets", "audits", "run", "--repair")
	refused(s, "buckets are read-only", "buckets", "nodes", "drain", "east:1", "--fewer-copies")
	for _, name := range []string{"/photos/large", "/photos/changed", "/photos/new"} {
		if got := d.want(http.StatusOK, http.MethodGet, name, nil); !bytes.Equal(got, large) {
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
	if got := string(d.want(http.StatusOK, http.MethodGet, "/photos/small", nil)); got != "small" {
		t.Errorf("small: %s", got)
	}
	if r := binary.Run(t, target.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
		t.Errorf("audit: %+v", r)
	}
	testdb.Script(t, url, `UPDATE copy_state SET state = '{"id":"x","target":true}'`)
	refused(target, "only part of a copy", "buckets", "audits", "run", "--repair")
	refused(target, "only part of a copy", "sweep")
}
