package syncstorage

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// Config is the section [syncstorage]. Names are those of the reference
// server where it has the setting.
type Config struct {
	Enabled      bool   `toml:"enabled" doc:"Serve Firefox Sync storage."`
	DatabaseURL  string `toml:"database_url" secret:"true" doc:"Where the records are: sqlite:PATH, postgres://… or spanner://projects/P/instances/I/databases/D; empty: syncstorage.db in the data folder."`
	EnableQuota  bool   `toml:"enable_quota" doc:"Hold a user's bytes against limits.max_quota_limit and report who is over it."`
	EnforceQuota bool   `toml:"enforce_quota" doc:"Refuse writes that would exceed the quota (implies enable_quota)."`

	PoolMaxSize           int           `toml:"database_pool_max_size" doc:"Most connections to the database; on Spanner, most transactions under way."`
	PoolConnectionTimeout time.Duration `toml:"database_pool_connection_timeout" doc:"How long a request waits for a connection, or on Spanner for its turn, before it is answered with 503."`
	StatementTimeout      time.Duration `toml:"database_statement_timeout" doc:"How long PostgreSQL may take for a statement, waiting for locks included, or Spanner for a transaction with all its tries, before the request is answered with 503."`
	PoolLifespan          time.Duration `toml:"database_pool_connection_lifespan" doc:"Age at which a connection is replaced; 0: never. Without effect on Spanner."`
	PoolMaxIdle           time.Duration `toml:"database_pool_connection_max_idle" doc:"How long a connection may be idle before it is closed; 0: the driver's default. Without effect on Spanner."`
	PoolSweeper           time.Duration `toml:"database_pool_sweeper_task_interval" doc:"Accepted and without effect: Spanner's client has no pool of sessions to sweep any more."`
	RouteToLeader         bool          `toml:"database_spanner_route_to_leader" doc:"Send Spanner's read-write transactions straight to the leader replica: writes take less time, and the load is spread less."`
	EmulatorHost          string        `toml:"spanner_emulator_host" doc:"host:port of Spanner's emulator, which is then used instead of Google Cloud, in plain text and without credentials. For tests."`

	MaxNames      int           `toml:"max_collection_names" doc:"How many collection names that are new to the server one user may bring in."`
	SweepEvery    time.Duration `toml:"sweep_interval" doc:"How often expired records and batches are removed; 0: only by the command sweep. Without effect on Spanner, which removes them by itself."`
	SweepAfter    time.Duration `toml:"sweep_after" doc:"How long after its end a record or batch is removed; until then it is only invisible. A clock that is wrong by less, for a while or on one of several servers, destroys nothing. Without effect on Spanner."`
	SweepLimit    int           `toml:"sweep_limit" doc:"Most rows that one step of the sweep removes. Without effect on Spanner."`
	HawkTimeSkew  time.Duration `toml:"hawk_time_skew" doc:"How far a client's clock may be off. Clients with wrong clocks are common."`
	Limits        Limits        `toml:"limits" doc:"What one request, batch and user may hold. Clients read them from info/configuration."`
	DocumentsLink string        `toml:"documents_link" doc:"Where a browser that opens the root of the server is sent."`
}

// Limits bound requests; see info/configuration. Sizes of records are those of
// their payloads.
type Limits struct {
	MaxPostBytes          int64 `toml:"max_post_bytes" unit:"bytes" doc:"Payloads in one POST."`
	MaxPostRecords        int64 `toml:"max_post_records" unit:"records" doc:"Records in one POST."`
	MaxRecordPayloadBytes int64 `toml:"max_record_payload_bytes" unit:"bytes" doc:"Payload of one record."`
	MaxRequestBytes       int64 `toml:"max_request_bytes" unit:"bytes" doc:"Body of one request."`
	MaxTotalBytes         int64 `toml:"max_total_bytes" unit:"bytes" doc:"Payloads in one batch; on Spanner 100000000 at most."`
	MaxTotalRecords       int64 `toml:"max_total_records" unit:"records" doc:"Records in one batch. On Spanner 9984 unless set, and no more than fit into one commit: holdfast sync budget."`
	MaxQuotaLimit         int64 `toml:"max_quota_limit" unit:"bytes" doc:"Payloads that one user may store, with enable_quota."`

	Collections map[string]CollectionLimits `toml:"collections" doc:"Limits of single collections, by name."`
}

// CollectionLimits override Limits in one collection; 0 leaves the general
// limit.
type CollectionLimits struct {
	MaxPostBytes          int64 `toml:"max_post_bytes" unit:"bytes" doc:"Payloads in one POST."`
	MaxRecordPayloadBytes int64 `toml:"max_record_payload_bytes" unit:"bytes" doc:"Payload of one record."`
	MaxRequestBytes       int64 `toml:"max_request_bytes" unit:"bytes" doc:"Body of one request."`
}

// requestOverhead is what the JSON around the payloads of a POST may take.
const requestOverhead = 4096

// DefaultConfig is the room as it runs without a word of configuration.
func DefaultConfig() Config {
	const post = 2560 << 10
	return Config{
		Enabled:               true,
		PoolMaxSize:           10,
		PoolConnectionTimeout: 30 * time.Second,
		PoolSweeper:           30 * time.Second,
		StatementTimeout:      30 * time.Second,
		MaxNames:              100,
		SweepEvery:            time.Minute,
		SweepAfter:            24 * time.Hour, // more than any two time zones are apart, were one taken for another
		SweepLimit:            500,
		HawkTimeSkew:          52 * 7 * 24 * time.Hour,
		DocumentsLink:         "https://mozilla-services.readthedocs.io/en/latest/storage/apis-1.5.html",
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

// Check returns everything that is wrong with the section, each with the key
// first.
func (c *Config) Check() []error {
	var errs []error
	wrong := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s %s", key, fmt.Sprintf(format, args...)))
	}
	l := &c.Limits
	for _, v := range []struct {
		key   string
		value int64
		least int64
	}{
		// Clients stop syncing below these, instead of sending less at once.
		{"limits.max_post_bytes", l.MaxPostBytes, 227<<10 + 1},
		{"limits.max_post_records", l.MaxPostRecords, 6},
		{"limits.max_record_payload_bytes", l.MaxRecordPayloadBytes, 1024},
		{"limits.max_total_bytes", l.MaxTotalBytes, l.MaxPostBytes},
		{"limits.max_total_records", l.MaxTotalRecords, l.MaxPostRecords},
		{"limits.max_quota_limit", l.MaxQuotaLimit, 0},
		{"database_pool_max_size", int64(c.PoolMaxSize), 1},
		{"max_collection_names", int64(c.MaxNames), 0},
		{"sweep_limit", int64(c.SweepLimit), 1},
	} {
		if v.value < v.least {
			wrong(v.key, "is %d; it must be at least %d", v.value, v.least)
		}
	}
	if l.MaxRequestBytes < l.MaxPostBytes+requestOverhead {
		wrong("limits.max_request_bytes", "is %d; a full POST needs max_post_bytes + %d = %d",
			l.MaxRequestBytes, requestOverhead, l.MaxPostBytes+requestOverhead)
	}
	for name := range l.Collections {
		if !ValidCollection(name) {
			wrong("limits.collections", "names %q, which is no collection name", name)
			continue
		}
		if of := l.For(name); of.MaxRequestBytes < of.MaxPostBytes+requestOverhead {
			wrong("limits.collections."+name, "allows requests of %d bytes; a full POST needs %d",
				of.MaxRequestBytes, of.MaxPostBytes+requestOverhead)
		}
	}
	for key, d := range map[string]time.Duration{
		"database_pool_connection_timeout": c.PoolConnectionTimeout, "database_statement_timeout": c.StatementTimeout,
		"hawk_time_skew": c.HawkTimeSkew,
	} {
		if d <= 0 {
			wrong(key, "must be more than 0")
		}
	}
	for key, d := range map[string]time.Duration{
		"sweep_interval": c.SweepEvery, "sweep_after": c.SweepAfter, "database_pool_connection_lifespan": c.PoolLifespan, "database_pool_connection_max_idle": c.PoolMaxIdle,
		"database_pool_sweeper_task_interval": c.PoolSweeper,
	} {
		if d < 0 {
			wrong(key, "must not be negative")
		}
	}
	if c.EmulatorHost != "" && !isAddress(c.EmulatorHost) {
		wrong("spanner_emulator_host", "is no address of the form host:port")
	}
	return errs
}

func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, noPort := strconv.ParseUint(port, 10, 16)
	return err == nil && noPort == nil && host != "" && n > 0
}

// For is the limits in a collection.
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
	return l
}

// Counts reports whether bytes are counted; enforcing implies it.
func (c *Config) Counts() bool { return c.EnableQuota || c.EnforceQuota }

// Quota is the configured quota.
func (c *Config) Quota() Quota {
	if !c.Counts() {
		return Quota{}
	}
	return Quota{Limit: c.Limits.MaxQuotaLimit, Enforce: c.EnforceQuota}
}
