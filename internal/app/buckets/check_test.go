package buckets

import (
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// TestNewNode follows the guide's order for PostgreSQL (migrate, check, serve): a node in a missing data folder passes
// the check. A node in another missing folder does not.
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

func TestRemovedNode(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	if err := s.nodes.service.SetNode(t.Context(), buckets.Node{ID: localNode, URL: "file://" + filepath.ToSlash(t.TempDir()), State: buckets.NodeRemoved, Added: 1}); err != nil {
		t.Fatal(err)
	}
	about := func() (all []service.Finding) {
		found, err := s.inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if strings.HasPrefix(f.Says, localNode+", ") || strings.HasPrefix(f.Says, "0 of ") {
				all = append(all, f)
			}
		}
		return all
	}
	if err := s.nodes.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := about(); len(all) != 1 || all[0].State != service.Wrong || !strings.HasPrefix(all[0].Says, "0 of 0 active nodes") {
		t.Errorf("without another node: %+v", all)
	}
	s.cfg.Nodes = map[string]buckets.NodeConfig{localNode: {URL: "file://" + filepath.ToSlash(t.TempDir())}}
	if all := about(); len(all) != 2 || all[0].State != service.Warning || !strings.Contains(all[0].Says, "was removed") {
		t.Errorf("a configured node: %+v", all)
	}
}
