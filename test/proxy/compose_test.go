package proxy

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompose runs the server with the settings of compose.yaml behind its Caddyfile, and checks that the files it
// names exist.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	compose := string(text)
	var vars []string
	for _, m := range regexp.MustCompile(`(?m)^      (HOLDFAST_\w+): (.*)$`).FindAllStringSubmatch(compose, -1) {
		vars = append(vars, m[1]+"="+regexp.MustCompile(`\$\{DOMAIN[^}]*\}`).ReplaceAllString(m[2], "example.org"))
	}
	if len(vars) != 2 {
		t.Fatalf("settings %v", vars)
	}
	for _, pattern := range []string{`dockerfile: \.\./(\S+)`, `- \./([^:]+):/etc/caddy/Caddyfile:ro`} {
		m := regexp.MustCompile(pattern).FindStringSubmatch(compose)
		if m == nil {
			t.Fatalf("no %s in compose.yaml", pattern)
		}
		if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
			t.Error(err)
		}
	}

	// In compose.yaml the server trusts Caddy's address in the compose network, which is different here.
	for i := range vars {
		vars[i] = strings.Replace(vars[i], "TRUSTED_PROXIES=", "TRUSTED_PROXIES=127.0.0.0/8,", 1)
	}
	vars = append(vars, "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+accounts(t))
	s := proxy{name: "compose", away: http.StatusBadGateway, start: startCompose}.build(t, "https://example.org", nil, vars...)
	signsIn(t, s, 2)
	anyID(t, s)
	preconditions(t, s)
	largeBodies(t, s)
	refusedBodies(t, s)
	spoofs(t, s)
}
