package e2e

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"holdfast/test/binary"
)

// TestSweepSaysWhy: a sweep that removes nothing says why, and an audit says how many
// young files it has skipped.
func TestSweepSaysWhy(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), binary.FreePort(t)
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
	want(s.Verb("sweep"), `deleted objects of buckets: 0\n  left: 1 deleted object: 1 deleted less than 24h0m0s ago \(buckets.garbage_after\), the first of them removed after 20`)

	files := bodiesIn(t, filepath.Join(data, "buckets"))
	if err := os.WriteFile(files[0]+"0", []byte("of a write that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(s.Verb("buckets", "audit"), `findings +none\nskipped +1 file that no row names, because younger than 24h0m0s`)
}
