package outbox

import (
	"iter"
	"math/bits"
	"unicode/utf8"
)

// Partitions is the number of partitions. A stream belongs to a partition, whose lease lets a single process publish
// it.
const Partitions = 16

// watch is the polling lease, to which no stream belongs.
const watch = Partitions

// Leases is the number of leases: one per partition, and the polling lease.
const Leases = Partitions + 1

// Partition adds the last hex digits in owner and stream, which are random in identifiers.
func Partition(owner, stream string) int {
	return (digit(owner) + digit(stream)) % Partitions
}

// digit returns the value of a text's last hexadecimal digit.
func digit(s string) int {
	if s == "" {
		return 0
	}
	c, _ := utf8.DecodeLastRuneInString(s)
	return int(c&15 + 9*(c>>6))
}

// Parts is a set of partitions.
type Parts uint32

const allParts Parts = 1<<Partitions - 1

func PartsOf(parts ...int) (set Parts) {
	for _, p := range parts {
		set |= 1 << p
	}
	return set
}

func (s Parts) Has(p int) bool { return s&(1<<p) != 0 }

func (s Parts) Len() int { return bits.OnesCount32(uint32(s)) }

// All returns the partitions in order.
func (s Parts) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; s != 0; s &= s - 1 {
			if !yield(bits.TrailingZeros32(uint32(s))) {
				return
			}
		}
	}
}

// Split limits the events per partition in a batch.
func Split(limit int, parts Parts) int { return max(limit/max(parts.Len(), 1), 1) }
