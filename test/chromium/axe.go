package chromium

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/binary"
)

//go:embed axe/package.json
var axePackage []byte

//go:embed axe/package-lock.json
var axeLock []byte

// Axe checks pages with axe-core: WCAG 2.2 A and AA, and best practices.
type Axe struct{ script string }

// NewAxe installs axe-core with npm.
func NewAxe(t *testing.T) *Axe {
	t.Helper()
	npm, dir := binary.Program(t, "npm"), t.TempDir()
	for name, text := range map[string][]byte{"package.json": axePackage, "package-lock.json": axeLock} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		binary.Absentf(t, "npm", "npm does not get axe-core; it needs its registry: %v\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return &Axe{string(script)}
}

// Violations returns the current problems of the page, one line per element.
func (a *Axe) Violations(t *testing.T, p *Page) []string {
	t.Helper()
	if !Run[bool](t, p, `return typeof axe === 'object'`) {
		p.conn.must(t, p.session, "Runtime.evaluate", map[string]any{"expression": a.script}, nil)
	}
	type violation struct {
		ID, Help string
		Nodes    []struct{ HTML string }
	}
	var all []string
	for _, v := range Run[[]violation](t, p, `return (await axe.run(document, { resultTypes: ['violations'] })).violations
		.map(v => ({ ID: v.id, Help: v.help, Nodes: v.nodes.map(n => ({ HTML: n.html })) }))`) {
		for _, n := range v.Nodes {
			all = append(all, fmt.Sprintf("%s (%s): %s", v.ID, v.Help, strings.Join(strings.Fields(n.HTML), " ")))
		}
	}
	return all
}
