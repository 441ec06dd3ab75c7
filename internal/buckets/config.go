package buckets

import (
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

// Config is the [buckets] section. It is read by conf; Check validates it, and app/buckets opens the service with it.
// The tag doc documents a field.
type Config struct {
	Enabled bool   `toml:"enabled" doc:"Serve buckets."`
	Listen  string `toml:"listen" doc:"S3 listener address."`
	settings.Database
	settings.Sweep

	Domain string `toml:"domain" doc:"Parent domain for bucket host names: with s3.example.org, the bucket photos is photos.s3.example.org. Empty: the bucket is the first path segment."`
	Region string `toml:"region" doc:"Region for request signatures and bucket locations."`

	SignatureV2 bool `toml:"signature_v2" doc:"Accept links and forms with AWS Signature Version 2, which e.g. boto3 makes for the region us-east-1. Requests with this signature in a header are always refused."`

	KeySecret     string   `toml:"key_secret" secret:"true" doc:"Encrypts secret keys in the database. At least 32 bytes, the same in all processes that share a database. Unset: generated and kept in the secrets file."`
	OldKeySecrets []string `toml:"old_key_secrets" secret:"true" doc:"Former key secrets, whose access keys are still accepted."`

	Accounts map[string]AccountConfig `toml:"accounts" doc:"Accounts, by name, created at start if missing. Removing an account here does not delete it, because it owns buckets."`

	Nodes  map[string]NodeConfig `toml:"nodes" doc:"Storage nodes, by DATACENTER:NAME. Empty: the folder buckets in the data folder."`
	Copies int                   `toml:"copies" reload:"true" doc:"Copies per body on storage nodes, 1 to 9. 0: 1 with a single node, otherwise 2."`
	Inline int                   `toml:"inline" reload:"true" unit:"bytes" doc:"Store bodies up to this size in the database instead of on storage nodes. 0: only empty bodies."`

	ScrubEvery time.Duration `toml:"scrub_interval" doc:"Read and verify every copy this often, to find and repair damage. A pass takes this long, or less if little is stored. 0: never."`
	ScrubRate  int           `toml:"scrub_rate" unit:"bytes" doc:"Bytes per second to read from each storage node. 0: enough to finish within scrub_interval, at least 1 MiB."`
	ScrubCloud bool          `toml:"scrub_cloud" doc:"Also read copies on cloud nodes, which charge for reads."`

	Destinations map[string]DestinationConfig `toml:"destinations" doc:"Notification destinations, by a name you choose. Bucket owners select them as arn:holdfast:KIND:::NAME, with KIND webhook, nats or pubsub."`
	EventsAfter  time.Duration                `toml:"drop_events_after" doc:"How long an event may wait for a failing destination before it is dropped."`
	MaxEvents    int                          `toml:"max_events" doc:"Maximum number of events waiting per destination; beyond it, the oldest are dropped. An event takes about 1 KB in the database."`

	GarbageAfter time.Duration `toml:"garbage_after" reload:"true" doc:"How long bodies stay on storage nodes after their object is deleted or overwritten."`
	UploadsAfter time.Duration `toml:"abort_uploads_after" reload:"true" doc:"Abort incomplete multipart uploads at this age. 0: never."`

	Classes bool `toml:"storage_classes" reload:"true" doc:"Accept the storage classes STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING, GLACIER_IR and REDUCED_REDUNDANCY, and show them with the object. All bodies are stored alike. false: refuse all classes but STANDARD."`
}

// AccountConfig is [buckets.accounts.NAME].
type AccountConfig struct {
	Keys map[string]KeyConfig `toml:"keys" doc:"The account's access keys, by a name you choose. They are not stored: a key removed here is refused after the next start."`
}

// KeyConfig is [buckets.accounts.NAME.keys.NAME].
type KeyConfig struct {
	AccessKey string `toml:"access_key" doc:"Access key: 3 to 128 characters from A-Z, a-z, 0-9, '.', '_' and '-'."`
	SecretKey string `toml:"secret_key" secret:"true" doc:"Secret key: 16 to 128 characters without spaces."`
}

// NodeConfig is a storage node in the config file. "holdfast bucket nodes" adds others to the database.
type NodeConfig struct {
	URL string `toml:"url" doc:"Location: file:///PATH, s3://BUCKET, gs://BUCKET or azblob://CONTAINER."`
}

// DestinationConfig is [buckets.destinations.NAME].
type DestinationConfig struct {
	URL    string `toml:"url" secret:"true" doc:"Where to publish events: an https or http URL (webhook), nats://HOST:PORT/TOPIC (NATS JetStream) or pubsub://PROJECT/TOPIC (Google Pub/Sub)."`
	Secret string `toml:"secret" secret:"true" doc:"Signs webhook requests (Standard Webhooks): whsec_ and the Base64 of 24 to 64 random bytes. Empty: unsigned."`

	OldSecrets []string `toml:"old_secrets" secret:"true" doc:"Former secrets, which sign requests, too, until the webhook knows the new one."`
}

// Kind returns webhook, nats or pubsub, as it stands in the ARN. For other URLs, which Check rejects, it returns the
// scheme.
func (d *DestinationConfig) Kind() string {
	scheme, _, _ := strings.Cut(d.URL, ":")
	switch scheme {
	case "http", "https":
		return "webhook"
	case "tls":
		return "nats"
	}
	return scheme
}

const (
	// Minimum settings.
	minEventsAfter = time.Minute
	minEvents      = 1000

	maxCopies    = 9
	maxInline    = 1 << 20
	minKeySecret = 32
	minScrub     = time.Minute
)

func DefaultConfig() Config {
	return Config{
		Enabled:      true,
		Listen:       "127.0.0.1:9000",
		Database:     settings.DefaultDatabase(),
		Sweep:        settings.DefaultSweep(),
		Region:       "us-east-1",
		SignatureV2:  true,
		Inline:       16 << 10,
		ScrubEvery:   30 * 24 * time.Hour,
		EventsAfter:  72 * time.Hour,
		MaxEvents:    1_000_000,
		GarbageAfter: 24 * time.Hour,
		UploadsAfter: 7 * 24 * time.Hour,
		Classes:      true,
	}
}

// IsEnabled implements service.Section.
func (c *Config) IsEnabled() bool { return c.Enabled }

// KeepsFiles reports whether bodies are stored in the data folder.
func (c *Config) KeepsFiles() bool { return len(c.Nodes) == 0 }

// Check returns all invalid settings, each with its key below [buckets].
func (c *Config) Check() conf.Problems {
	problems := append(c.Database.Check(), c.Sweep.Check()...)
	add := func(key, what string) { problems.Addf(key, "%s", what) }
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		add("listen", "must be host:port, e.g. 127.0.0.1:9000")
	}
	if c.Domain != "" && (strings.ContainsAny(c.Domain, "/:@ ") || strings.HasPrefix(c.Domain, ".")) {
		add("domain", "must be a host name, e.g. s3.example.org")
	}
	if c.Region == "" || strings.ContainsAny(c.Region, "/ ") {
		add("region", "must be a name, e.g. us-east-1")
	}
	if n := len(c.KeySecret); n > 0 && n < minKeySecret {
		add("key_secret", "must be at least 32 bytes")
	}
	if slices.ContainsFunc(c.OldKeySecrets, func(old string) bool { return len(old) < minKeySecret }) {
		add("old_key_secrets", "must be at least 32 bytes each")
	}
	c.checkAccounts(add)
	for _, id := range slices.Sorted(maps.Keys(c.Nodes)) {
		if CheckNodeID(id) != nil {
			add("nodes."+id, "must be named DATACENTER:NAME, e.g. home:disk1")
		}
		if CheckNodeURL(c.Nodes[id].URL) != nil {
			add("nodes."+id+".url", "must be file:///PATH, s3://BUCKET, gs://BUCKET or azblob://CONTAINER")
		}
	}
	if c.Copies < 0 || c.Copies > maxCopies {
		problems.Addf("copies", "must be from 0 to %d", maxCopies)
	}
	if c.Inline < 0 || c.Inline > maxInline {
		problems.Addf("inline", "must be from 0 to %d", maxInline)
	}
	if c.ScrubEvery != 0 && c.ScrubEvery < minScrub {
		add("scrub_interval", "must be 0 or at least 1m")
	}
	if c.ScrubRate < 0 {
		add("scrub_rate", "must not be negative")
	}
	c.checkDestinations(add)
	if c.EventsAfter < minEventsAfter {
		add("drop_events_after", "must be at least 1m")
	}
	if c.MaxEvents < minEvents {
		problems.Addf("max_events", "must be at least %d", minEvents)
	}
	if c.GarbageAfter < 0 {
		add("garbage_after", "must not be negative")
	}
	if c.UploadsAfter < 0 {
		add("abort_uploads_after", "must not be negative")
	}
	return problems
}

// destinationName allows names that need no escapes in an ARN.
var destinationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (c *Config) checkDestinations(add func(key, what string)) {
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		d, at := c.Destinations[name], "destinations."+name
		if !destinationName.MatchString(name) {
			add(at, "the name must be 1 to 64 characters from A-Z, a-z, 0-9, '_', '.' and '-', starting with a letter or digit")
		}
		if kind := d.Kind(); settings.CheckSink(d.URL) != nil || kind != "webhook" && !settings.IsBroker(d.URL) {
			add(at+".url", "must be https://…, http://…, nats://HOST:PORT/TOPIC or pubsub://PROJECT/TOPIC")
		} else if d.Secret != "" && kind != "webhook" {
			add(at+".secret", "is for webhooks only")
		} else if old, err := settings.CheckWebhookSecrets(d.Secret, d.OldSecrets); err != nil {
			add(at+"."+map[string]string{"": "secret", "old_": "old_secrets"}[old], err.Error())
		}
	}
}

// EventDestinations lists the destinations by name, as rules may refer to them.
func (c *Config) EventDestinations() (all []Destination) {
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		d := c.Destinations[name]
		all = append(all, Destination{name, d.Kind()})
	}
	return all
}

func (c *Config) checkAccounts(add func(key, what string)) {
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Accounts)) {
		if CheckAccountName(name) != nil {
			add("accounts."+name, `the name must be 1 to 63 characters from a-z, 0-9 and "-", and must not start or end with "-"`)
		}
		for _, of := range slices.Sorted(maps.Keys(c.Accounts[name].Keys)) {
			k, at := c.Accounts[name].Keys[of], "accounts."+name+".keys."+of
			if !isAccessKey(k.AccessKey) {
				add(at+".access_key", "must be 3 to 128 characters from A-Z, a-z, 0-9, '.', '_' and '-'")
			} else if used[k.AccessKey] {
				add(at+".access_key", "is used by another configured key")
			}
			used[k.AccessKey] = true
			if n := len(k.SecretKey); n < 16 || n > 128 || strings.ContainsFunc(k.SecretKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
				add(at+".secret_key", "must be 16 to 128 ASCII characters without spaces")
			}
		}
	}
}

// isAccessKey requires an ID that needs no escapes in a Credential scope, where "/" separates parts.
func isAccessKey(s string) bool { return len(s) >= 3 && isNodeName(s) }

// ConfiguredKeys lists the keys in the config file by ID.
func (c *Config) ConfiguredKeys() (all []ConfiguredKey) {
	for name, a := range c.Accounts {
		for _, k := range a.Keys {
			all = append(all, ConfiguredKey{ID: k.AccessKey, Account: name, Secret: k.SecretKey})
		}
	}
	slices.SortFunc(all, func(a, b ConfiguredKey) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// CheckNodeURL rejects URLs without a storage node driver.
func CheckNodeURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
	case u.Scheme == "file" && strings.HasPrefix(u.Path, "/") && u.Host == "":
		return nil
	case slices.Contains([]string{"s3", "gs", "azblob"}, u.Scheme) && u.Host != "":
		return nil
	}
	return ErrNodeURL
}
