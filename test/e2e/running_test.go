package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// serverState is the output of holdfast status --json.
type serverState struct {
	Ready                        bool
	Process                      int
	Configuration, ReloadRefused string
	NeedRestart                  []string
	Listeners                    []struct{ Name, URL string }
	Services                     []struct {
		Name, State, Database, Engine string
		PendingMigrations             *int
	}
}

// TestStatusAndReload asks a running server for its state, and lets it read changed and invalid configurations.
func TestStatusAndReload(t *testing.T) {
	t.Parallel()
	data, config := t.TempDir(), filepath.Join(t.TempDir(), "holdfast.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	s := binary.Start(t, data, "HOLDFAST_CONFIG="+config)
	run := func(status int, typed ...string) (out string) {
		t.Helper()
		r := binary.Run(t, s.Env, typed...)
		if r.Status != status {
			t.Fatalf("%v: status %d, want %d\n%s%s", typed, r.Status, status, r.Stdout, r.Stderr)
		}
		return r.Stdout + r.Stderr
	}
	ask := func() (got serverState) {
		t.Helper()
		if out := run(0, "status", "--json"); json.Unmarshal([]byte(out), &got) != nil {
			t.Fatalf("status --json: %s", out)
		}
		return got
	}
	got := ask()
	if !got.Ready || got.Process != s.Cmd.Process.Pid || got.Configuration != config || len(got.Listeners) != 3 || got.Listeners[0].URL != s.URL || len(got.Services) != 5 {
		t.Errorf("%+v", got)
	}
	for _, of := range got.Services {
		switch {
		case of.Name == "guest" && of.State == "off" && of.PendingMigrations == nil:
		case of.State == "ready" && of.Engine == "sqlite" && strings.HasPrefix(of.Database, data) && *of.PendingMigrations == 0:
		default:
			t.Errorf("%+v", of)
		}
	}
	if out := run(0, "status"); !regexp.MustCompile(`(?m)^STATE +ready$`).MatchString(out) || !strings.Contains(out, "up to date") || !strings.Contains(out, s.URL) {
		t.Errorf("status: %s", out)
	}
	if out := run(0, "reload"); out != "the configuration has not changed\n" {
		t.Errorf("reload: %s", out)
	}
	write("[log]\nlevel = \"warn\"\n[server]\nidle_timeout = \"7m\"\n")
	if out := run(0, "reload"); out != "applied: log.level; these need a restart: server.idle_timeout\n" {
		t.Errorf("reload: %s", out)
	}
	if got := ask(); !slices.Equal(got.NeedRestart, []string{"server.idle_timeout"}) {
		t.Errorf("%+v", got)
	}
	// The commands cannot read a broken configuration themselves, so they get the former one.
	former := filepath.Join(t.TempDir(), "former.toml")
	if err := os.WriteFile(former, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write("[log]\nlevel = \"loud\"\n")
	if out := run(1, "reload", "--config", former); !strings.Contains(out, "nothing was applied: ") || !strings.Contains(out, config+":2: log.level: must be debug") {
		t.Errorf("reload: %s", out)
	}
	if out := run(0, "status", "--config", former); !regexp.MustCompile(`(?m)^RELOAD +refused: ` + regexp.QuoteMeta(config) + `:2: log\.level: must be debug`).MatchString(out) {
		t.Errorf("status: %s", out)
	}
	if out := run(0, "health", "--json", "--config", former); out != "{\"ready\":true}\n" {
		t.Errorf("health: %s", out)
	}
	if out := run(1, "status", "--config", former, "--data", t.TempDir()); !strings.Contains(out, "secrets.toml; name the server's data folder") {
		t.Errorf("status of another folder: %s", out)
	}
	s.Kill()
	if out := run(1, "status", "--config", former); !strings.Contains(out, "no Holdfast server answers on ") {
		t.Errorf("status after the end: %s", out)
	}
	if out := run(1, "health", "--json", "--config", former); !strings.HasPrefix(out, `{"ready":false,"reason":"no answer from `) {
		t.Errorf("health after the end: %s", out)
	}
}

// TestLogOfRefusedRequest finds a client's refused request, with the reason, in a server that logs no requests.
func TestLogOfRefusedRequest(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	resp, err := http.Get(s.URL + "/1.5/1/info/collections")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Fatal(resp.Status)
	}
	for _, c := range []struct {
		want, not string
		typed     []string
	}{
		{"STATUS", "", []string{"--status", "4xx"}},
		{" 401 ", "server is ready", []string{"--status", "401", "--service", "syncstorage"}},
		{`"status":401,"error":"`, "TIME", []string{"--status", "401", "--json"}},
		{"server is ready", " 401 ", []string{"--level", "info", "--service", "server"}},
		{"TIME", "401", []string{"--status", "5xx"}},
	} {
		r := binary.Run(t, s.Env, append([]string{"log"}, c.typed...)...)
		if r.Status != 0 || !strings.Contains(r.Stdout, c.want) || c.not != "" && strings.Contains(r.Stdout, c.not) {
			t.Errorf("log %q: status %d, want %q and not %q\n%s%s", c.typed, r.Status, c.want, c.not, r.Stdout, r.Stderr)
		}
	}
	if r := binary.Run(t, s.Env, "log", "--status", "40x"); r.Status != 2 || !strings.Contains(r.Stderr, "--status: expected an HTTP status or its class, e.g. 403 or 4xx") {
		t.Errorf("a bad status: %d\n%s", r.Status, r.Stderr)
	}
}

// TestAdminTokenStaysHere checks that commands do not send the admin token to another program on the server's port.
func TestAdminTokenStaysHere(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	s.Kill()
	asked := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Authorization")
	}))
	t.Cleanup(other.Close)
	for _, command := range []string{"status", "reload", "log"} {
		r := binary.Run(t, append(slices.Clone(s.Env), "HOLDFAST_SERVER__ADMIN_LISTEN="+host(t, other.URL)), command)
		if r.Status != 1 || !strings.Contains(r.Stderr, "no Holdfast server answers on ") {
			t.Errorf("%s: status %d\n%s%s", command, r.Status, r.Stdout, r.Stderr)
		}
	}
	close(asked)
	n := 0
	for request := range asked {
		if n++; request != "/__instance__ " {
			t.Errorf("another program got %q", request)
		}
	}
	if n == 0 {
		t.Error("the commands asked nobody")
	}
}
