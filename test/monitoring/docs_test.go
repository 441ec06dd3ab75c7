package monitoring

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	document  = "../../docs/monitoring.md"
	dashboard = "../../docs/monitoring/holdfast-dashboard.json"
	alerts    = "../../docs/monitoring/alerts.yml"
	proofs    = "../../docs/monitoring/alerts_test.yml"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ UID string }
	Targets     []struct{ RefID, Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var d struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, dashboard)), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 20 {
		t.Fatalf("%d panels", len(d.Panels))
	}
	return d.Panels
}

func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	ids := map[int]bool{}
	all := panels(t)
	for i, p := range all {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%q: the id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q: no title, no targets, or the data source %q", p.ID, p.Title, p.Datasource.UID)
		}
		a := p.GridPos
		for _, o := range all[:i] {
			b := o.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, o.Title)
			}
		}
	}
}

var (
	metricName  = regexp.MustCompile(`\b(?:holdfast|storage|ttl|process|go)_[a-z0-9_]+`)
	matchedName = regexp.MustCompile(`[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	groupedName = regexp.MustCompile(`\b(?:by|ignoring|on|without)\s*\(([^)]*)\)`)
)

func inDashboard(t *testing.T) (exprs string) {
	t.Helper()
	var d struct {
		Templating struct{ List []struct{ Query string } }
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &d); err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Templating.List {
		exprs += v.Query + "\n"
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			exprs += target.Expr + "\n"
		}
	}
	return exprs
}

// TestNamesExist checks that the server exports every metric and label in the dashboard and the rules.
func TestNamesExist(t *testing.T) {
	t.Parallel()
	server := served(t)
	labels := map[string]bool{"le": true, "job": true, "instance": true, "alertname": true, "alertstate": true} // Prometheus's own
	for _, m := range server {
		for _, l := range m.labels {
			labels[l] = true
		}
	}
	for what, text := range map[string]string{"dashboard": inDashboard(t), "rules": read(t, alerts), "proofs": read(t, proofs)} {
		names := metricName.FindAllString(text, -1)
		if len(names) < 10 {
			t.Errorf("%s: only %d names found", what, len(names))
		}
		for _, name := range names {
			if _, ok := server[family(name, server)]; !ok {
				t.Errorf("%s: no server has %s", what, name)
			}
		}
		for _, found := range matchedName.FindAllStringSubmatch(text, -1) {
			if !labels[found[1]] {
				t.Errorf("%s: no metric has the label %s", what, found[1])
			}
		}
		for _, found := range groupedName.FindAllStringSubmatch(text, -1) {
			for l := range strings.SplitSeq(found[1], ",") {
				if l = strings.TrimSpace(l); !labels[l] {
					t.Errorf("%s: no metric has the label %s", what, l)
				}
			}
		}
	}
	for name := range server {
		if own(name) && !strings.Contains(inDashboard(t), name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// TestEveryRuleIsProven checks that every rule has a test: promtool does not report untested rules.
func TestEveryRuleIsProven(t *testing.T) {
	t.Parallel()
	_, rules, _ := strings.Cut(read(t, alerts), "rules:\n")
	all := strings.Split(rules, "- alert: ")[1:]
	if len(all) < 10 {
		t.Fatalf("%d rules", len(all))
	}
	for _, rule := range all {
		name, body, _ := strings.Cut(rule, "\n")
		if !strings.Contains(read(t, proofs), `alertname="`+name+`"`) {
			t.Errorf("no proof of %s", name)
		}
		for _, part := range []string{"expr:", "severity:", "summary:", "runbook:"} {
			if !strings.Contains(body, part) {
				t.Errorf("%s has no %s", name, part)
			}
		}
	}
}

// own reports whether a metric is ours. Extension runtimes expect the prefixes storage_ and ttl_.
func own(name string) bool {
	return strings.HasPrefix(name, "holdfast_") || strings.HasPrefix(name, "storage_") || strings.HasPrefix(name, "ttl_")
}

// family returns a series' metric: a histogram has three series, a summary two more.
func family(series string, server map[string]metric) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok && (server[name].kind == "histogram" || server[name].kind == "summary") {
			return name
		}
	}
	return series
}

var row = regexp.MustCompile("(?m)^\\| `((?:holdfast|storage|ttl)_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\| (.+) \\|$")

// TestEveryMetricIsDocumented checks that the table and the server list the same metrics.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	server := served(t)
	documented := map[string]metric{}
	for _, r := range row.FindAllStringSubmatch(read(t, document), -1) {
		labels := strings.Fields(strings.ReplaceAll(r[3], "`", ""))
		if _, twice := documented[r[1]]; twice {
			t.Errorf("%s is in the table twice", r[1])
		}
		documented[r[1]] = metric{kind: r[2], labels: labels}
	}
	for name, m := range server {
		switch d, ok := documented[name]; {
		case !own(name):
		case !ok:
			t.Errorf("%s is not in the table", name)
		case d.kind != m.kind || !slices.Equal(d.labels, m.labels):
			t.Errorf("%s is a %s of %v, in the table a %s of %v", name, m.kind, m.labels, d.kind, d.labels)
		}
	}
	for name := range documented {
		if _, ok := server[name]; !ok {
			t.Errorf("%s is in the table and no server has it", name)
		}
	}
	reasons := map[string]bool{}
	_, list, _ := strings.Cut(read(t, document), "| `reason` |")
	for _, r := range regexp.MustCompile("(?m)^\\| `([a-zA-Z-]+)` \\|").FindAllStringSubmatch(list, -1) {
		reasons[r[1]] = true
	}
	if !maps.Equal(reasons, server["holdfast_refusals_total"].values["reason"]) {
		t.Errorf("reasons in the document %v, of the server %v", reasons, server["holdfast_refusals_total"].values["reason"])
	}
}
