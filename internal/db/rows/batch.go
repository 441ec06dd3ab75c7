package rows

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Batch holds rows of one table in a few buffers: values of their own would be a hundred
// thousand objects that the garbage collector follows in each of its runs.
type Batch struct {
	columns int
	rows    int
	bytes   int
	buffers [][]byte
}

// bufferSize is the capacity of a buffer that holds many rows.
const bufferSize = 64 << 10

// Add adds a copy of a row. All rows have the same number of columns.
func (b *Batch) Add(r Row) {
	n := r.size()
	last := len(b.buffers) - 1
	if last < 0 || cap(b.buffers[last])-len(b.buffers[last]) < n {
		b.buffers = append(b.buffers, make([]byte, 0, max(n, bufferSize)))
		last++
	}
	b.buffers[last] = r.appendTo(b.buffers[last])
	b.columns = len(r)
	b.rows++
	b.bytes += n
}

// Len returns the number of rows.
func (b *Batch) Len() int { return b.rows }

// Bytes returns the size of the rows in bytes.
func (b *Batch) Bytes() int { return b.bytes }

// All returns the rows in the order in which they were added. A row is valid until the
// next one, its values for ever.
func (b *Batch) All() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		row := make(Row, b.columns)
		for _, buffer := range b.buffers {
			text := string(buffer)
			for at := 0; at < len(buffer); {
				for i := range row {
					row[i], at = valueAt(buffer, text, at)
				}
				if !yield(row) {
					return
				}
			}
		}
	}
}

// The kinds of values in a buffer. A text and bytes have their length before them.
const (
	ofNull byte = iota
	ofInteger
	ofText
	ofBytes
)

const sizeOfNumber = 8

// size returns the size of what appendTo appends.
func (r Row) size() (n int) {
	for _, v := range r {
		n++
		switch v := v.(type) {
		case int64:
			n += sizeOfNumber
		case string:
			n += sizeOfNumber + len(v)
		case []byte:
			n += sizeOfNumber + len(v)
		}
	}
	return n
}

// appendTo appends the values.
func (r Row) appendTo(b []byte) []byte {
	for _, v := range r {
		switch v := v.(type) {
		case nil:
			b = append(b, ofNull)
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, ofInteger), uint64(v))
		case string:
			b = append(binary.BigEndian.AppendUint64(append(b, ofText), uint64(len(v))), v...)
		case []byte:
			b = append(binary.BigEndian.AppendUint64(append(b, ofBytes), uint64(len(v))), v...)
		default:
			panic(fmt.Sprintf("rows: a value of type %T", v))
		}
	}
	return b
}

// valueAt returns the value at an offset, and the offset of the next one. text is the buffer
// as a string.
func valueAt(buffer []byte, text string, at int) (v any, next int) {
	kind := buffer[at]
	at++
	if kind == ofNull {
		return nil, at
	}
	n := int64(binary.BigEndian.Uint64(buffer[at:]))
	at += sizeOfNumber
	if kind == ofInteger {
		return n, at
	}
	next = at + int(n)
	if kind == ofBytes {
		return buffer[at:next:next], next
	}
	return text[at:next], next
}
