package pgdb

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Citus places a row by PostgreSQL's hash of the distribution column: hashint8 for a bigint, Bob Jenkins's lookup3
// for a UUID's 16 bytes. layout checks both on the server.

const hashLength = 16

// hashOf returns the hash of a distribution column's value: an int64 or a UUID as text. ok is false for other values.
func hashOf(value any) (hash int32, ok bool) {
	switch v := value.(type) {
	case int64:
		return hashBigint(v), true
	case string:
		var id [hashLength]byte
		if n, err := hex.Decode(id[:], []byte(strings.ReplaceAll(v, "-", ""))); len(v) == len(uuidForm) && n == hashLength && err == nil {
			return hashUUID(id), true
		}
	}
	return 0, false
}

// hashOfBinary is hashOf for an argument in binary format.
func hashOfBinary(value []byte) (hash int32, ok bool) {
	switch len(value) {
	case 8:
		return hashBigint(int64(binary.BigEndian.Uint64(value))), true
	case hashLength:
		return hashUUID([hashLength]byte(value)), true
	}
	return 0, false
}

// hashBigint is PostgreSQL's hashint8.
func hashBigint(v int64) int32 {
	low, high := uint32(v), uint32(v>>32)
	if v < 0 {
		high = ^high
	}
	a := seed(4)
	return last(a+(low^high), a, a)
}

// hashUUID is PostgreSQL's uuid_hash.
func hashUUID(id [hashLength]byte) int32 {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(id[4*i:]) }
	s := seed(hashLength)
	a, b, c := mix(s+word(0), s+word(1), s+word(2))
	return last(a+word(3), b, c)
}

// seed is lookup3's initial state for a key with this length.
func seed(length int) uint32 { return 0x9e3779b9 + uint32(length) + 3923095 }

// mix is lookup3's mix step, and last its final step; last returns c.
func mix(a, b, c uint32) (x, y, z uint32) {
	for _, by := range []int{4, 6, 8, 16, 19, 4} {
		a = (a - c) ^ bits.RotateLeft32(c, by)
		a, b, c = b, c+b, a
	}
	return a, b, c
}

func last(a, b, c uint32) int32 {
	for _, by := range []int{14, 11, 25, 16, 4, 14, 24} {
		c = (c ^ b) - bits.RotateLeft32(b, by)
		a, b, c = b, c, a
	}
	return int32(b)
}

// keyOf returns the hash for Statement.Key.
func keyOf(s *Statement, args []any) (hash int32, ok bool) {
	if len(args) > 0 {
		if _, mode := args[0].(pgx.QueryExecMode); mode {
			args = args[1:]
		}
	}
	if s.Key == 0 || s.Key > len(args) {
		return 0, false
	}
	return hashOf(args[s.Key-1])
}
