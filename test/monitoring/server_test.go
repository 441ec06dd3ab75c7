// Package monitoring holds what operators watch a server with (the table of
// metrics, the dashboard, the alerting rules) against what a server exports.
package monitoring

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

// metric is what a server exports under a name.
type metric struct {
	kind   string
	labels []string // sorted
	values map[string]map[string]bool
}

var (
	typeLine = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	sample   = regexp.MustCompile(`^([a-z0-9_]+)(?:\{(.*)\})? \S+$`)
	label    = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

// once keeps what the first test that asked has scraped.
var once struct {
	sync.Mutex
	text string
}

// exported is what /metrics says after a server has done one of each.
func exported(t *testing.T) string {
	t.Helper()
	once.Lock()
	defer once.Unlock()
	if once.text == "" {
		once.text = scrape(t)
	}
	return once.text
}

// served are its metrics.
func served(t *testing.T) map[string]metric {
	t.Helper()
	return parse(t, exported(t))
}

// scrape starts a server, with a certificate because that has a metric, and
// lets it answer.
func scrape(t *testing.T) string {
	t.Helper()
	cert, key, client := binary.Certificate(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key,
		"HOLDFAST_SYNCSTORAGE__SWEEP_INTERVAL=10ms")
	c := s.Token(1)
	a, err := c.SendBy(t.Context(), client, "PUT", "/storage/tabs/x", `{"payload":"x"}`)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s %v", a.Status, a.Body, err)
	}
	return s.AwaitAnswer("/metrics", func(_ int, body string) bool {
		return strings.Contains(body, `holdfast_sweep_rounds_total{outcome="ok"`)
	})
}

func parse(t *testing.T, text string) map[string]metric {
	t.Helper()
	metrics := map[string]metric{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := typeLine.FindStringSubmatch(line); m != nil {
			metrics[m[1]] = metric{kind: m[2], values: map[string]map[string]bool{}}
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no sample: %s", line)
		}
		name := family(m[1], metrics)
		known, ok := metrics[name]
		if !ok {
			t.Fatalf("a sample without a type: %s", line)
		}
		known.labels = nil
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if l[1] == "le" {
				continue
			}
			known.labels = append(known.labels, l[1])
			if known.values[l[1]] == nil {
				known.values[l[1]] = map[string]bool{}
			}
			known.values[l[1]][l[2]] = true
		}
		slices.Sort(known.labels)
		metrics[name] = known
	}
	return metrics
}
