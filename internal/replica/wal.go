package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// The WAL format: https://sqlite.org/fileformat2.html#the_write_ahead_log
const (
	walHeaderSize   = 32
	frameHeaderSize = 24
	walMagic        = 0x377f0682 // last bit: big-endian checksums
	walVersion      = 3007000
)

// gapError means that the WAL does not prove that every change was read.
type gapError struct{ reason string }

func (e gapError) Error() string { return "the WAL does not continue: " + e.reason }

func isGap(err error) bool {
	_, ok := errors.AsType[gapError](err)
	return ok
}

// walSum is the WAL's running checksum.
type walSum [2]uint32

// walHeader contains the salts: each restart of the WAL increments the first and randomizes the second.
type walHeader struct {
	bigEndian bool
	pageSize  uint32
	salt      [2]uint32
	sum       walSum
}

// position is the end of the WAL read so far.
type position struct {
	header walHeader
	frames int // number of frames
	sum    walSum
}

// offset returns where a frame begins, counted from 0.
func (h walHeader) offset(frame int) int64 {
	return walHeaderSize + int64(frame)*(frameHeaderSize+int64(h.pageSize))
}

// add continues a checksum over b, whose length must be a multiple of 8.
func (h walHeader) add(s walSum, b []byte) walSum {
	if h.bigEndian {
		for ; len(b) >= 8; b = b[8:] {
			s[0] += binary.BigEndian.Uint32(b) + s[1]
			s[1] += binary.BigEndian.Uint32(b[4:]) + s[0]
		}
		return s
	}
	for ; len(b) >= 8; b = b[8:] {
		s[0] += binary.LittleEndian.Uint32(b) + s[1]
		s[1] += binary.LittleEndian.Uint32(b[4:]) + s[0]
	}
	return s
}

// readHeader reads and verifies the header.
func readHeader(r io.ReaderAt) (h walHeader, err error) {
	b := make([]byte, walHeaderSize)
	if err := readAt(r, b, 0); err != nil {
		return h, err
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	if word(0)&^1 != walMagic || word(1) != walVersion {
		return h, gapError{"it has no header"}
	}
	h = walHeader{bigEndian: word(0)&1 == 1, pageSize: word(2), salt: [2]uint32{word(4), word(5)}, sum: walSum{word(6), word(7)}}
	if h.add(walSum{}, b[:24]) != h.sum {
		return h, gapError{"the checksum of its header is wrong"}
	}
	return h, nil
}

// readAt returns a gapError if the file is too short.
func readAt(r io.ReaderAt, b []byte, offset int64) error {
	_, err := r.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		return gapError{"it is too short"}
	}
	return err
}

// frame is a frame's header.
type frame struct {
	page   uint32
	commit uint32 // database size in pages in a transaction's last frame, otherwise 0
	salt   [2]uint32
	sum    walSum
}

func parseFrame(b []byte) frame {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	return frame{page: word(0), commit: word(1), salt: [2]uint32{word(2), word(3)}, sum: walSum{word(4), word(5)}}
}

// readFrame reads frame n, counted from 0.
func (h walHeader) readFrame(r io.ReaderAt, n int) (frame, error) {
	b := make([]byte, frameHeaderSize)
	if err := readAt(r, b, h.offset(n)); err != nil {
		return frame{}, err
	}
	return parseFrame(b), nil
}

// positionAt returns the position after so many frames, which must end a transaction.
func positionAt(r io.ReaderAt, frames int) (position, error) {
	h, err := readHeader(r)
	if err != nil || frames == 0 {
		return position{header: h, sum: h.sum}, err
	}
	f, err := h.readFrame(r, frames-1)
	if err == nil && (f.salt != h.salt || f.commit == 0) {
		err = gapError{fmt.Sprintf("frame %d is not the end of a transaction", frames)}
	}
	return position{header: h, frames: frames, sum: f.sum}, err
}

// changes are the pages that some transactions wrote.
type changes struct {
	pages map[uint32]int64 // offset of the last content by page number
	size  uint32           // of the database after them, in pages
	least uint32           // smallest database size in these transactions
	most  uint32           // largest page number
	end   position
}

// read returns the writes between p and a number of committed frames, and verifies every checksum.
func (p position) read(r io.ReaderAt, to int) (c changes, err error) {
	if err := p.check(r, to); err != nil {
		return c, err
	}
	h := p.header
	c = changes{pages: map[uint32]int64{}, end: p}
	buffer := make([]byte, frameHeaderSize+int(h.pageSize))
	for n := p.frames; n < to; n++ {
		if err := readAt(r, buffer, h.offset(n)); err != nil {
			return c, err
		}
		f := parseFrame(buffer)
		c.end.sum = h.add(h.add(c.end.sum, buffer[:8]), buffer[frameHeaderSize:])
		if f.salt != h.salt || f.sum != c.end.sum {
			return c, gapError{fmt.Sprintf("the checksum of frame %d is wrong", n+1)}
		}
		c.pages[f.page], c.most = h.offset(n)+frameHeaderSize, max(c.most, f.page)
		if f.commit > 0 {
			c.commit(f.commit)
		} else if n == to-1 {
			return c, gapError{fmt.Sprintf("frame %d is not the end of a transaction", to)}
		}
	}
	c.end.frames = to
	return c, nil
}

// check returns a gapError if the WAL was restarted or overwritten after p was taken.
func (p position) check(r io.ReaderAt, to int) error {
	h, err := readHeader(r)
	switch {
	case err != nil:
		return err
	case h != p.header:
		return gapError{"it was restarted"}
	case to < p.frames:
		return gapError{"it has lost frames"}
	case p.frames == 0:
		return nil
	}
	last, err := h.readFrame(r, p.frames-1)
	if err == nil && last.sum != p.sum {
		err = gapError{"the last frame was overwritten"}
	}
	return err
}

// commit ends a transaction after which the database has so many pages.
func (c *changes) commit(size uint32) {
	if c.most > size { // the file was truncated, or the transaction needed fewer pages in the end
		for page := range c.pages {
			if page > size {
				delete(c.pages, page)
			}
		}
		c.most = size
	}
	if c.least == 0 || size < c.least {
		c.least = size
	}
	c.size = size
}

// openWAL opens a WAL. Closing the file drops no locks, because SQLite holds none on the WAL.
func openWAL(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, gapError{"it does not exist"}
	}
	return f, err
}
