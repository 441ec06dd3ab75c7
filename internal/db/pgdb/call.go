package pgdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/work"
)

// Call runs a statement, a call of a function of a service, that returns one value of type
// bigint[] without NULLs. It takes half of the time that the driver needs for QueryRow,
// because the caller encodes the arguments into one buffer and no types are looked up.
// Arguments and result have the binary format, also in the simple protocol mode.
func (db *DB) Call(ctx context.Context, s Statement, a *Args) (result []int64, err error) {
	err = db.alone(ctx, s.Name, db.nodeOfCall(&s, a), func(ctx context.Context, c *pgx.Conn) error {
		result, err = call(ctx, c, s, a, db.prepares)
		return err
	})
	return result, err
}

var binaryFormat = []int16{pgtype.BinaryFormatCode}

func call(ctx context.Context, c *pgx.Conn, s Statement, a *Args, prepared bool) (result []int64, err error) {
	rows, err := begin(ctx, c, s, a, prepared)
	if err != nil {
		return nil, err
	}
	if rows.NextRow() {
		result, err = bigints(rows.Values()[0])
	}
	if _, closed := rows.Close(); closed != nil {
		return nil, closed
	}
	return result, err
}

// begin sends a statement.
func begin(ctx context.Context, c *pgx.Conn, s Statement, a *Args, prepared bool) (*pgconn.ResultReader, error) {
	if !prepared {
		return c.PgConn().ExecParams(ctx, s.SQL, a.values, nil, binaryFormat, binaryFormat), nil
	}
	known, err := c.Prepare(ctx, s.SQL, s.SQL) // a round trip only the first time
	if err != nil {
		return nil, err
	}
	return c.PgConn().ExecStatement(ctx, known, a.values, binaryFormat, binaryFormat), nil
}

// CallEach is ForEach for a statement with many rows: like Call, it looks up no types, and
// fn decodes each row, which is valid until it returns.
func (db *DB) CallEach(ctx context.Context, s Statement, a *Args, start func(), fn func(r *Row) error) error {
	return db.alone(ctx, s.Name, db.nodeOfCall(&s, a), func(ctx context.Context, c *pgx.Conn) error {
		start()
		rows, err := begin(ctx, c, s, a, db.prepares)
		if err != nil {
			return err
		}
		meter, first := work.Of(ctx), true
		var r Row
		for err == nil && rows.NextRow() {
			if first {
				first = false
				meter.Resume() // as in each
			}
			r.values = rows.Values()
			if err = fn(&r); err == nil {
				err = r.err
			}
		}
		if !first {
			meter.Wait()
		}
		if _, closed := rows.Close(); closed != nil {
			return closed
		}
		return err
	})
}

// Row is a row of CallEach. Its methods return the zero value for NULL. A value of another
// type makes CallEach fail.
type Row struct {
	values [][]byte
	err    error
}

// IsNull reports whether a value is NULL.
func (r *Row) IsNull(i int) bool { return r.values[i] == nil }

// Raw returns a text or a bytea without copying it.
func (r *Row) Raw(i int) []byte { return r.values[i] }

// Bigint returns a bigint.
func (r *Row) Bigint(i int) int64 {
	v := r.values[i]
	if v == nil || !r.has(i, 8) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(v))
}

// Micros returns a timestamptz, which is finite, in Unix microseconds.
func (r *Row) Micros(i int) int64 {
	if r.IsNull(i) {
		return 0
	}
	return r.Bigint(i) + timestampEpoch
}

// UUID returns a UUID.
func (r *Row) UUID(i int) string {
	v := r.values[i]
	if v == nil || !r.has(i, 16) {
		return ""
	}
	return pgtype.UUID{Bytes: [16]byte(v), Valid: true}.String()
}

// has checks the length of a value.
func (r *Row) has(i, length int) bool {
	ok := len(r.values[i]) == length
	if !ok && r.err == nil {
		r.err = fmt.Errorf("value %d of a row has %d bytes, want %d", i, len(r.values[i]), length)
	}
	return ok
}

// bigints decodes a bigint[] of one dimension.
func bigints(b []byte) ([]int64, error) {
	const head, element = 20, 4 + 8
	if len(b) < head || (len(b)-head)%element != 0 || binary.BigEndian.Uint32(b) != 1 || binary.BigEndian.Uint32(b[8:]) != pgtype.Int8OID {
		return nil, fmt.Errorf("%d bytes are not a bigint[]", len(b))
	}
	result := make([]int64, 0, (len(b)-head)/element)
	for e := b[head:]; len(e) > 0; e = e[element:] {
		if binary.BigEndian.Uint32(e) != 8 {
			return nil, errors.New("a bigint[] with a NULL")
		}
		result = append(result, int64(binary.BigEndian.Uint64(e[4:])))
	}
	return result, nil
}

// Args are the arguments of a Call, in the order of the parameters. Each must have the
// type to which the statement casts the parameter.
type Args struct {
	values [][]byte
	buffer []byte
}

// NewArgs returns the arguments of a statement with n parameters.
func NewArgs(n int) *Args { return &Args{values: make([][]byte, 0, n), buffer: make([]byte, 0, 16*n)} }

// add adds the value that encode appends to the buffer. Earlier values stay valid when the
// buffer grows.
func (a *Args) add(encode func(b []byte) []byte) {
	from := len(a.buffer)
	a.buffer = encode(a.buffer)
	a.values = append(a.values, a.buffer[from:len(a.buffer):len(a.buffer)])
}

// Null adds a NULL of any type.
func (a *Args) Null() { a.values = append(a.values, nil) }

// Bigint adds a bigint.
func (a *Args) Bigint(v int64) {
	a.add(func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) })
}

// Integer adds an integer.
func (a *Args) Integer(v int32) {
	a.add(func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) })
}

// Boolean adds a boolean.
func (a *Args) Boolean(v bool) {
	a.add(func(b []byte) []byte {
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	})
}

// Text adds a text.
func (a *Args) Text(v string) { a.add(func(b []byte) []byte { return append(b, v...) }) }

// Bytea adds a bytea without copying it; nil is an empty one.
func (a *Args) Bytea(v []byte) {
	if v == nil {
		v = []byte{}
	}
	a.values = append(a.values, v)
}

// timestampEpoch is the epoch of timestamp, 2000-01-01, in Unix microseconds.
const timestampEpoch = 946_684_800_000_000

// Timestamp adds a timestamp in UTC.
func (a *Args) Timestamp(v time.Time) { a.Bigint(v.UnixMicro() - timestampEpoch) }

// Bigints adds a bigint[] of n elements. element returns the i-th, false for NULL.
func (a *Args) Bigints(n int, element func(i int) (int64, bool)) {
	a.array(n, pgtype.Int8OID, 8*n, func(b []byte, i int) ([]byte, bool) {
		v, ok := element(i)
		if !ok {
			return b, false
		}
		return binary.BigEndian.AppendUint64(b, uint64(v)), true
	})
}

// Texts adds a text[] of n elements.
func (a *Args) Texts(n int, element func(i int) string) {
	size := 0
	for i := range n {
		size += len(element(i))
	}
	a.array(n, pgtype.TextOID, size, func(b []byte, i int) ([]byte, bool) { return append(b, element(i)...), true })
}

// Byteas adds a bytea[] of n elements. element returns the i-th, false for NULL.
func (a *Args) Byteas(n int, element func(i int) ([]byte, bool)) {
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

// array adds an array of n elements of the type of; size is their total size in bytes.
func (a *Args) array(n int, of uint32, size int, element func(b []byte, i int) ([]byte, bool)) {
	a.add(func(b []byte) []byte {
		b = slices.Grow(b, 20+4*n+size)
		if n == 0 {
			b = binary.BigEndian.AppendUint64(b, 0) // no dimension
			return binary.BigEndian.AppendUint32(b, of)
		}
		b = binary.BigEndian.AppendUint32(b, 1) // dimension
		b = binary.BigEndian.AppendUint32(b, 1) // there may be NULLs
		b = binary.BigEndian.AppendUint32(b, of)
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		b = binary.BigEndian.AppendUint32(b, 1) // index of the first
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
