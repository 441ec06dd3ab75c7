package tokenserver

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	if problems := c.Check(); len(problems) != 0 {
		t.Error(problems)
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	for key, change := range map[string]func(*Config){
		"database_pool_max_size":           func(c *Config) { c.PoolMaxSize = 0 },
		"database_pool_connection_timeout": func(c *Config) { c.PoolConnectionTimeout = 0 },
		"database_request_timeout":         func(c *Config) { c.DatabaseRequestTimeout = -time.Second },
		"fxa_email_domain":                 func(c *Config) { c.FxAEmailDomain = "a@b" },
		"fxa_oauth_server_url":             func(c *Config) { c.FxAOAuthServerURL = "accounts.example" },
		"fxa_profile_server_url":           func(c *Config) { c.FxAProfileServerURL = "ftp://accounts.example" },
		"fxa_auth_server_url":              func(c *Config) { c.FxAAuthServerURL = "accounts.example" },
		"fxa_pairing_server_url":           func(c *Config) { c.FxAPairingServerURL = "https://pairing.example" },
		"fxa_oauth_request_timeout":        func(c *Config) { c.FxAOAuthTimeout = 0 },
		"fxa_oauth_primary_jwk":            func(c *Config) { c.FxAOAuthPrimaryJWK.KID = "x" },
		"fxa_oauth_secondary_jwk":          func(c *Config) { c.FxAOAuthSecondaryJWK = JWK{KTY: "RSA", N: "!", E: "AQAB"} },
		"fxa_webhook_set_client_id":        func(c *Config) { c.FxAWebhookEnabled, c.FxAWebhookIssuer = true, "x" },
		"fxa_webhook_set_issuer":           func(c *Config) { c.FxAWebhookEnabled, c.FxAWebhookClientID = true, "x" },
		"init_node_url":                    func(c *Config) { c.InitNodeURL = "sync.example.org" },
		"init_node_capacity":               func(c *Config) { c.InitNodeCapacity = 1 << 31 },
		"node_capacity_release_rate":       func(c *Config) { c.NodeCapacityReleaseRate = 0 },
		"spanner_node_id":                  func(c *Config) { c.SpannerNodeID = -1 },
		"token_duration":                   func(c *Config) { c.TokenDuration = time.Millisecond },
		"replaced_user_grace":              func(c *Config) { c.ReplacedUserGrace = -1 },
	} {
		c := DefaultConfig()
		change(&c)
		if problems := c.Check(); len(problems) != 1 || problems[0].Key != key {
			t.Errorf("%s: got %v", key, problems)
		}
	}
	all := Config{FxAWebhookEnabled: true}
	if n := len(all.Check()); n < 9 {
		t.Errorf("only %d problems of an empty config are reported", n)
	}
}

func TestEverySettingIsExplained(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[JWK]()} {
		for f := range typ.Fields() {
			if f.Anonymous {
				continue // explained where it is declared
			}
			if f.Tag.Get("toml") == "" || !strings.HasSuffix(f.Tag.Get("doc"), ".") {
				t.Errorf("%s.%s has no name or no sentence", typ, f.Name)
			}
		}
	}
}

func TestAccountsServer(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://oauth.example":        "https://oauth.example",
		"https://oauth.example/":       "https://oauth.example",
		"https://oauth.example/v1":     "https://oauth.example",
		"https://oauth.example/v1/":    "https://oauth.example",
		"https://oauth.example/fxa/v1": "https://oauth.example/fxa",
		"https://oauth.example/fxav1":  "https://oauth.example/fxav1",
	} {
		if c := (Config{FxAOAuthServerURL: given}); c.AccountsServer() != want {
			t.Errorf("%s: %s, want %s", given, c.AccountsServer(), want)
		}
	}
}

func TestAccountsServers(t *testing.T) {
	t.Parallel()
	const own, auth, pairing, profile = "https://accounts.example", "https://auth.example", "wss://pairing.example", "https://profile.example"
	for _, c := range []struct {
		config Config
		want   AccountsServers
	}{
		{DefaultConfig(), mozilla},
		{Config{FxAOAuthServerURL: mozilla.OAuth + "/v1/"}, mozilla},
		{Config{FxAOAuthServerURL: own + "/v1"}, AccountsServers{own, own, "", own}},
		{Config{FxAOAuthServerURL: own, FxAAuthServerURL: auth + "/v1", FxAPairingServerURL: pairing + "/", FxAProfileServerURL: profile + "/v1/"}, AccountsServers{auth, own, pairing, profile}},
		{Config{FxAOAuthServerURL: mozilla.OAuth, FxAProfileServerURL: profile}, AccountsServers{mozilla.Auth, mozilla.OAuth, mozilla.Pairing, profile}},
	} {
		if got := c.config.AccountsServers(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.config.FxAOAuthServerURL, got, c.want)
		}
	}
}
