package pgdb

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Args are a Call's arguments in binary format. Each method adds the next argument: param is the function's
// parameter, checked against the declaration, and the method's name is its SQL type. Methods with OrNull take NULL if
// set is false, or for an empty text or list without set. Mistakes are reported when the call runs. Make Args with
// Call.Args. They may be used for several calls, but are not safe for concurrent use. element functions are called while
// the argument is added.
type Args struct {
	values [][]byte // nil: NULL
	buffer []byte   // values that were encoded; the others are the caller's

	params   []string // names, and types if declares is set
	declares bool     // collect parameters only, see NewCall
	err      error    // the first wrong argument
}

// newArgs returns arguments for these parameters, in this order.
func newArgs(params []string) *Args {
	n := len(params)
	return &Args{values: make([][]byte, 0, n), buffer: make([]byte, 0, 16*n), params: params}
}

// begin starts an argument. It returns false if only the parameter declarations are collected, so no value is needed.
func (a *Args) begin(param, typ string) bool {
	if a.declares {
		a.params = append(a.params, param+" "+typ)
		return false
	}
	// Comparing equal constants reads only their lengths and addresses.
	if i := len(a.values); a.err == nil && (i >= len(a.params) || a.params[i] != param) {
		a.err = fmt.Errorf("argument %d is %s, want one of %v in this order", i+1, param, a.params)
	}
	return true
}

// complete returns the first mistake, or an error if arguments are missing.
func (a *Args) complete() error {
	if a.err == nil && len(a.values) != len(a.params) {
		return fmt.Errorf("%d arguments, want %d", len(a.values), len(a.params))
	}
	return a.err
}

// add appends a value. Earlier values stay valid when the buffer grows.
func (a *Args) add(encode func(b []byte) []byte) {
	from := len(a.buffer)
	a.buffer = encode(a.buffer)
	a.values = append(a.values, a.buffer[from:len(a.buffer):len(a.buffer)])
}

func (a *Args) null() { a.values = append(a.values, nil) }

// uint64 appends 8 bytes, for a bigint or a time.
func (a *Args) uint64(v uint64) {
	a.add(func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, v) })
}

func (a *Args) Bigint(param string, v int64) { a.BigintOrNull(param, v, true) }

func (a *Args) BigintOrNull(param string, v int64, set bool) {
	switch {
	case !a.begin(param, "bigint"):
	case set:
		a.uint64(uint64(v))
	default:
		a.null()
	}
}

func (a *Args) Integer(param string, v int32) {
	if a.begin(param, "integer") {
		a.add(func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) })
	}
}

func (a *Args) Boolean(param string, v bool) {
	if !a.begin(param, "boolean") {
		return
	}
	a.add(func(b []byte) []byte {
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	})
}

func (a *Args) Text(param, v string) {
	if a.begin(param, "text") {
		a.add(func(b []byte) []byte { return append(b, v...) })
	}
}

// Bytea adds a bytea without copying it, so v must not change until the call returned; nil is empty, not NULL.
func (a *Args) Bytea(param string, v []byte) { a.BytesOrNull(param, v, true) }

// BytesOrNull is Bytea, or NULL unless set.
func (a *Args) BytesOrNull(param string, v []byte, set bool) {
	if !a.begin(param, "bytea") {
		return
	}
	switch {
	case !set:
		v = nil
	case v == nil:
		v = []byte{}
	}
	a.values = append(a.values, v)
}

// UUID adds a uuid, with or without hyphens. For another text the server refuses the call with an error that is
// errcode.Internal, so check what a client sent before.
func (a *Args) UUID(param, id string) {
	if a.begin(param, "uuid") {
		a.add(func(b []byte) []byte { return appendID(b, id) })
	}
}

func (a *Args) UUIDOrNull(param, id string) {
	switch {
	case id != "":
		a.UUID(param, id)
	case a.begin(param, "uuid"):
		a.null()
	}
}

// appendID decodes a UUID's hexadecimal digits. A malformed one gets bytes that the server refuses with its usual
// error.
func appendID(b []byte, id string) []byte {
	var digits [2 * 16]byte
	n := 0
	for i := range len(id) {
		if id[i] == '-' {
			continue
		}
		if n < len(digits) {
			digits[n] = id[i]
		}
		n++
	}
	if n == len(digits) {
		if appended, err := hex.AppendDecode(b, digits[:]); err == nil {
			return appended
		}
	}
	return append(b, "not a UUID"...)
}

// JSONB adds a jsonb in its binary format, version 1; nil is NULL.
func (a *Args) JSONB(param string, v []byte) {
	switch {
	case !a.begin(param, "jsonb"):
	case v == nil:
		a.null()
	default:
		a.add(func(b []byte) []byte { return append(append(b, 1), v...) })
	}
}

// timestampEpoch is PostgreSQL's epoch, 2000-01-01, in Unix microseconds.
const timestampEpoch = 946_684_800_000_000

// Timestamp adds a timestamp in UTC. All times are rounded down to microseconds; the zero time is the year 1, not NULL.
func (a *Args) Timestamp(param string, v time.Time) { a.TimestampOrNull(param, v, true) }

func (a *Args) TimestampOrNull(param string, v time.Time, set bool) {
	a.time(param, "timestamp", v, set)
}

func (a *Args) Timestamptz(param string, v time.Time) { a.TimestamptzOrNull(param, v, true) }

func (a *Args) TimestamptzOrNull(param string, v time.Time, set bool) {
	a.time(param, "timestamptz", v, set)
}

// time adds microseconds since timestampEpoch.
func (a *Args) time(param, typ string, v time.Time, set bool) {
	switch {
	case !a.begin(param, typ):
	case set:
		a.uint64(uint64(v.UnixMicro() - timestampEpoch))
	default:
		a.null()
	}
}

// Bigints adds a bigint[]. element returns false for NULL.
func (a *Args) Bigints(param string, n int, element func(i int) (int64, bool)) {
	if !a.begin(param, "bigint[]") {
		return
	}
	a.array(n, pgtype.Int8OID, 8*n, func(b []byte, i int) ([]byte, bool) {
		v, ok := element(i)
		if !ok {
			return b, false
		}
		return binary.BigEndian.AppendUint64(b, uint64(v)), true
	})
}

func (a *Args) Integers(param string, n int, element func(i int) int32) {
	if !a.begin(param, "integer[]") {
		return
	}
	a.array(n, pgtype.Int4OID, 4*n, func(b []byte, i int) ([]byte, bool) {
		return binary.BigEndian.AppendUint32(b, uint32(element(i))), true
	})
}

// Texts adds a text[] with n elements, which element returns; it is called twice for each.
func (a *Args) Texts(param string, n int, element func(i int) string) {
	if !a.begin(param, "text[]") {
		return
	}
	size := 0
	for i := range n {
		size += len(element(i))
	}
	a.array(n, pgtype.TextOID, size, func(b []byte, i int) ([]byte, bool) { return append(b, element(i)...), true })
}

// TextsOrNull adds a text[]; an empty list is NULL.
func (a *Args) TextsOrNull(param string, all []string) {
	switch {
	case len(all) > 0:
		a.Texts(param, len(all), func(i int) string { return all[i] })
	case a.begin(param, "text[]"):
		a.null()
	}
}

// UUIDsOrNull adds a uuid[]; an empty list is NULL.
func (a *Args) UUIDsOrNull(param string, all []string) {
	switch {
	case !a.begin(param, "uuid[]"):
	case len(all) == 0:
		a.null()
	default:
		a.array(len(all), pgtype.UUIDOID, 16*len(all), func(b []byte, i int) ([]byte, bool) { return appendID(b, all[i]), true })
	}
}

// Byteas adds a bytea[]. element returns false for NULL, and must return the same value when called twice.
func (a *Args) Byteas(param string, n int, element func(i int) ([]byte, bool)) {
	if !a.begin(param, "bytea[]") {
		return
	}
	size := 0
	for i := range n {
		v, _ := element(i)
		size += len(v)
	}
	a.array(n, pgtype.ByteaOID, size, func(b []byte, i int) ([]byte, bool) {
		v, ok := element(i)
		return append(b, v...), ok
	})
}

// array encodes a one-dimensional array: dimensions, a flag for NULLs, the element type, the length, the lower bound,
// and each element with its length (PostgreSQL's array_send). size is the expected number of bytes, all elements
// together.
func (a *Args) array(n int, of uint32, size int, element func(b []byte, i int) ([]byte, bool)) {
	a.add(func(b []byte) []byte {
		b = slices.Grow(b, 20+4*n+size)
		if n == 0 {
			b = binary.BigEndian.AppendUint64(b, 0)
			return binary.BigEndian.AppendUint32(b, of)
		}
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, of)
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		b = binary.BigEndian.AppendUint32(b, 1)
		for i := range n {
			at := len(b)
			b = binary.BigEndian.AppendUint32(b, 0)
			var ok bool
			if b, ok = element(b, i); ok {
				binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
			} else {
				b = append(b[:at], 0xff, 0xff, 0xff, 0xff)
			}
		}
		return b
	})
}
