package extstorage

import (
	"math"
	"math/bits"
	"time"
)

// Default limits of requests and default quotas of installs.
const (
	MaxValueBytes    = 65_536  // of a canonical value
	MaxMetadataBytes = 4_096   // of canonical metadata
	MaxItems         = 20      // in a bulk put or a batch
	MaxItemsBytes    = 524_288 // of their values and metadata together

	MaxKeys       = 5_120     // per namespace
	MaxNamespaces = 32        // per install
	MaxBytes      = 256 << 20 // values and metadata per install

	MinTTL = 60 * time.Second
	MaxTTL = 30 * 24 * time.Hour
)

// Thresholds at which users and operators are warned.
const (
	SoftTenantBytes = 2 << 30 // of all installs of a tenant; never enforced
	NoticePercent   = 80      // of a quota
)

// Limits are limits of a request. Sizes are bytes of canonical JSON.
type Limits struct {
	Value      int           // of a value
	Metadata   int           // of metadata
	Items      int           // in a bulk put or a batch
	ItemsBytes int           // values and metadata of all items together
	MinTTL     time.Duration // inclusive minimum of a time to live
	MaxTTL     time.Duration // inclusive maximum of a time to live
}

// DefaultLimits returns the default limits of the API.
func DefaultLimits() Limits {
	return Limits{
		Value: MaxValueBytes, Metadata: MaxMetadataBytes,
		Items: MaxItems, ItemsBytes: MaxItemsBytes,
		MinTTL: MinTTL, MaxTTL: MaxTTL,
	}
}

// Quota limits the data of an install. Expired records do not count.
type Quota struct {
	Bytes      int64 `toml:"bytes" unit:"bytes" doc:"Maximum size of the values and metadata of an install."`
	Namespaces int64 `toml:"namespaces" unit:"namespaces" doc:"Maximum number of namespaces of an install that have a key or a schema."`
	Keys       int64 `toml:"keys" unit:"keys" doc:"Maximum number of keys in one namespace."`
}

// DefaultQuota returns the quota of an install without a tier and overrides.
func DefaultQuota() Quota {
	return Quota{Bytes: MaxBytes, Namespaces: MaxNamespaces, Keys: MaxKeys}
}

// PercentOf returns used*100/limit without overflow of the product.
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
