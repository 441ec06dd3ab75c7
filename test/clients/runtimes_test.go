package clients

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestRuntimes runs TestTypeScript's runtime tests in Deno, Bun and two edge runtimes.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it installs 400 MB")
	node, npm := binary.Program(t, "node"), binary.Program(t, "npm")
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	c := newTypeScript(ctx, t)
	c.must(t, npm, "run", "build")
	// Deno and Bun need their packages' install scripts.
	c.must(t, npm, "ci", "--prefix", "runtimes", "--prefer-offline", "--no-audit", "--no-fund")
	c.serve(t)
	programs := filepath.Join(c.dir, "runtimes", "node_modules", ".bin")
	for name, command := range map[string][]string{
		"deno": {filepath.Join(programs, "deno"), "run", "--no-prompt", "--allow-env", "--allow-net", "--cached-only", "test/runtime.test.js"},
		"bun":  {filepath.Join(programs, "bun"), "--no-install", "test/runtime.test.js"},
		"edge": {node, "runtimes/edge.js"},
	} {
		t.Run(name, func(t *testing.T) {
			out := c.must(t, command[0], command[1:]...)
			for _, line := range map[string][]string{"edge": {"inWorkerd passed", "inEdgeRuntime passed"}}[name] {
				if !strings.Contains(out, line) {
					t.Errorf("no %q in:\n%s", line, out)
				}
			}
			if name != "edge" && !strings.Contains(out, "# fail 0") {
				t.Errorf("it has not passed:\n%s", out)
			}
		})
	}
}
