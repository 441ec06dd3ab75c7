package rows

import (
	"io"
	"iter"
)

// Reader returns rows one by one, e.g. for Update.Insert.
type Reader interface {
	// Next returns a row, valid until the next call, or io.EOF.
	Next() (Packed, error)
}

// Batch stores a table's rows in a few buffers, which the garbage collector need not scan.
type Batch struct {
	columns int
	rows    int
	bytes   int
	buffers [][]byte
}

const (
	bufferSize   = 64 << 10
	spareBuffers = 64
)

// spare contains buffers for reuse: without garbage the collector does not run.
var spare = make(chan []byte, spareBuffers)

// newBuffer returns a buffer for a row with n bytes, a spare one if possible.
func newBuffer(n int) []byte {
	if n <= bufferSize {
		select {
		case b := <-spare:
			return b
		default:
		}
	}
	return make([]byte, 0, max(n, bufferSize))
}

// Free empties the batch and invalidates its rows.
func (b *Batch) Free() {
	for _, buffer := range b.buffers {
		if cap(buffer) != bufferSize {
			continue
		}
		select {
		case spare <- buffer[:0]:
		default:
		}
	}
	*b = Batch{}
}

// Add copies a row. All rows need the same number of columns.
func (b *Batch) Add(p Packed) {
	last := len(b.buffers) - 1
	if last < 0 || cap(b.buffers[last])-len(b.buffers[last]) < len(p) {
		b.buffers = append(b.buffers, newBuffer(len(p)))
		last++
	}
	if b.rows == 0 {
		for rest := p; len(rest) > 0; b.columns++ {
			_, rest = rest.Cut()
		}
	}
	b.buffers[last] = append(b.buffers[last], p...)
	b.rows++
	b.bytes += len(p)
}

// Len returns the number of rows.
func (b *Batch) Len() int { return b.rows }

// Bytes returns the rows' size in memory.
func (b *Batch) Bytes() int { return b.bytes }

// Reader reads the rows in insertion order. They share the batch's memory.
func (b *Batch) Reader() Reader { return &batchReader{b, 0, nil} }

type batchReader struct {
	b    *Batch
	next int
	rest Packed
}

func (r *batchReader) Next() (Packed, error) {
	for len(r.rest) == 0 {
		if r.next == len(r.b.buffers) {
			return nil, io.EOF
		}
		r.rest = r.b.buffers[r.next]
		r.next++
	}
	row := r.rest.First(r.b.columns)
	r.rest = r.rest[len(row):]
	return row, nil
}

// All returns the rows unpacked, in insertion order.
func (b *Batch) All() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for r := b.Reader(); ; {
			p, err := r.Next()
			if err != nil || !yield(p.Row()) {
				return
			}
		}
	}
}
