package pgdb

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/rows"
)

// PostgreSQL's binary format counts microseconds from 2000-01-01; the minimum and maximum integers are -infinity and
// infinity.
const (
	microsOf2000  = 946_684_800_000_000
	microsOfMilli = 1000
)

// reader converts PostgreSQL's rows to packed rows.
type reader struct {
	columns []rows.Column
	types   *pgtype.Map
	packed  rows.Packed // reused for each row
}

// each calls fn for all rows.
func (r *reader) each(result pgx.Rows, fn func(rows.Packed) error) error {
	defer result.Close()
	for result.Next() {
		if err := r.read(result); err != nil {
			return err
		}
		if err := fn(r.packed); err != nil {
			return err
		}
	}
	return result.Err()
}

// read converts a row. The frequent types are decoded here: the driver's values would make garbage for each row.
func (r *reader) read(result pgx.Rows) (err error) {
	p, fields := r.packed[:0], result.FieldDescriptions()
	for i, raw := range result.RawValues() {
		c := r.columns[i]
		switch isBinary := fields[i].Format == pgx.BinaryFormatCode; {
		case raw == nil:
			p = p.AppendNull()
		case c.Kind == rows.JSON, c.Kind == rows.Map, c.Kind == rows.Texts, c.Kind == rows.UUIDs:
			p, err = p.AppendTextBy(func(b []byte) ([]byte, error) { return canonjson.AppendRestored(b, raw) })
		case c.Kind == rows.UUID && isBinary:
			var space []byte
			p, space = p.AppendSpace(true, len(uuidForm))
			formatUUID(space, raw)
		case c.Kind == rows.Text, c.Kind == rows.UUID, c.Kind == rows.RawJSON, c.Kind == rows.Date:
			p = p.AppendText(raw)
		case c.Kind == rows.Bytes && isBinary:
			p = p.AppendBytes(raw)
		case (c.Kind == rows.Integer || c.Kind == rows.Bool) && isBinary:
			p = p.AppendInteger(int64(binary.BigEndian.Uint64(raw)))
		case (c.Kind == rows.Millis || c.Kind == rows.MillisUTC || c.Kind == rows.Micros) && isBinary:
			var at int64
			at, err = moment(int64(binary.BigEndian.Uint64(raw)), c)
			p = p.AppendInteger(at)
		default:
			target := newTarget(c.Kind)
			if err = r.types.Scan(fields[i].DataTypeOID, fields[i].Format, raw, target); err == nil {
				var v any
				v, err = value(target, c)
				p = p.Append(v)
			}
		}
		if err != nil {
			return err
		}
	}
	r.packed = p
	return nil
}

// moment converts microseconds since 2000 to the column's unit.
func moment(micros int64, c rows.Column) (int64, error) {
	if micros == math.MinInt64 || micros == math.MaxInt64 {
		return 0, fmt.Errorf("%s is infinite", c.Name)
	}
	micros += microsOf2000
	if c.Kind == rows.Micros {
		return micros, nil
	}
	millis := micros / microsOfMilli
	if micros%microsOfMilli < 0 {
		millis--
	}
	return millis, nil
}

// copyReader encodes packed rows as COPY's binary format.
type copyReader struct {
	columns []rows.Column
	oids    []uint32 // column types in the database
	types   *pgtype.Map
	rows    rows.Reader
	left    []byte // encoded and not read yet
	buffer  []byte
	ended   bool
}

const (
	sizeOfBuffer = 32 << 10
	copyHeader   = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)

func (r *copyReader) Read(into []byte) (int, error) {
	if len(r.left) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(into, r.left)
	r.left = r.left[n:]
	return n, nil
}

// fill encodes rows until the buffer is full.
func (r *copyReader) fill() error {
	b := r.buffer[:0]
	if r.buffer == nil {
		b = append(make([]byte, 0, sizeOfBuffer), copyHeader...)
	}
	for len(b) < sizeOfBuffer && !r.ended {
		row, err := r.rows.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if errors.Is(err, io.EOF) {
			b = binary.BigEndian.AppendUint16(b, math.MaxUint16)
			r.ended = true
			break
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(r.columns)))
		for i, c := range r.columns {
			var v rows.Value
			v, row = row.Cut()
			var err error
			if b, err = r.append(b, c, r.oids[i], v); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
	}
	r.buffer, r.left = b, b
	return nil
}

var errRange = errors.New("PostgreSQL cannot store the value in this column")

// append encodes a value with its length. Values of the frequent kinds need no driver.
func (r *copyReader) append(b []byte, c rows.Column, oid uint32, v rows.Value) ([]byte, error) {
	if v.IsNull() {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32), nil
	}
	switch c.Kind {
	case rows.Integer:
		switch n := v.Integer; {
		case oid == pgtype.Int8OID:
			return binary.BigEndian.AppendUint64(length(b, 8), uint64(n)), nil
		case oid == pgtype.Int4OID && n == int64(int32(n)):
			return binary.BigEndian.AppendUint32(length(b, 4), uint32(n)), nil
		case oid == pgtype.Int2OID && n == int64(int16(n)):
			return binary.BigEndian.AppendUint16(length(b, 2), uint16(n)), nil
		}
		return b, errRange
	case rows.Bool:
		return append(length(b, 1), byte(v.Integer)), nil
	case rows.Millis, rows.MillisUTC:
		if v.Integer > math.MaxInt64/microsOfMilli || v.Integer < (math.MinInt64+microsOf2000)/microsOfMilli {
			return b, errRange
		}
		return binary.BigEndian.AppendUint64(length(b, 8), uint64(v.Integer*microsOfMilli-microsOf2000)), nil
	case rows.Micros:
		if v.Integer < math.MinInt64+microsOf2000 {
			return b, errRange
		}
		return binary.BigEndian.AppendUint64(length(b, 8), uint64(v.Integer-microsOf2000)), nil
	case rows.Text, rows.RawJSON, rows.Bytes:
		return append(length(b, len(v.Data)), v.Data...), nil
	case rows.JSON:
		return append(append(length(b, 1+len(v.Data)), 1), v.Data...), nil
	case rows.UUID:
		return appendUUID(length(b, len(pgtype.UUID{}.Bytes)), v.Data)
	case rows.Map, rows.Texts, rows.UUIDs, rows.Date, rows.Real:
	}
	value, err := argument(c.Kind, string(v.Data), true)
	if err != nil {
		return b, err
	}
	before := len(b)
	if b, err = r.types.Encode(oid, pgx.BinaryFormatCode, value, length(b, 0)); err != nil {
		return b, err
	}
	binary.BigEndian.PutUint32(b[before:], uint32(len(b)-before-4))
	return b, nil
}

// length appends a value's length.
func length(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

const uuidForm = "00000000-0000-0000-0000-000000000000"

// formatUUID writes a UUID's 16 bytes as text.
func formatUUID(into, id []byte) {
	copy(into, uuidForm)
	for at := 0; len(id) > 0; id = id[1:] {
		if uuidForm[at] == '-' {
			at++
		}
		hex.Encode(into[at:], id[:1])
		at += 2
	}
}

// appendUUID decodes a UUID in text form.
func appendUUID(b, text []byte) ([]byte, error) {
	before := len(b)
	for len(text) > 1 {
		if text[0] == '-' {
			text = text[1:]
			continue
		}
		var err error
		if b, err = hex.AppendDecode(b, text[:2]); err != nil {
			break
		}
		text = text[2:]
	}
	if len(text) > 0 || len(b)-before != len(pgtype.UUID{}.Bytes) {
		return b, errNotUUID
	}
	return b, nil
}
