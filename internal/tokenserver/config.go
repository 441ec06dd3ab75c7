package tokenserver

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

// Config settings are named like the reference server's, with production defaults.
type Config struct {
	Enabled bool `toml:"enabled" doc:"Serve sign-ins at /1.0/sync/1.5."`

	settings.Database

	DatabaseRequestTimeout time.Duration `toml:"database_request_timeout" reload:"true" doc:"Time limit for a sign-in in the database. 0: the request's limit."`
	RunMigrations          bool          `toml:"run_migrations" doc:"Migrate PostgreSQL tables at start. SQLite tables are always migrated."`

	FxAEmailDomain       string        `toml:"fxa_email_domain" doc:"Domain after the account ID in the table users, as in ID@api.accounts.firefox.com. It must match the accounts server."`
	FxAMetricsHashSecret string        `toml:"fxa_metrics_hash_secret" secret:"true" doc:"Key for the hashed account IDs in browsers' metrics. Unset: generated and kept in the secrets file."`
	FxAOAuthServerURL    string        `toml:"fxa_oauth_server_url" doc:"Accounts server URL for verifying OAuth tokens, with or without /v1."`
	FxAOAuthTimeout      time.Duration `toml:"fxa_oauth_request_timeout" doc:"Timeout for requests to the accounts server."`
	FxAProfileServerURL  string        `toml:"fxa_profile_server_url" doc:"Profile server URL that tokenserver.label_from_profile asks for addresses, with or without /v1. Unset: only use addresses from access tokens."`
	FxAAuthServerURL     string        `toml:"fxa_auth_server_url" doc:"Accounts server URL for browsers' sign-ins, in the answer of /.well-known/fxa-client-configuration, with or without /v1. Unset: fxa_oauth_server_url, or Mozilla's if that is Mozilla's."`
	FxAPairingServerURL  string        `toml:"fxa_pairing_server_url" doc:"Pairing server URL (ws or wss) in the same answer. Unset: none, or Mozilla's if fxa_oauth_server_url is Mozilla's."`
	FxAOAuthPrimaryJWK   JWK           `toml:"fxa_oauth_primary_jwk" doc:"Public key to verify OAuth tokens with. Unset: fetched from the accounts server and cached."`
	FxAOAuthSecondaryJWK JWK           `toml:"fxa_oauth_secondary_jwk" doc:"Second public key, for the accounts server's key rotation."`

	FxAWebhookEnabled     bool   `toml:"fxa_webhook_enabled" doc:"Accept account events from the accounts server at /1.0/webhooks/fxa/events."`
	FxAWebhookMetricsOnly bool   `toml:"fxa_webhook_metrics_only" doc:"Count account events, but do not act on them."`
	FxAWebhookClientID    string `toml:"fxa_webhook_set_client_id" doc:"Required audience in account events: your client ID at the accounts server."`
	FxAWebhookIssuer      string `toml:"fxa_webhook_set_issuer" doc:"Required issuer in account events."`

	InitNodeURL             string  `toml:"init_node_url" doc:"URL of a storage node to add at start if missing. Unset: this server, added once."`
	InitNodeCapacity        int64   `toml:"init_node_capacity" unit:"accounts" doc:"Capacity for the node added at start."`
	NodeType                string  `toml:"node_type" doc:"Engine of the storage nodes, which browsers report in telemetry. Unset: this server's engine."`
	NodeCapacityReleaseRate float64 `toml:"node_capacity_release_rate" reload:"true" doc:"Share of a node's capacity to release when all nodes are full: above 0, at most 1."`
	SpannerNodeID           int64   `toml:"spanner_node_id" doc:"ID of a node that gets all new accounts, regardless of load. 0: spread them over all nodes."`

	LabelFromProfile  bool          `toml:"label_from_profile" reload:"true" doc:"Label unlabelled accounts with their address at sign-in, if the accounts server provides it. Mozilla's does not provide it to Firefox."`
	AllowNewUsers     bool          `toml:"allow_new_users" reload:"true" doc:"Accept sign-ins from new accounts. The allow list and the deny list take precedence."`
	TokenDuration     time.Duration `toml:"token_duration" doc:"Storage token lifetime."`
	ReplacedUserGrace time.Duration `toml:"replaced_user_grace" reload:"true" doc:"How long to keep an account's old data after a password reset, for browsers that still use the old keys. At least until the old keys' tokens expire."`
}

// JWK is a public key of the accounts server, with its JSON fields.
type JWK struct {
	KTY       string `toml:"kty" doc:"Key type: RSA."`
	Alg       string `toml:"alg" doc:"Algorithm: RS256 or unset."`
	KID       string `toml:"kid" doc:"Key ID, as named in tokens."`
	CreatedAt int64  `toml:"fxa_created_at" unit:"seconds" doc:"Key creation time at the accounts server. Ignored."`
	Use       string `toml:"use" doc:"Purpose: sig or unset."`
	N         string `toml:"n" doc:"Modulus in base64url."`
	E         string `toml:"e" doc:"Exponent in base64url."`
}

// IsSet reports whether any field is set.
func (k JWK) IsSet() bool { return k != JWK{} }

// DefaultConfig returns the values of a new configuration, for Mozilla's accounts server.
func DefaultConfig() Config {
	return Config{
		Enabled:                 true,
		Database:                settings.DefaultDatabase(),
		FxAEmailDomain:          "api.accounts.firefox.com",
		FxAOAuthServerURL:       mozilla.OAuth,
		FxAOAuthTimeout:         10 * time.Second,
		InitNodeCapacity:        100000,
		NodeCapacityReleaseRate: 0.1,
		AllowNewUsers:           true,
		TokenDuration:           time.Hour,
		ReplacedUserGrace:       7 * 24 * time.Hour,
	}
}

// IsEnabled implements service.Section.
func (c *Config) IsEnabled() bool { return c.Enabled }

// Check returns all invalid settings, each with its key below [tokenserver].
func (c *Config) Check() conf.Problems {
	problems := c.Database.Check()
	must := func(ok bool, key, what string) {
		if !ok {
			problems.Addf(key, "%s", what)
		}
	}
	must(c.DatabaseRequestTimeout >= 0, "database_request_timeout", "must not be negative")
	must(c.FxAEmailDomain != "" && printable(c.FxAEmailDomain) && !strings.Contains(c.FxAEmailDomain, "@") && len(c.FxAEmailDomain) <= 200,
		"fxa_email_domain", "must be a domain, e.g. api.accounts.firefox.com")
	must(isWebURL(c.FxAOAuthServerURL), "fxa_oauth_server_url", "must be an http or https URL")
	must(c.FxAProfileServerURL == "" || isWebURL(c.FxAProfileServerURL), "fxa_profile_server_url", "must be an http or https URL")
	must(c.FxAAuthServerURL == "" || isWebURL(c.FxAAuthServerURL), "fxa_auth_server_url", "must be an http or https URL")
	must(c.FxAPairingServerURL == "" || isURL(c.FxAPairingServerURL, "ws", "wss"), "fxa_pairing_server_url", "must be a ws or wss URL")
	must(c.FxAOAuthTimeout > 0, "fxa_oauth_request_timeout", "must be more than 0")
	must(!c.FxAOAuthPrimaryJWK.IsSet() || c.FxAOAuthPrimaryJWK.usable(), "fxa_oauth_primary_jwk", "must be an RSA key with kty, n and e")
	must(!c.FxAOAuthSecondaryJWK.IsSet() || c.FxAOAuthSecondaryJWK.usable(), "fxa_oauth_secondary_jwk", "must be an RSA key with kty, n and e")
	must(!c.FxAWebhookEnabled || c.FxAWebhookClientID != "", "fxa_webhook_set_client_id", "must be set when fxa_webhook_enabled is true")
	must(!c.FxAWebhookEnabled || c.FxAWebhookIssuer != "", "fxa_webhook_set_issuer", "must be set when fxa_webhook_enabled is true")
	if c.InitNodeURL != "" {
		_, err := CheckNodeURL(c.InitNodeURL)
		must(err == nil, "init_node_url", fmt.Sprintf("must be an http or https URL with at most %d characters", maxNodeURL))
	}
	must(c.InitNodeCapacity > 0 && c.InitNodeCapacity <= maxCount, "init_node_capacity", fmt.Sprintf("must be from 1 to %d", maxCount))
	must(c.NodeCapacityReleaseRate > 0 && c.NodeCapacityReleaseRate <= 1, "node_capacity_release_rate", "must be above 0 and at most 1")
	must(c.SpannerNodeID >= 0, "spanner_node_id", "must not be negative")
	must(c.TokenDuration >= time.Second, "token_duration", "must be at least 1s")
	must(c.ReplacedUserGrace >= 0, "replaced_user_grace", "must not be negative")
	return problems
}

// maxCount is the greatest value of the counter columns, which are 32-bit integers.
const maxCount = 1<<31 - 1

// usable reports whether the key could be an RSA public key.
func (k JWK) usable() bool {
	return strings.EqualFold(k.KTY, "RSA") && isBase64URL(k.N) && isBase64URL(k.E)
}

// isBase64URL accepts padding, which some key files contain.
func isBase64URL(s string) bool {
	_, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	return s != "" && err == nil
}

// AccountsServer returns fxa_oauth_server_url without a trailing slash or /v1, which syncstorage-rs settings contain.
func (c *Config) AccountsServer() string { return withoutVersion(c.FxAOAuthServerURL) }

// ProfileServer returns fxa_profile_server_url like AccountsServer.
func (c *Config) ProfileServer() string { return withoutVersion(c.FxAProfileServerURL) }

// AccountsServers are the base URLs of the servers that a browser needs to sign in, without /v1 and a slash at the end.
// Pairing, a WebSocket URL, may be "".
type AccountsServers struct{ Auth, OAuth, Pairing, Profile string }

// mozilla is the answer of https://accounts.firefox.com/.well-known/fxa-client-configuration.
var mozilla = AccountsServers{
	Auth:    "https://api.accounts.firefox.com",
	OAuth:   "https://oauth.accounts.firefox.com",
	Pairing: "wss://channelserver.services.mozilla.com",
	Profile: "https://profile.accounts.firefox.com",
}

// AccountsServers returns the configured servers. The rest is Mozilla's if fxa_oauth_server_url is, and otherwise
// fxa_oauth_server_url itself: other accounts servers are usually a single server.
func (c *Config) AccountsServers() AccountsServers {
	all := AccountsServers{Auth: c.AccountsServer(), OAuth: c.AccountsServer(), Profile: c.AccountsServer()}
	if all.OAuth == mozilla.OAuth {
		all = mozilla
	}
	if c.FxAAuthServerURL != "" {
		all.Auth = withoutVersion(c.FxAAuthServerURL)
	}
	if c.FxAPairingServerURL != "" {
		all.Pairing = strings.TrimRight(c.FxAPairingServerURL, "/")
	}
	if c.FxAProfileServerURL != "" {
		all.Profile = c.ProfileServer()
	}
	return all
}

// withoutVersion removes /v1 and slashes at the end.
func withoutVersion(url string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1"), "/")
}

// isWebURL reports whether s is an http or https URL.
func isWebURL(s string) bool { return isURL(s, "http", "https") }

// isURL reports whether s is a URL with one of the schemes.
func isURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Host != ""
}
