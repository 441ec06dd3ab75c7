package e2e

import (
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestLifecycle checks that a sweep applies lifecycle rules, and that commands show and run them.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), testdb.FreeAddress(t)
	vars := []string{"HOLDFAST_BUCKETS__LISTEN=" + listen, "HOLDFAST_BUCKETS__SWEEP_INTERVAL=0"}
	s := binary.Start(t, data, vars...)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/box", nil)
	for _, name := range []string{"a", "logs/1", "logs/2", "tmp/1"} {
		c.want(http.StatusOK, http.MethodPut, "/box/"+name, []byte("hello"))
	}
	rule := func(id, prefix, expiration string) string {
		return "<Rule><ID>" + id + "</ID><Filter><Prefix>" + prefix + "</Prefix></Filter><Status>Enabled</Status><Expiration>" + expiration + "</Expiration></Rule>"
	}
	c.want(http.StatusOK, http.MethodPut, "/box?lifecycle", []byte("<LifecycleConfiguration>"+
		rule("old", "logs/", "<Date>2020-01-01T00:00:00Z</Date>")+rule("young", "tmp/", "<Days>1</Days>")+"</LifecycleConfiguration>"))
	has := func(text string, all ...string) {
		t.Helper()
		for _, part := range all {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in\n%s", part, text)
			}
		}
	}
	has(s.Verb("buckets", "lifecycle", "show", "main", "box", "--json"), `"state":"no run yet"`, `"appliesTo":"names that begin with logs/","does":"deletes objects from 2020-01-01 on"`)
	has(s.Verb("sweep"), "expired bucket objects: 2\n")
	c.want(http.StatusNotFound, http.MethodGet, "/box/logs/1", nil)
	c.want(http.StatusOK, http.MethodGet, "/box/a", nil)
	c.want(http.StatusOK, http.MethodGet, "/box/tmp/1", nil)
	has(s.Verb("buckets", "lifecycle", "show", "main", "box", "--json"), `"state":"complete"`, `"objects":2,"bytes":10`)
	has(s.Verb("sweep"), "expired bucket objects: 0\n")

	c.want(http.StatusOK, http.MethodPut, "/box/logs/3", []byte("hello"))
	has(s.Verb("buckets", "lifecycle", "run", "main", "box"), "deleted 1 object (5 B) and aborted 0 uploads in bucket box")
	c.want(http.StatusNotFound, http.MethodGet, "/box/logs/3", nil)
}
