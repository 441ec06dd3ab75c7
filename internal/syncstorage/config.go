package syncstorage

import (
	"net"
	"strconv"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

// Config is the [syncstorage] section. Settings are named like the reference server's.
type Config struct {
	Enabled bool `toml:"enabled" doc:"Serve Firefox Sync storage."`
	settings.Database
	settings.Sweep

	EnableQuota  bool `toml:"enable_quota" doc:"Count each user's bytes against limits.max_quota_limit and limits.max_user_quota, and report users over quota."`
	EnforceQuota bool `toml:"enforce_quota" doc:"Refuse writes that exceed a quota. Implies enable_quota."`

	PoolSweeper   time.Duration `toml:"database_pool_sweeper_task_interval" doc:"Ignored: the Spanner client has no session pool to sweep."`
	RouteToLeader bool          `toml:"database_spanner_route_to_leader" doc:"Send read-write transactions directly to Spanner's leader replica: faster writes, less even load."`
	EmulatorHost  string        `toml:"spanner_emulator_host" doc:"host:port of a Spanner emulator to use instead of Google Cloud, without TLS or credentials. For tests."`

	MaxNames     int           `toml:"max_collection_names" reload:"true" doc:"Maximum number of new collection names per user."`
	CompareRate  int           `toml:"compare_rate" reload:"true" unit:"users" doc:"How many users per minute get their browsers told to compare all data, after a restore or with holdfast sync compare. Their browsers then download everything again."`
	HawkTimeSkew time.Duration `toml:"hawk_time_skew" doc:"Maximum difference between a client's clock and the server's. Clients with wrong clocks are common."`
	Limits       Limits        `toml:"limits" reload:"true" doc:"Limits per request, batch and user, published in info/configuration."`
}

// Limits are request limits; see info/configuration. Record sizes are payload sizes.
type Limits struct {
	MaxPostBytes          int64 `toml:"max_post_bytes" unit:"bytes" doc:"Maximum total payload size per POST. Unset: raised to max_record_payload_bytes."`
	MaxPostRecords        int64 `toml:"max_post_records" unit:"records" doc:"Maximum number of records per POST."`
	MaxRecordPayloadBytes int64 `toml:"max_record_payload_bytes" unit:"bytes" doc:"Maximum payload size per record. To accept larger records, raise only this setting: unset limits follow it. At most 2621440 on Spanner. Unset: lowered to max_post_bytes."`
	MaxRequestBytes       int64 `toml:"max_request_bytes" unit:"bytes" doc:"Maximum request body size. Unset: raised to max_post_bytes + 4096."`
	MaxTotalBytes         int64 `toml:"max_total_bytes" unit:"bytes" doc:"Maximum total payload size per batch. Unset: raised to max_post_bytes. At most 100000000 on Spanner."`
	MaxTotalRecords       int64 `toml:"max_total_records" unit:"records" doc:"Maximum number of records per batch. On Spanner: 9984 by default, limited by the commit size (holdfast sync budget)."`
	MaxQuotaLimit         int64 `toml:"max_quota_limit" unit:"bytes" doc:"Maximum total payload size per user and collection, with enable_quota. 0: no limit."`
	MaxUserQuota          int64 `toml:"max_user_quota" unit:"bytes" doc:"Maximum total payload size per user, with enable_quota. 0: no limit."`

	Collections map[string]CollectionLimits `toml:"collections" doc:"Limits for single collections, by name. 0: the limit above, raised if the collection's other limits require it."`
}

// CollectionLimits override Limits for a collection. If one is 0, the general limit applies; see Limits.For.
type CollectionLimits struct {
	MaxPostBytes          int64 `toml:"max_post_bytes" unit:"bytes" doc:"Maximum total payload size per POST."`
	MaxRecordPayloadBytes int64 `toml:"max_record_payload_bytes" unit:"bytes" doc:"Maximum payload size per record."`
	MaxRequestBytes       int64 `toml:"max_request_bytes" unit:"bytes" doc:"Maximum request body size."`
}

// requestOverhead is the size, in bytes, that a request body may have beyond its payloads.
const requestOverhead = 4096

func DefaultConfig() Config {
	const post = 2560 << 10
	return Config{
		Enabled:      true,
		Database:     settings.DefaultDatabase(),
		Sweep:        settings.DefaultSweep(),
		PoolSweeper:  30 * time.Second,
		MaxNames:     100,
		CompareRate:  600,
		HawkTimeSkew: 52 * 7 * 24 * time.Hour,
		Limits: Limits{
			MaxPostBytes:          post,
			MaxPostRecords:        100,
			MaxRecordPayloadBytes: post,
			MaxRequestBytes:       post + requestOverhead,
			MaxTotalBytes:         100 * post,
			MaxTotalRecords:       10000,
			MaxQuotaLimit:         2000 << 20,
		},
	}
}

// IsEnabled implements service.Section.
func (c *Config) IsEnabled() bool { return c.Enabled }

// Check returns all invalid settings, each with its key below [syncstorage]. The minimum values are those with which
// Firefox works.
func (c *Config) Check() conf.Problems {
	problems := append(c.Database.Check(), c.Sweep.Check()...)
	add := problems.Addf
	l := &c.Limits
	for _, v := range []struct {
		key   string
		value int64
		least int64
		why   string
	}{
		{"limits.max_post_bytes", l.MaxPostBytes, 227<<10 + 1, ": with less, Firefox stops syncing"},
		{"limits.max_post_records", l.MaxPostRecords, 6, ": with less, Firefox stops syncing"},
		{"limits.max_record_payload_bytes", l.MaxRecordPayloadBytes, 1024, ": with less, Firefox stops syncing"},
		{"limits.max_total_records", l.MaxTotalRecords, l.MaxPostRecords, ", which is max_post_records"},
		{"limits.max_quota_limit", l.MaxQuotaLimit, 0, ""},
		{"limits.max_user_quota", l.MaxUserQuota, 0, ""},
		{"max_collection_names", int64(c.MaxNames), 0, ""},
		{"compare_rate", int64(c.CompareRate), 1, ""},
	} {
		if v.value < v.least {
			add(v.key, "must be at least %d%s", v.least, v.why)
		}
	}
	for name := range l.Collections {
		if !ValidCollection(name) {
			add("limits.collections", "invalid collection name %q", name)
		}
	}
	if c.HawkTimeSkew <= 0 {
		add("hawk_time_skew", "must be more than 0")
	}
	if c.PoolSweeper < 0 {
		add("database_pool_sweeper_task_interval", "must not be negative")
	}
	if c.EmulatorHost != "" && !isAddress(c.EmulatorHost) {
		add("spanner_emulator_host", "must be host:port")
	}
	return problems
}

// isAddress reports whether s is host:port.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, noPort := strconv.ParseUint(port, 10, 16)
	return err == nil && noPort == nil && host != "" && n > 0
}

// For returns the limits for a collection. Its own limits move the general ones as Follow does.
func (l Limits) For(collection string) Limits {
	o, ok := l.Collections[collection]
	if !ok {
		return l
	}
	if o.MaxPostBytes > 0 {
		l.MaxPostBytes = o.MaxPostBytes
	}
	if o.MaxRecordPayloadBytes > 0 {
		l.MaxRecordPayloadBytes = o.MaxRecordPayloadBytes
	}
	if o.MaxRequestBytes > 0 {
		l.MaxRequestBytes = o.MaxRequestBytes
	}
	l.Collections = nil
	l.Follow(o.isSet)
	return l
}

// isSet reports whether a collection has a limit of its own. It has no total.
func (o CollectionLimits) isSet(key string) bool {
	switch key {
	case keyRecord:
		return o.MaxRecordPayloadBytes > 0
	case keyPost:
		return o.MaxPostBytes > 0
	case keyRequest:
		return o.MaxRequestBytes > 0
	}
	return true
}

// Counts reports whether bytes are counted, which enforcing a quota requires.
func (c *Config) Counts() bool { return c.EnableQuota || c.EnforceQuota }

// Quota returns the configured quota; zero if bytes are not counted.
func (c *Config) Quota() Quota {
	if !c.Counts() {
		return Quota{}
	}
	return Quota{Collection: c.Limits.MaxQuotaLimit, User: c.Limits.MaxUserQuota, Enforce: c.EnforceQuota, Own: true}
}
