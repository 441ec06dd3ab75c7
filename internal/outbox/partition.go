package outbox

import (
	"iter"
	"math/bits"
	"unicode/utf8"
)

// Partitions is the number of partitions. Each has its own lease, and each stream belongs
// to one of them, so one process at a time publishes the events of a stream.
const Partitions = 16

// watch is the lease for polling, which finds events that other processes left behind. No
// stream belongs to it.
const watch = Partitions

// Leases is the number of leases: one for each partition, and that for polling.
const Leases = Partitions + 1

// Partition returns the partition of a stream: the sum of the last characters of owner and
// stream as hexadecimal digits, which are random in identifiers. PostgreSQL computes the
// same in a generated column, where few hash functions are allowed.
func Partition(owner, stream string) int {
	return (digit(owner) + digit(stream)) % Partitions
}

// digit returns 0 to 15 for a hexadecimal digit, and any number for other characters.
func digit(s string) int {
	if s == "" {
		return 0
	}
	c, _ := utf8.DecodeLastRuneInString(s)
	return int(c&15 + 9*(c>>6))
}

// Parts is a set of partitions.
type Parts uint32

// allParts is the set of all partitions, without watch.
const allParts Parts = 1<<Partitions - 1

// PartsOf returns the set of the partitions.
func PartsOf(parts ...int) (set Parts) {
	for _, p := range parts {
		set |= 1 << p
	}
	return set
}

// Has reports whether a partition is in the set.
func (s Parts) Has(p int) bool { return s&(1<<p) != 0 }

// Len returns the number of partitions in the set.
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

// Split returns the maximum number of events of each partition in a batch of limit events,
// so that a busy partition does not exclude the others.
func Split(limit int, parts Parts) int { return max(limit/max(parts.Len(), 1), 1) }
