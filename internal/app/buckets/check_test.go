package buckets

import (
	"path/filepath"
	"testing"

	"holdfast/internal/app/service"
)

// TestNewNode: a node in a data folder that does not exist yet is no reason for a check to fail, as in
// the order of the guide for PostgreSQL (migrate, check, serve); one in another folder is.
func TestNewNode(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "holdfast-data")
	for _, tc := range []struct {
		folder, data string
		state        service.State
	}{
		{filepath.Join(missing, "buckets"), missing, service.OK},
		{filepath.Join(missing, "buckets"), "", service.Wrong},
		{filepath.Join(missing, "disk", "buckets"), missing, service.Wrong},
		{filepath.Join(t.TempDir(), "buckets"), missing, service.OK},
	} {
		if f := inspectNew(localNode, "file://"+tc.folder, tc.data); f.State != tc.state {
			t.Errorf("%s in %s: %+v, want %s", tc.folder, tc.data, f, tc.state)
		}
	}
	s := &Buckets{deps: &service.Deps{Data: missing}}
	if got := s.missingData(); got != missing {
		t.Errorf("the missing data folder is %q", got)
	}
	if s.deps.Data = t.TempDir(); s.missingData() != "" {
		t.Errorf("an existing data folder is missing")
	}
}
