package guest

import (
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"holdfast/internal/ident"
)

// ID is a prefix and a ULID, e.g. gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B. IDs are compared and sorted by bytes.
type ID string

// ID prefixes.
const (
	SessionPrefix = "gms_"
	SearchPrefix  = "srs_"

	UserSessionPrefix = "gus_"
	WishPrefix        = "wsh_"
	HandoffPrefix     = "bhd_"
	PageViewPrefix    = "mpv_"
	FunnelPrefix      = "cfe_"
	EventPrefix       = "evt_"
)

// NewID returns a new ID. Its 80 random bits do not follow from other IDs in the same millisecond, so session IDs
// cannot be guessed.
func NewID(prefix string, now time.Time) ID {
	return ID(prefix + ulid.MustNew(ulid.Timestamp(now), rand.Reader).String())
}

// ParseID accepts upper-case IDs with the prefix.
func ParseID(prefix, text string) (ID, bool) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return "", false
	}
	u, err := ulid.ParseStrict(digits)
	if err != nil || u.String() != digits {
		return "", false
	}
	return ID(text), true
}

// Time returns a valid ID's time, in milliseconds.
func (id ID) Time() time.Time {
	u, err := ulid.ParseStrict(string(id[strings.IndexByte(string(id), '_')+1:]))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time()).UTC()
}

// IsSampled samples one ID in rate; all if rate is 1 or less.
func (id ID) IsSampled(rate int) bool {
	if rate <= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()%uint64(rate) == 0
}

// ParseTenant returns a tenant's UUID, given as a UUID or as tnt_ and a ULID.
func ParseTenant(text string) (string, bool) {
	digits, isULID := strings.CutPrefix(text, "tnt_")
	if !isULID {
		return ident.ParseUUID(text)
	}
	u, err := ulid.ParseStrict(digits)
	if err != nil || u.String() != digits {
		return "", false
	}
	return ident.ParseUUID(fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
}
