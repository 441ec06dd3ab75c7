package syncstorage

import (
	"fmt"
	"holdfast/internal/optional"

	"holdfast/internal/errcode"
)

// BSO field limits from the protocol.
const (
	MaxIDLength   = 64        // characters
	MaxSortIndex  = 999999999 // the minimum is its negative
	MaxTTL        = 999999999 // seconds
	MaxIDsInQuery = 100
)

// Optional is a value that clients may omit; JSON null counts as omitted.
type Optional[T any] = optional.Of[T]

// Some returns a value that is set.
func Some[T any](v T) Optional[T] { return optional.Some(v) }

// BSO is a stored record (Basic Storage Object).
type BSO struct {
	ID        string
	SortIndex Optional[int64] // unset: null for clients
	Payload   []byte          // valid UTF-8 from clients; engines store any bytes
	Modified  Timestamp
	Expiry    Timestamp // zero means never
}

// Live reports whether the record is visible at a Horizon.
func (b *BSO) Live(horizon Timestamp) bool { return b.Expiry == 0 || b.Expiry > horizon }

// Update is a client's update. Unset fields keep their value, or get the protocol's default in a new record.
type Update struct {
	ID        string
	SortIndex Optional[int64]
	Payload   Optional[[]byte]
	TTL       Optional[int64] // seconds from the write's stamp
}

// ValidID reports whether s is 1 to 64 printable ASCII characters, including space. "." and ".." are valid.
func ValidID(s string) bool {
	if s == "" || len(s) > MaxIDLength {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Check returns errcode.Invalid for fields outside the protocol's limits. The payload's size is checked by the Service.
func (u *Update) Check() error {
	switch {
	case !ValidID(u.ID):
		return errcode.New(errcode.Invalid, "invalid bso: invalid id")
	case u.SortIndex.Set && (u.SortIndex.Value > MaxSortIndex || u.SortIndex.Value < -MaxSortIndex):
		return errcode.New(errcode.Invalid, "invalid bso: invalid sortindex")
	case u.TTL.Set && (u.TTL.Value < 0 || u.TTL.Value > MaxTTL):
		return errcode.New(errcode.Invalid, "invalid bso: invalid ttl")
	}
	return nil
}

// MergeMode is the origin of an update.
type MergeMode bool

const (
	// Direct is a PUT or plain POST: sending only the TTL keeps the modified time.
	Direct MergeMode = false
	// FromBatch is a batch commit: every record gets its stamp.
	FromBatch MergeMode = true
)

// Merge returns the updated record, and by how much it changes the counters of its collection. old may be nil. The record
// shares its payload with u or old. An expired record is treated as absent, but stays in the counters
// until it is overwritten or swept.
func Merge(old *BSO, u *Update, stamp Timestamp, mode MergeMode) (BSO, Delta) {
	delta := Delta{Records: 1}
	if old != nil {
		delta = Delta{Bytes: -int64(len(old.Payload))}
	}
	b := BSO{ID: u.ID, Modified: stamp}
	if old != nil && old.Live(stamp) {
		b.SortIndex, b.Payload, b.Expiry = old.SortIndex, old.Payload, old.Expiry
		if mode == Direct && !u.Payload.Set && !u.SortIndex.Set {
			b.Modified = old.Modified
		}
	}
	if u.SortIndex.Set {
		b.SortIndex = u.SortIndex
	}
	if u.Payload.Set {
		b.Payload = u.Payload.Value
	}
	if u.TTL.Set {
		b.Expiry = ExpiresAt(stamp, u.TTL.Value)
	}
	delta.Bytes += int64(len(b.Payload))
	return b, delta
}

// Stage merges two updates in a batch. The fields of the later update win.
func Stage(old *Update, u Update) Update {
	if old == nil {
		return u
	}
	if !u.SortIndex.Set {
		u.SortIndex = old.SortIndex
	}
	if !u.Payload.Set {
		u.Payload = old.Payload
	}
	if !u.TTL.Set {
		u.TTL = old.TTL
	}
	return u
}

// Distinct merges updates with duplicate IDs, which the protocol forbids, by Stage.
func Distinct(us []Update) []Update {
	at := make(map[string]int, len(us))
	for i := range us {
		at[us[i].ID] = i
	}
	if len(at) == len(us) {
		return us
	}
	clear(at)
	merged := make([]Update, 0, len(us))
	for _, u := range us {
		if i, ok := at[u.ID]; ok {
			merged[i] = Stage(&merged[i], u)
			continue
		}
		at[u.ID] = len(merged)
		merged = append(merged, u)
	}
	return merged
}

// Delta is a change of counters.
type Delta struct {
	Records int64
	Bytes   int64
}

// Add adds up changes.
func (d Delta) Add(e Delta) Delta {
	return Delta{d.Records + e.Records, d.Bytes + e.Bytes}
}

func (d Delta) String() string { return fmt.Sprintf("%+d records, %+d bytes", d.Records, d.Bytes) }
