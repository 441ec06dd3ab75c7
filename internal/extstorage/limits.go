package extstorage

import "time"

// What an install may have, and a request may bring, where nothing else is
// configured.
const (
	MaxValueBytes    = 65_536  // of a canonical value
	MaxMetadataBytes = 4_096   // of canonical metadata
	MaxItems         = 20      // of a bulk put or a batch
	MaxItemsBytes    = 524_288 // of their values and metadata together

	MaxKeys       = 5_120     // in a namespace
	MaxNamespaces = 32        // of an install
	MaxBytes      = 256 << 20 // of an install's values and metadata

	MinTTL = 60 * time.Second
	MaxTTL = 30 * 24 * time.Hour
)

// Where users and operators are told before something is refused.
const (
	SoftTenantBytes = 2 << 30 // of all installs of a tenant, which is never refused
	NoticePercent   = 80      // of a quota
)

// Limits are what a request may bring. Sizes are of canonical JSON in bytes.
type Limits struct {
	Value      int           // of a value
	Metadata   int           // of metadata
	Items      int           // number of items of a bulk put or a batch
	ItemsBytes int           // of the values and metadata of all items together
	MinTTL     time.Duration // the least and
	MaxTTL     time.Duration // the greatest time to live, both allowed
}

// DefaultLimits are those of the API.
func DefaultLimits() Limits {
	return Limits{
		Value: MaxValueBytes, Metadata: MaxMetadataBytes,
		Items: MaxItems, ItemsBytes: MaxItemsBytes,
		MinTTL: MinTTL, MaxTTL: MaxTTL,
	}
}

// Quota is what an install may have. Rows that have expired count until they
// are removed.
type Quota struct {
	Bytes      int64 `toml:"bytes" unit:"bytes" doc:"Maximum size of the values and metadata of an install."`
	Namespaces int64 `toml:"namespaces" unit:"namespaces" doc:"Maximum number of namespaces of an install that have a key or a schema."`
	Keys       int64 `toml:"keys" unit:"keys" doc:"Maximum number of keys in one namespace."`
}

// DefaultQuota is that of an install without a tier and without overrides.
func DefaultQuota() Quota {
	return Quota{Bytes: MaxBytes, Namespaces: MaxNamespaces, Keys: MaxKeys}
}
