package copying

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"

	"holdfast/internal/db/rows"
)

const (
	sizeOfPiece   = 64 << 10 // a buffer's size
	piecesOfPipe  = 256      // at most, so that small tables do not wait
	bytesOfPipe   = 2 << 20  // in memory
	bytesOfUpdate = 16 << 20 // per transaction, which is written while its rows are read
)

// pipe passes rows from a reader to another database's writer, with bounded memory. Spans begin and end with a piece
// of their own.
type pipe struct {
	ctx    context.Context //nolint:containedctx // a pipe is of one copy; readers of rows have no context
	pieces chan piece
	bytes  *semaphore.Weighted
	spare  chan []byte // reused buffers: without garbage the collector does not run
	sent   int64       // bytes
	err    error       // why the reader ended; valid when pieces is closed
}

// piece is a buffer with one table's rows, or begins or ends a span.
type piece struct {
	begins, ends *copiedSpan

	table *rows.Table
	isRaw bool // data is from RawView.Dump; otherwise length-prefixed rows
	rows  int
	data  []byte
}

// newPipe returns a pipe that ends with ctx.
func newPipe(ctx context.Context) *pipe {
	return &pipe{
		ctx: ctx, pieces: make(chan piece, piecesOfPipe), bytes: semaphore.NewWeighted(bytesOfPipe),
		spare: make(chan []byte, bytesOfPipe/sizeOfPiece),
	}
}

// close ends the pipe; err nil means that everything was sent.
func (p *pipe) close(err error) {
	p.err = err
	close(p.pieces)
}

// weight is a piece's share in the pipe's memory, in bytes. A row may be larger than the whole pipe.
func weight(x piece) int64 { return int64(min(cap(x.data), bytesOfPipe)) }

// send waits for memory, and for the writer.
func (p *pipe) send(x piece) error {
	if err := p.bytes.Acquire(p.ctx, weight(x)); err != nil {
		return err
	}
	select {
	case p.pieces <- x:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// free returns a piece's memory. Its buffer is used again.
func (p *pipe) free(x piece) {
	p.bytes.Release(weight(x))
	if cap(x.data) != sizeOfPiece {
		return
	}
	select {
	case p.spare <- x.data[:0]:
	default:
	}
}

// buffer returns an empty buffer.
func (p *pipe) buffer() []byte {
	select {
	case b := <-p.spare:
		return b
	default:
		return make([]byte, 0, sizeOfPiece)
	}
}

// sender collects a table's rows into pieces. It is an io.Writer for raw rows.
type sender struct {
	*pipe

	table *rows.Table
	isRaw bool
	rows  int // in data; for raw rows set at the end
	data  []byte
}

const sizeOfLength = 4 // bytes before each row that is not raw

// add copies a row to the piece.
func (s *sender) add(p rows.Packed) error {
	if err := s.reserve(sizeOfLength + len(p)); err != nil {
		return err
	}
	s.data = append(binary.BigEndian.AppendUint32(s.data, uint32(len(p))), p...)
	s.rows++
	return nil
}

func (s *sender) Write(b []byte) (int, error) {
	if err := s.reserve(len(b)); err != nil {
		return 0, err
	}
	s.data = append(s.data, b...)
	return len(b), nil
}

// reserve sends the piece if n more bytes do not fit.
func (s *sender) reserve(n int) error {
	if len(s.data) > 0 && len(s.data)+n > cap(s.data) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.data == nil {
		s.data = s.buffer()
	}
	return nil
}

// flush sends the last piece.
func (s *sender) flush() error {
	if len(s.data) == 0 {
		return nil
	}
	x := piece{table: s.table, isRaw: s.isRaw, rows: s.rows, data: s.data}
	s.data, s.rows, s.sent = nil, 0, s.sent+int64(len(x.data))
	return s.send(x)
}

// receiver hands pieces to the target: as rows, or as an io.Reader for raw rows. It stops when a table, a span or a
// transaction ends.
type receiver struct {
	*pipe

	now   piece // the current piece, if isNow
	isNow bool
	at    int         // position in its data
	table *rows.Table // the running insert's table
	isRaw bool
	rows  int // of the transaction
	left  int // bytes that the transaction may still take
}

// peek returns the current piece, or waits for the next. io.EOF means that the pipe has ended.
func (r *receiver) peek() (*piece, error) {
	if r.isNow && r.now.table != nil && r.at == len(r.now.data) {
		r.take()
	}
	if r.isNow {
		return &r.now, nil
	}
	select {
	case x, ok := <-r.pieces:
		if ok {
			r.now, r.isNow, r.at = x, true, 0
			return &r.now, nil
		}
		if r.err != nil {
			return nil, r.err
		}
		return nil, io.EOF
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
}

// take frees the current piece.
func (r *receiver) take() {
	r.free(r.now)
	r.now, r.isNow = piece{}, false
}

// span returns the next span, or nil when the pipe has ended.
func (r *receiver) span() (*copiedSpan, error) {
	x, err := r.peek()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := x.begins
	r.take()
	return s, nil
}

// load inserts rows until the span ends or the transaction is large enough. n counts rows; ended reports that the
// span ended.
func (r *receiver) load(u rows.Update) (n int, ended bool, err error) {
	r.rows, r.left = 0, bytesOfUpdate
	for {
		x, err := r.peek()
		switch {
		case err != nil:
			return 0, false, err
		case x.ends != nil:
			r.take()
			return r.rows, true, nil
		case r.left <= 0:
			return r.rows, false, nil
		}
		r.table, r.isRaw = x.table, x.isRaw
		if x.isRaw {
			err = unwrap(u).(rows.RawUpdate).Load(r, x.table)
		} else {
			err = u.Insert(x.table, r)
		}
		if err != nil {
			return 0, false, fmt.Errorf("%s: %w", r.table.Name, err)
		}
	}
}

// each calls fn for a span's rows, which fn must not keep.
func (r *receiver) each(fn func(*rows.Table, rows.Packed) error) error {
	for {
		x, err := r.peek()
		if err != nil {
			return err
		}
		if x.ends != nil {
			r.take()
			return nil
		}
		if err := fn(x.table, r.cut()); err != nil {
			return err
		}
	}
}

// cut returns the current piece's next row, which is valid until the next call.
func (r *receiver) cut() rows.Packed {
	begin := r.at + sizeOfLength
	r.at = begin + int(binary.BigEndian.Uint32(r.now.data[r.at:]))
	r.rows, r.left = r.rows+1, r.left-(r.at-begin)
	return rows.Packed(r.now.data[begin:r.at])
}

// Next returns io.EOF after the table's last row, or if the transaction is large enough.
func (r *receiver) Next() (rows.Packed, error) {
	x, err := r.peek()
	if err != nil {
		return nil, unexpected(err)
	}
	if x.table != r.table || x.isRaw || r.left <= 0 {
		return nil, io.EOF
	}
	return r.cut(), nil
}

// Read returns io.EOF only at the end of a table's rows.
func (r *receiver) Read(into []byte) (int, error) {
	x, err := r.peek()
	if err != nil {
		return 0, unexpected(err)
	}
	if x.table != r.table || !x.isRaw {
		return 0, io.EOF
	}
	if r.at == 0 {
		r.rows += x.rows
	}
	n := copy(into, x.data[r.at:])
	r.at, r.left = r.at+n, r.left-n
	return n, nil
}

// unexpected keeps a broken pipe from looking like a finished table.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
