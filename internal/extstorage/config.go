package extstorage

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"holdfast/internal/jsonschema"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

// Config is the [extstorage] section.
type Config struct {
	Enabled bool `toml:"enabled" doc:"Serve extension storage."`
	settings.Database
	settings.Sweep

	TokenSecret     string              `toml:"token_secret" secret:"true" doc:"Signs cursors and the tokens from holdfast ext tokens create. At least 32 bytes, the same in all processes that share a database. Unset: generated and kept in the secrets file."`
	OldTokenSecrets []string            `toml:"old_token_secrets" secret:"true" doc:"Former token secrets, still accepted while you rotate the token secret."`
	TokenKeys       map[string]TokenKey `toml:"token_keys" doc:"Other token issuers' keys, by a name you choose."`
	TokenIssuer     string              `toml:"token_issuer" doc:"Required token issuer (iss). Empty: any."`
	TokenAudience   string              `toml:"token_audience" doc:"Required token audience (aud). Empty: any."`
	TokenLeeway     time.Duration       `toml:"token_leeway" doc:"Accepted clock difference between token issuers and the server."`

	TokenMaxLifetime time.Duration `toml:"token_max_lifetime" doc:"Maximum token lifetime, from iat (else nbf, else now) to exp. Longer-lived tokens are refused."`

	RequestTimeout time.Duration `toml:"request_timeout" doc:"Time limit per request, or per step for exports and imports. A wait for changes adds the requested wait."`

	RateLimits bool  `toml:"rate_limits" reload:"true" doc:"Apply extstorage.rates to each install and tenant."`
	Rates      Rates `toml:"rates" reload:"true" doc:"Rate limits, with rate_limits. Each process counts separately: n processes allow n times as much."`

	Quota Quota            `toml:"quota" reload:"true" doc:"Quota for installs without a tier."`
	Tiers map[string]Quota `toml:"tiers" reload:"true" doc:"Quotas per tier, by tier name. Each install uses the tier it is registered with. 0: the value in extstorage.quota."`

	SchemaMemory int64         `toml:"schema_memory" unit:"bytes" doc:"Memory for compiled schemas, shared among tenants. A schema takes up to 8 MiB, usually about 10 kB."`
	DryRunTime   time.Duration `toml:"dry_run_time" reload:"true" doc:"Time limit for validating records in a schema dry run. After it, the dry run returns a cursor."`

	Audit         string `toml:"audit" secret:"true" doc:"Audit log for writes: file:PATH (one JSON line per write), log (the server's log, which then contains namespaces and keys), pubsub://PROJECT/TOPIC or nats://HOST:PORT/TOPIC. Empty: extstorage-audit.jsonl in the data folder."`
	MetadataIndex bool   `toml:"metadata_index" doc:"Let holdfast migrate create a PostgreSQL index on record metadata, for your own queries. The server does not use it, and it slows down every write."`

	PollEvery time.Duration `toml:"changes_poll_interval" doc:"How often to poll the database while clients wait for changes. Changes made through the same process are seen at once."`
}

// Rates is [extstorage.rates].
type Rates struct {
	Reads       int `toml:"reads_per_minute" doc:"Reads per minute per install."`
	ReadBurst   int `toml:"read_burst" doc:"Read burst per install."`
	Writes      int `toml:"writes_per_minute" doc:"Writes per minute per install."`
	WriteBurst  int `toml:"write_burst" doc:"Write burst per install."`
	Tenant      int `toml:"tenant_per_second" doc:"Requests per second per tenant, shared by its installs."`
	TenantBurst int `toml:"tenant_burst" doc:"Request burst per tenant. A single install may use seven eighths."`
}

// TokenKey verifies tokens from an external issuer.
type TokenKey struct {
	ID  string `toml:"id" doc:"Key ID, as in the token's kid. Empty: the section name."`
	Alg string `toml:"alg" doc:"Algorithm: EdDSA, ES256 or HS256."`
	Key string `toml:"key" secret:"true" doc:"Public key in PEM; for HS256 the shared secret, at least 32 bytes."`
}

// ownTokenKey begins the key IDs of the server's own keys.
const ownTokenKey = "own-"

// MinSchemaMemory is the minimum schema_memory: two maximum-size schemas.
const MinSchemaMemory = jsonschema.MinSchemaMemory

const minSecret = 32 // bytes

// TokenSecrets returns distinct secrets. The first one signs tokens.
func (c *Config) TokenSecrets() []string {
	secrets := []string{c.TokenSecret}
	for _, old := range c.OldTokenSecrets {
		if !slices.Contains(secrets, old) {
			secrets = append(secrets, old)
		}
	}
	return secrets
}

// OwnTokenKey returns a secret's key ID, which does not reveal it.
func OwnTokenKey(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("extstorage token key"))
	return ownTokenKey + hex.EncodeToString(mac.Sum(nil)[:8])
}

// KeyID returns the kid that tokens carry. name is the key in the configuration.
func (k *TokenKey) KeyID(name string) string {
	if k.ID == "" {
		return name
	}
	return k.ID
}

func DefaultConfig() Config {
	return Config{
		Enabled:          true,
		TokenLeeway:      30 * time.Second,
		TokenMaxLifetime: 90 * 24 * time.Hour,
		RequestTimeout:   30 * time.Second,
		Database:         settings.DefaultDatabase(),
		Sweep:            settings.DefaultSweep(),
		RateLimits:       true,
		Rates:            Rates{Reads: 200, ReadBurst: 400, Writes: 60, WriteBurst: 180, Tenant: 20, TenantBurst: 1000},
		Quota:            DefaultQuota(),
		PollEvery:        time.Second,
		SchemaMemory:     64 << 20,
		DryRunTime:       20 * time.Second,
	}
}

// IsEnabled implements service.Section.
func (c *Config) IsEnabled() bool { return c.Enabled }

// KeepsFiles reports whether the audit log is in the data folder.
func (c *Config) KeepsFiles() bool { return c.Audit == "" }

// Check returns all invalid settings, each with its key below [extstorage].
func (c *Config) Check() conf.Problems {
	problems := append(c.Database.Check(), c.Sweep.Check()...)
	add := func(key, what string) { problems.Addf(key, "%s", what) }
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"rates.reads_per_minute", int64(c.Rates.Reads)},
		{"rates.read_burst", int64(c.Rates.ReadBurst)},
		{"rates.writes_per_minute", int64(c.Rates.Writes)},
		{"rates.write_burst", int64(c.Rates.WriteBurst)},
		{"rates.tenant_per_second", int64(c.Rates.Tenant)},
		{"rates.tenant_burst", int64(c.Rates.TenantBurst)},
		{"quota.bytes", c.Quota.Bytes},
		{"quota.namespaces", c.Quota.Namespaces},
		{"quota.keys", c.Quota.Keys},
		{"changes_poll_interval", int64(c.PollEvery)},
		{"token_max_lifetime", int64(c.TokenMaxLifetime)},
		{"request_timeout", int64(c.RequestTimeout)},
		{"dry_run_time", int64(c.DryRunTime)},
	} {
		if n.value <= 0 {
			add(n.key, "must be more than 0")
		}
	}
	if c.SchemaMemory < MinSchemaMemory {
		problems.Addf("schema_memory", "must be at least %d", MinSchemaMemory)
	}
	if c.TokenLeeway < 0 {
		add("token_leeway", "must not be negative")
	}
	if path, ok := strings.CutPrefix(c.Audit, "file:"); c.Audit != "" && c.Audit != "log" && !settings.IsBroker(c.Audit) && (!ok || path == "") {
		add("audit", "must be empty, log, file:PATH, pubsub://PROJECT/TOPIC or nats://HOST:PORT/TOPIC")
	}
	if n := len(c.TokenSecret); n > 0 && n < minSecret {
		add("token_secret", "must be at least 32 bytes")
	}
	if slices.ContainsFunc(c.OldTokenSecrets, func(old string) bool { return len(old) < minSecret }) {
		add("old_token_secrets", "must be at least 32 bytes each")
	}
	ids := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.TokenKeys)) {
		k := c.TokenKeys[name]
		id := k.KeyID(name)
		switch {
		case ids[id]:
			add("token_keys."+name, "repeats the id of another token key")
		case strings.HasPrefix(id, ownTokenKey):
			add("token_keys."+name, "id must not begin with "+ownTokenKey+", which is reserved for the server's own keys")
		}
		ids[id] = true
	}
	for name, q := range c.Tiers {
		if name == "" || q.Bytes < 0 || q.Namespaces < 0 || q.Keys < 0 {
			add("tiers."+name, "needs a name and no negative numbers")
		}
	}
	return problems
}

// QuotaOf returns a tier's quota, or the default quota if the tier is unknown.
func (c *Config) QuotaOf(tier string) Quota {
	q, of := c.Quota, c.Tiers[tier]
	if of.Bytes > 0 {
		q.Bytes = of.Bytes
	}
	if of.Namespaces > 0 {
		q.Namespaces = of.Namespaces
	}
	if of.Keys > 0 {
		q.Keys = of.Keys
	}
	return q
}
