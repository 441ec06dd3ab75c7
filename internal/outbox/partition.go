package outbox

import (
	"iter"
	"math/bits"
	"unicode/utf8"
)

// Partitions is the number of partitions, each with a lease of its own. A stream
// belongs to one of them, so its events are published by one process at a time.
const Partitions = 16

// watch is the lease of the one process that looks for events which others left
// behind. No stream belongs to it.
const watch = Partitions

// Leases is the number of leases: one for each partition, and that of the watch.
const Leases = Partitions + 1

// Partition returns the partition of a stream: the sum of what the last
// characters of owner and stream are as hexadecimal digits. Identifiers are
// random there. PostgreSQL computes the same in a generated column, where few
// hash functions may be used.
func Partition(owner, stream string) int {
	return (digit(owner) + digit(stream)) % Partitions
}

// digit is 0 to 15 for hexadecimal digits, and some number for other characters.
func digit(s string) int {
	if s == "" {
		return 0
	}
	c, _ := utf8.DecodeLastRuneInString(s)
	return int(c&15 + 9*(c>>6))
}

// Parts is a set of partitions.
type Parts uint32

// allParts is every partition, without the watch.
const allParts Parts = 1<<Partitions - 1

// PartsOf returns a set.
func PartsOf(parts ...int) (set Parts) {
	for _, p := range parts {
		set |= 1 << p
	}
	return set
}

// Has reports whether a partition is in the set.
func (s Parts) Has(p int) bool { return s&(1<<p) != 0 }

// Len is the number of partitions in the set.
func (s Parts) Len() int { return bits.OnesCount32(uint32(s)) }

// All yields the partitions in ascending order.
func (s Parts) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; s != 0; s &= s - 1 {
			if !yield(bits.TrailingZeros32(uint32(s))) {
				return
			}
		}
	}
}

// Split returns how many events of each partition make up a batch, so that one
// busy partition does not keep the others out of it.
func Split(limit int, parts Parts) int { return max(limit/max(parts.Len(), 1), 1) }
