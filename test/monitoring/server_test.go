// Package monitoring compares the table of metrics, the dashboard and the alerting rules with the server's metrics.
package monitoring

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

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

var once struct {
	sync.Mutex
	text string
}

func exported(t *testing.T) string {
	t.Helper()
	once.Lock()
	defer once.Unlock()
	if once.text == "" {
		once.text = scrape(t)
	}
	return once.text
}

// served returns the exported metrics, and metrics that exist only on Spanner.
func served(t *testing.T) map[string]metric {
	t.Helper()
	metrics := parse(t, exported(t))
	for _, name := range onSpanner {
		if _, ok := metrics[name]; ok {
			t.Errorf("a server that is not on Spanner has %s", name)
		}
		metrics[name] = metric{kind: "counter", labels: []string{"statement"}}
	}
	return metrics
}

var onSpanner = []string{"holdfast_sync_spanner_mutations_total", "holdfast_sync_spanner_predicted_mutations_total"}

func TestMetricsOnSpanner(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Name(t)
	s := binary.Launch(t, t.TempDir(), "SPANNER_EMULATOR_HOST="+emulator, "HOLDFAST_SYNCSTORAGE__DATABASE_URL=spanner://"+database)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	s.Token(1, "--fxa-uid", "alice", "--fxa-kid", "1-qqo").Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"x"}`)
	text := s.AwaitAnswer("/metrics", func(status int, _ string) bool { return status == http.StatusOK })
	if !strings.Contains(text, `holdfast_sync_spanner_predicted_mutations_total{statement="sync.put"} 12`) {
		t.Error("the commit of one record was not predicted")
	}
	there := parse(t, text)
	var own []string
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if strings.HasPrefix(name, "holdfast_sync_spanner_") {
			own = append(own, name)
			if m := there[name]; m.kind != "counter" || !slices.Equal(m.labels, []string{"statement"}) {
				t.Errorf("%s is a %s of %v", name, m.kind, m.labels)
			}
		}
	}
	if !slices.Equal(own, onSpanner) {
		t.Errorf("a server on Spanner has %v", own)
	}
}

// scrape starts a server with a certificate, because certificates have a metric, and sends requests.
func scrape(t *testing.T) string {
	t.Helper()
	cert, key, client := binary.Certificate(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_REPLICA__URL=file://"+t.TempDir(),
		"HOLDFAST_BACKUP__URL=file://"+t.TempDir()+"/backups", "HOLDFAST_BACKUP__SCHEDULE=24h", "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key,
		"HOLDFAST_SYNCSTORAGE__SWEEP_INTERVAL=10ms", "HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t),
		"HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL=http://127.0.0.1:1/")
	s.Verb("backup", t.TempDir()+"/backup")
	c := s.Token(1)
	a, err := c.SendBy(t.Context(), client, "PUT", "/storage/tabs/x", `{"payload":"x"}`)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s %v", a.Status, a.Body, err)
	}
	useExtension(t, s, client)
	return s.AwaitAnswer("/metrics", func(_ int, body string) bool {
		for _, some := range []string{`holdfast_sweep_rounds_total{outcome="ok"`, `holdfast_buckets_node_bodies_total{`, `holdfast_outbox_delay_seconds_count{`, `holdfast_outbox_oldest_event_seconds{`, "\nholdfast_backup_verified_age_seconds "} {
			if !strings.Contains(body, some) {
				return false
			}
		}
		return true
	})
}

func useExtension(t *testing.T, s *binary.Server, client *http.Client) {
	t.Helper()
	const install = "7e000000-0000-4000-8000-000000000011"
	token := strings.TrimSpace(s.Verb("ext", "tokens", "create", "--tenant", "7e000000-0000-4000-8000-000000000001", "--install", install, "--namespace", "a=rw"))
	for key, status := range map[string]int{"k": http.StatusCreated, "k%2F": http.StatusBadRequest} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/ext/v1/installs/"+install+"/namespaces/a/records/"+key, strings.NewReader(`{"value":1}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != status {
			t.Fatalf("%s: %d %v", key, resp.StatusCode, err)
		}
	}
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
