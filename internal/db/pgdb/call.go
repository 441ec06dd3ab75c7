package pgdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/work"
)

// Call runs a function that returns a single bigint[] without NULLs; no row yields nil. The result belongs to the caller.
// Call takes half as long as the driver's QueryRow: it encodes arguments into a single buffer and looks up no types. It is
// a transaction, and tries again like Exec.
func (db *DB) Call(ctx context.Context, s Statement, a *Args) (result []int64, err error) {
	err = db.alone(ctx, s.Name, db.nodeOfCall(&s, a), func(ctx context.Context, c *pgx.Conn) error {
		result, err = call(ctx, c, s, a, db.prepares)
		return err
	})
	return result, err
}

// binaryFormat selects the binary format for all arguments or results.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// call runs a Call on a connection; prepared uses the driver's prepared statements.
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

// begin sends a Call.
func begin(ctx context.Context, c *pgx.Conn, s Statement, a *Args, prepared bool) (*pgconn.ResultReader, error) {
	if err := a.complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	if !prepared {
		return c.PgConn().ExecParams(ctx, s.SQL, a.values, nil, binaryFormat, binaryFormat), nil
	}
	known, err := c.Prepare(ctx, s.SQL, s.SQL)
	if err != nil {
		return nil, err
	}
	return c.PgConn().ExecStatement(ctx, known, a.values, binaryFormat, binaryFormat), nil
}

// CallEach calls fn for each row that the statement returns. It is like ForEach, but looks up no types: fn reads
// columns by position. The row, with slices from Raw, is valid until fn returns. fn must not call db. start, which must
// not be nil, is called before each try and must discard earlier rows.
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
				meter.Resume()
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

// Row is a row of CallEach. NULL reads as the zero value; reading a column as another type makes CallEach fail.
type Row struct {
	values [][]byte // nil: NULL
	err    error    // the first wrong column
}

func (r *Row) IsNull(i int) bool { return r.values[i] == nil }

// Raw returns a text or bytea without copying it: copy it to keep it after fn returned. NULL is nil.
func (r *Row) Raw(i int) []byte { return r.values[i] }

// Bigint returns column i, from 0.
func (r *Row) Bigint(i int) int64 {
	v := r.values[i]
	if v == nil || !r.has(i, 8) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(v))
}

// Micros returns a finite timestamptz in Unix microseconds.
func (r *Row) Micros(i int) int64 {
	if r.IsNull(i) {
		return 0
	}
	return r.Bigint(i) + timestampEpoch
}

// UUID returns a UUID with hyphens.
func (r *Row) UUID(i int) string {
	v := r.values[i]
	if v == nil || !r.has(i, 16) {
		return ""
	}
	return pgtype.UUID{Bytes: [16]byte(v), Valid: true}.String()
}

// has reports whether column i is so long, and otherwise makes CallEach fail.
func (r *Row) has(i, length int) bool {
	ok := len(r.values[i]) == length
	if !ok && r.err == nil {
		r.err = fmt.Errorf("value %d of a row has %d bytes, want %d", i, len(r.values[i]), length)
	}
	return ok
}

// bigints decodes a bigint[] without NULLs.
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
