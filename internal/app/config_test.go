package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/guest"
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

func section[C service.Config](t *testing.T, cfg *Config) C {
	t.Helper()
	for _, s := range cfg.Services {
		if c, ok := s.Config.(C); ok {
			return c
		}
	}
	panic("no service has such a section")
}

func TestReferenceServersNames(t *testing.T) {
	t.Parallel()
	cfg, report, err := Load(Services(), "", []string{
		"SYNC_MASTER_SECRET=secret0",
		"SYNC_HOST=0.0.0.0",
		"SYNC_PORT=5000",
		"SYNC_SYNCSTORAGE__DATABASE_URL=postgres://sync@db/sync",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_MAX_SIZE=42",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_CONNECTION_TIMEOUT=7",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_CONNECTION_LIFESPAN=3600",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_CONNECTION_MAX_IDLE=60",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_SWEEPER_TASK_INTERVAL=30",
		"SYNC_SYNCSTORAGE__ENABLE_QUOTA=1",
		"SYNC_SYNCSTORAGE__ENFORCE_QUOTA=true",
		"SYNC_SYNCSTORAGE__LIMITS__MAX_TOTAL_RECORDS=1664",
		"SYNC_SYNCSTORAGE__LIMITS__MAX_QUOTA_LIMIT=1000000",
		"SYNC_TOKENSERVER__DATABASE_URL=postgres://sync@db/token",
		"SYNC_TOKENSERVER__ENABLED=true",
		"SYNC_TOKENSERVER__RUN_MIGRATIONS=true",
		"SYNC_TOKENSERVER__FXA_EMAIL_DOMAIN=api.accounts.example",
		"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=https://oauth.example",
		"SYNC_TOKENSERVER__FXA_METRICS_HASH_SECRET=hash",
		"SYNC_TOKENSERVER__INIT_NODE_URL=https://sync.example",
		"SYNC_TOKENSERVER__INIT_NODE_CAPACITY=10",
		"SYNC_TOKENSERVER__NODE_TYPE=postgres",
		"SYNC_TOKENSERVER__ALLOW_NEW_USERS=false",
		"SYNC_TOKENSERVER__TOKEN_DURATION=600",
		"SYNC_HUMAN_LOGS=1",
		"SYNC_ENVIRONMENT=production",
		"SYNC_CORS_ALLOWED_ORIGIN=*",
		"SYNC_SYNCSTORAGE__GCS_PAYLOAD_BUCKET=b",
		"SYNC_SYNCSTORAGE__LBHEARTBEAT_TTL=60",
		"SYNC_TOKENSERVER__FXA_BROWSERID_AUDIENCE=a",
		"SYNC_SOMETHING_ELSE=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	s, k := section[*syncstorage.Config](t, cfg), section[*tokenserver.Config](t, cfg)
	for name, ok := range map[string]bool{
		"master secret": cfg.Server.MasterSecret.Reveal() == "secret0",
		"listen":        cfg.Server.Listen == "0.0.0.0:5000",
		"storage url":   s.DatabaseURL == "postgres://sync@db/sync",
		"pool":          s.PoolMaxSize == 42 && s.PoolConnectionTimeout == 7*time.Second && s.PoolLifespan == time.Hour && s.PoolMaxIdle == time.Minute,
		"quota":         s.EnableQuota && s.EnforceQuota && s.Limits.MaxQuotaLimit == 1000000,
		"total records": s.Limits.MaxTotalRecords == 1664,
		"token url":     k.DatabaseURL == "postgres://sync@db/token" && k.RunMigrations,
		"accounts":      k.FxAEmailDomain == "api.accounts.example" && k.FxAOAuthServerURL == "https://oauth.example" && k.FxAMetricsHashSecret == "hash",
		"node":          k.InitNodeURL == "https://sync.example" && k.InitNodeCapacity == 10 && k.NodeType == "postgres",
		"users":         !k.AllowNewUsers && k.TokenDuration == 10*time.Minute,
	} {
		if !ok {
			t.Errorf("%s is not taken over", name)
		}
	}
	// The second is about the small quota.
	if w := report.Warnings; len(w) != 2 || w[0].Where != "SYNC_SOMETHING_ELSE" || w[1].Where != "SYNC_SYNCSTORAGE__LIMITS__MAX_QUOTA_LIMIT" {
		t.Errorf("warnings %v", w)
	}
	if len(report.Notes) != 7 {
		t.Errorf("notes %v", report.Notes)
	}
}

func TestHoldfastNamesWin(t *testing.T) {
	t.Parallel()
	cfg, _, err := Load(Services(), "", []string{"SYNC_PORT=5000", "HOLDFAST_SERVER__LISTEN=127.0.0.1:6000"})
	if err != nil || cfg.Server.Listen != "127.0.0.1:6000" {
		t.Errorf("listen %q, %v", cfg.Server.Listen, err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "holdfast.toml")
	text := "[server]\nlisten = \"nowhere\"\npublic_url = \"sync.example.org\"\nidle_timeout = \"0s\"\n[log]\nformat = \"xml\"\n[syncstorage.limits]\nmax_post_records = 1\n[tokenserver]\nallow_new_users = true\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load(Services(), file, []string{"HOLDFAST_TOKENSERVER__NODE_CAPACITY_RELEASE_RATE=-1"})
	var wrong *conf.Error
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	all := err.Error()
	for _, p := range wrong.Problems {
		all += "\n" + p.String()
	}
	for _, want := range []string{
		file + ":2", "server.listen", file + ":3", "server.public_url", "server.idle_timeout", "log.format",
		"syncstorage.limits.max_post_records", "HOLDFAST_TOKENSERVER__NODE_CAPACITY_RELEASE_RATE",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no word of %s in\n%s", want, all)
		}
	}
}

func TestServiceThatIsOffIsNotChecked(t *testing.T) {
	t.Parallel()
	_, _, err := Load(Services(), "", []string{"HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_SYNCSTORAGE__LIMITS__MAX_POST_RECORDS=1"})
	if err != nil {
		t.Error(err)
	}
}

// TestGuestsWhereStrangersAre checks that the guest service, which needs no accounts, is off by default if other
// machines reach the server.
func TestGuestsWhereStrangersAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		on      bool
	}{
		{nil, true},
		{[]string{"HOLDFAST_SERVER__LISTEN=localhost:80"}, true},
		{[]string{"HOLDFAST_SERVER__LISTEN=[::1]:80"}, true},
		{[]string{"HOLDFAST_SERVER__LISTEN=:80"}, false},
		{[]string{"HOLDFAST_SERVER__LISTEN=0.0.0.0:80"}, false},
		{[]string{"HOLDFAST_SERVER__LISTEN=192.0.2.1:80"}, false},
		{[]string{"SYNC_HOST=0.0.0.0"}, false},
		{[]string{"HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org"}, false},
		{[]string{"HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1"}, false},
		{[]string{"HOLDFAST_SERVER__LISTEN=:80", "HOLDFAST_GUEST__ENABLED=true"}, true},
		{[]string{"HOLDFAST_GUEST__ENABLED=false"}, false},
	} {
		cfg, _, err := Load(Services(), "", c.environ)
		if err != nil {
			t.Fatal(err)
		}
		if on := section[*guest.Config](t, cfg).IsEnabled(); on != c.on {
			t.Errorf("%v: guests are served: %v", c.environ, on)
		}
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != Reference() {
		t.Error("docs/configuration.md is not what the code says; run: make docs")
	}
}

func TestInternalListen(t *testing.T) {
	t.Parallel()
	_, _, err := Load(Services(), "", []string{"HOLDFAST_SERVER__INTERNAL_LISTEN=nowhere"})
	if err == nil || !strings.Contains(err.Error(), "HOLDFAST_SERVER__INTERNAL_LISTEN: must be host:port") {
		t.Error(err)
	}
}

func TestDomainDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ             []string
		listen, public, url string
	}{
		{nil, ":443", "https://sync.example.org", "http://127.0.0.1:8001"},
		{[]string{"HOLDFAST_SERVER__LISTEN=:8443"}, ":8443", "https://sync.example.org:8443", "http://127.0.0.1:8001"},
		{[]string{"HOLDFAST_SERVER__LISTEN=:8443", "HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org/a"}, ":8443", "https://sync.example.org/a", "http://127.0.0.1:8001"},
		{[]string{"HOLDFAST_SERVER__ADMIN_LISTEN=:8001"}, ":443", "https://sync.example.org", "https://sync.example.org:8001"},
	} {
		cfg, _, err := Load(Services(), "", append(c.environ, "HOLDFAST_SERVER__DOMAIN=sync.example.org"))
		if err != nil {
			t.Fatal(err)
		}
		if s := cfg.Server; s.Listen != c.listen || s.PublicURL != c.public || s.AdminURL(s.AdminListen) != c.url || s.whyPublic() == "" {
			t.Errorf("%v: listen %s, public URL %s, admin URL %s", c.environ, s.Listen, s.PublicURL, s.AdminURL(s.AdminListen))
		}
	}
	for _, wrong := range []string{
		"DOMAIN=sync", "DOMAIN=Sync.example.org", "DOMAIN=*.example.org", "DOMAIN=192.0.2.1", "DOMAIN=sync.example.org:443", "DOMAIN=https://sync.example.org",
		"TLS_CERT_FILE=/dev/null", "ACME_DIRECTORY=http://ca.example.org", "ACME_EMAIL=operator", "ACME_ROOT_FILE=/nowhere",
	} {
		environ := []string{"HOLDFAST_SERVER__" + wrong}
		if !strings.HasPrefix(wrong, "DOMAIN=") {
			environ = append(environ, "HOLDFAST_SERVER__DOMAIN=sync.example.org")
		}
		if _, _, err := Load(Services(), "", environ); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
