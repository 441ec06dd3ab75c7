package monitoring

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/binary"
)

func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary.Program(t, "promtool"), args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", alerts)
	promtool(t, "test", "rules", proofs)
}

func TestMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), binary.Program(t, "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(exported(t))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDashboardExpressions parses each expression as a recording rule, with Grafana's variables replaced.
func TestDashboardExpressions(t *testing.T) {
	t.Parallel()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			rules = append(rules, rule{"panel", strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=none", path)
}
