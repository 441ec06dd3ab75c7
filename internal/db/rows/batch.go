package rows

import (
	"io"
	"iter"
)

// Reader reads rows one after the other.
type Reader interface {
	// Next returns the next row, which is valid until the next call. After the last one it returns io.EOF.
	Next() (Packed, error)
}

// Batch holds rows of one table in a few buffers, which the garbage collector need not follow.
type Batch struct {
	columns int
	rows    int
	bytes   int
	buffers [][]byte
}

const (
	bufferSize   = 64 << 10 // of a buffer that holds many rows
	spareBuffers = 64
)

// spare are buffers to use again: without garbage the collector does not run.
var spare = make(chan []byte, spareBuffers)

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

// Free makes the batch empty. Its rows must not be used any more.
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

// Add adds a copy of a row. All rows have the same number of columns.
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

// Bytes returns the size of the rows in bytes.
func (b *Batch) Bytes() int { return b.bytes }

// Reader returns a reader of the rows in the order in which they were added. They are parts of the batch.
func (b *Batch) Reader() Reader { return &batchReader{b, 0, nil} }

type batchReader struct {
	b    *Batch
	next int // buffer
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

// All returns the rows, as Reader does, with values of their own.
func (b *Batch) All() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for r := b.Reader(); ; {
			p, err := r.Next()
			if err != nil || !yield(p.Row()) { // io.EOF: there is no other error
				return
			}
		}
	}
}
