package extstorage

import (
	"math"
	"math/bits"
	"time"
)

// Default request limits and quotas.
const (
	MaxValueBytes    = 65_536
	MaxMetadataBytes = 4_096
	MaxItems         = 20      // per bulk put or batch
	MaxItemsBytes    = 524_288 // values and metadata of all items

	MaxKeys       = 5_120
	MaxNamespaces = 32
	MaxBytes      = 256 << 20 // values and metadata per install

	MinTTL = 60 * time.Second
	MaxTTL = 30 * 24 * time.Hour
)

// Warning thresholds.
const (
	SoftTenantBytes = 2 << 30 // across a tenant's installs; never enforced
	NoticePercent   = 80
)

// Limits are request limits. Sizes are in bytes of canonical JSON.
type Limits struct {
	Value      int
	Metadata   int
	Items      int
	ItemsBytes int
	MinTTL     time.Duration // inclusive
	MaxTTL     time.Duration // inclusive
}

// DefaultLimits returns the limits of the API. They are not configurable, so that clients can rely on them.
func DefaultLimits() Limits {
	return Limits{
		Value: MaxValueBytes, Metadata: MaxMetadataBytes,
		Items: MaxItems, ItemsBytes: MaxItemsBytes,
		MinTTL: MinTTL, MaxTTL: MaxTTL,
	}
}

// Quota limits an install's data. Expired records do not count. For a Store 0 allows nothing; only in a tier or in Overrides
// it means that another quota applies.
type Quota struct {
	Bytes      int64 `toml:"bytes" unit:"bytes" doc:"Maximum size per install, counting values and metadata."`
	Namespaces int64 `toml:"namespaces" unit:"namespaces" doc:"Maximum number of namespaces with keys or schemas per install."`
	Keys       int64 `toml:"keys" unit:"keys" doc:"Maximum number of keys per namespace."`
}

// DefaultQuota returns the quota of a new configuration.
func DefaultQuota() Quota {
	return Quota{Bytes: MaxBytes, Namespaces: MaxNamespaces, Keys: MaxKeys}
}

// PercentOf returns used*100/limit without overflow.
func PercentOf(used, limit int64) int64 {
	high, low := bits.Mul64(uint64(used), 100)
	if high >= uint64(limit) {
		return math.MaxInt64
	}
	percent, _ := bits.Div64(high, low, uint64(limit))
	return int64(min(percent, math.MaxInt64))
}

// NoticeFrom returns NoticePercent of a limit, rounded down.
func NoticeFrom(limit int64) int64 { return limit/100*NoticePercent + limit%100*NoticePercent/100 }
