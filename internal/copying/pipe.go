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
	sizeOfPiece   = 64 << 10
	piecesOfPipe  = 256
	bytesOfPipe   = 2 << 20  // in memory
	bytesOfUpdate = 16 << 20 // per transaction, which is written while its rows are read
)

type pipe struct {
	ctx    context.Context //nolint:containedctx // a pipe is of one copy; readers of rows have no context
	pieces chan piece
	bytes  *semaphore.Weighted
	spare  chan []byte // reused buffers: without garbage the collector does not run
	sent   int64
	err    error
}

type piece struct {
	begins, ends *copiedSpan

	table *rows.Table
	isRaw bool // data is from RawView.Dump; otherwise length-prefixed rows
	rows  int
	data  []byte
}

func newPipe(ctx context.Context) *pipe {
	return &pipe{
		ctx: ctx, pieces: make(chan piece, piecesOfPipe), bytes: semaphore.NewWeighted(bytesOfPipe),
		spare: make(chan []byte, bytesOfPipe/sizeOfPiece),
	}
}

func (p *pipe) close(err error) {
	p.err = err
	close(p.pieces)
}

func weight(x piece) int64 { return int64(min(cap(x.data), bytesOfPipe)) }

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

func (p *pipe) buffer() []byte {
	select {
	case b := <-p.spare:
		return b
	default:
		return make([]byte, 0, sizeOfPiece)
	}
}

type sender struct {
	*pipe

	table *rows.Table
	isRaw bool
	rows  int
	data  []byte
}

const sizeOfLength = 4

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

func (s *sender) flush() error {
	if len(s.data) == 0 {
		return nil
	}
	x := piece{table: s.table, isRaw: s.isRaw, rows: s.rows, data: s.data}
	s.data, s.rows, s.sent = nil, 0, s.sent+int64(len(x.data))
	return s.send(x)
}

type receiver struct {
	*pipe

	now   piece
	isNow bool
	at    int
	table *rows.Table
	isRaw bool
	rows  int
	left  int
}

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

func (r *receiver) take() {
	r.free(r.now)
	r.now, r.isNow = piece{}, false
}

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

func (r *receiver) cut() rows.Packed {
	begin := r.at + sizeOfLength
	r.at = begin + int(binary.BigEndian.Uint32(r.now.data[r.at:]))
	r.rows, r.left = r.rows+1, r.left-(r.at-begin)
	return rows.Packed(r.now.data[begin:r.at])
}

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

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
