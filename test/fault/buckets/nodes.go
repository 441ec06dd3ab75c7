package buckets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/workload/buckets"
	"holdfast/test/fault/harness"
)

const bodyCopies = 2

// newBuckets returns a harness with buckets only. Bodies of all sizes are on three file nodes in two datacenters.
func newBuckets(t *testing.T, folders []string, data string, vars ...string) (*harness.Harness, *Workload) {
	t.Helper()
	if only := os.Getenv("FAULT_SERVICE"); only != "" && only != "buckets" {
		t.Skipf("set FAULT_SERVICE=buckets, or unset it: it selects %s", only)
	}
	b := NewWorkload(8)
	b.Sizes, b.Copies = buckets.Sizes{Large: true, Parts: true}, bodyCopies
	for i, id := range []string{"east:1", "east:2", "west:1"} {
		b.Nodes = append(b.Nodes, &Node{id, filepath.Join(folders[i], "node")})
	}
	s := Service()
	s.Workload = func(*testing.T, bool) harness.Workload { return b }
	h := harness.New(t, []harness.Service{s}, false, data, append(vars, "HOLDFAST_CONFIG="+b.Configuration(t))...)
	h.Enough = 30
	return h, b
}

func nodeFolders(t *testing.T) []string {
	t.Helper()
	return []string{t.TempDir(), t.TempDir(), t.TempDir()}
}

// Configuration writes a configuration file with the nodes.
func (b *Workload) Configuration(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast.toml")
	harness.Must(t, os.WriteFile(file, []byte(b.text()), 0o600))
	return file
}

func (b *Workload) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "[buckets]\ncopies = %d\n", b.Copies)
	for _, n := range b.Nodes {
		fmt.Fprintf(&text, "[buckets.nodes.%q]\nurl = \"file://%s\"\n", n.ID, n.Dir)
	}
	return text.String()
}

func (b *Workload) applies(h *harness.Harness) {
	b.rules = true
	h.Vars = append(h.Vars, "HOLDFAST_BUCKETS__SWEEP_INTERVAL=100ms")
}
