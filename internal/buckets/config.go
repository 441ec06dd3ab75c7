package buckets

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

// Config is the section [buckets].
type Config struct {
	Enabled bool   `toml:"enabled" doc:"Serve buckets. They are not finished: with SQLite only, without backups of bodies on storage nodes, audit and metrics. Do not store anything that you need."`
	Listen  string `toml:"listen" doc:"Address of the S3 protocol."`
	settings.Database
	settings.Sweep

	Domain string `toml:"domain" doc:"Domain below which each bucket has a host name: with s3.example.org, the bucket photos is photos.s3.example.org. Empty: a bucket is the first part of the path."`
	Region string `toml:"region" doc:"Region that clients sign for and that buckets report."`

	KeySecret     string   `toml:"key_secret" secret:"true" doc:"Encrypts the secrets of access keys in the database. At least 32 bytes, and the same on all processes that share a database. Unset: generated and kept in the secrets file."`
	OldKeySecrets []string `toml:"old_key_secrets" secret:"true" doc:"Former key secrets. Access keys that were created with them are still accepted."`

	Nodes  map[string]NodeConfig `toml:"nodes" doc:"Storage nodes by DATACENTER:NAME. Empty: the folder buckets in the data folder."`
	Copies int                   `toml:"copies" doc:"Copies of each body on storage nodes, 1 to 9. 0: 1 with one node, otherwise 2."`
	Inline int                   `toml:"inline" unit:"bytes" doc:"Largest body that is stored in the database instead of on storage nodes. 0: all non-empty bodies are on storage nodes."`

	GarbageAfter time.Duration `toml:"garbage_after" doc:"How long after an object was deleted or overwritten its body is removed from the storage nodes."`
	UploadsAfter time.Duration `toml:"abort_uploads_after" doc:"How long after its start an incomplete multipart upload is aborted. 0: never."`
}

// NodeConfig is a storage node.
type NodeConfig struct {
	URL string `toml:"url" doc:"Where the node is: file:///PATH, s3://BUCKET, gs://BUCKET or azblob://CONTAINER."`
}

// Limits of settings.
const (
	maxCopies    = 9
	maxInline    = 1 << 20
	minKeySecret = 32
)

// DefaultConfig returns the section's defaults.
func DefaultConfig() Config {
	return Config{
		Listen:       "127.0.0.1:9000",
		Database:     settings.DefaultDatabase(),
		Sweep:        settings.DefaultSweep(),
		Region:       "us-east-1",
		Inline:       16 << 10,
		GarbageAfter: 24 * time.Hour,
		UploadsAfter: 7 * 24 * time.Hour,
	}
}

// IsEnabled reports whether the service is configured to be served.
func (c *Config) IsEnabled() bool { return c.Enabled }

// Check reports every invalid setting.
func (c *Config) Check() conf.Problems {
	problems := append(c.Database.Check(), c.Sweep.Check()...)
	wrong := func(key, what string) { problems.Addf(key, "%s", what) }
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		wrong("listen", "must be host:port, such as 127.0.0.1:9000")
	}
	if c.Domain != "" && (strings.ContainsAny(c.Domain, "/:@ ") || strings.HasPrefix(c.Domain, ".")) {
		wrong("domain", "must be a host name, such as s3.example.org")
	}
	if c.Region == "" || strings.ContainsAny(c.Region, "/ ") {
		wrong("region", "must be a name, such as us-east-1")
	}
	if n := len(c.KeySecret); n > 0 && n < minKeySecret {
		wrong("key_secret", "must have at least 32 bytes")
	}
	if slices.ContainsFunc(c.OldKeySecrets, func(old string) bool { return len(old) < minKeySecret }) {
		wrong("old_key_secrets", "must have at least 32 bytes each")
	}
	for _, id := range slices.Sorted(maps.Keys(c.Nodes)) {
		if CheckNodeID(id) != nil {
			wrong("nodes."+id, "must be named DATACENTER:NAME, such as home:disk1")
		}
		if CheckNodeURL(c.Nodes[id].URL) != nil {
			wrong("nodes."+id+".url", "must be file:///PATH, s3://BUCKET, gs://BUCKET or azblob://CONTAINER")
		}
	}
	if c.Copies < 0 || c.Copies > maxCopies {
		problems.Addf("copies", "must be from 0 to %d", maxCopies)
	}
	if c.Inline < 0 || c.Inline > maxInline {
		problems.Addf("inline", "must be from 0 to %d", maxInline)
	}
	if c.GarbageAfter < 0 {
		wrong("garbage_after", "must not be negative")
	}
	if c.UploadsAfter < 0 {
		wrong("abort_uploads_after", "must not be negative")
	}
	return problems
}

// CheckNodeURL rejects URLs that no driver of storage nodes has.
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
