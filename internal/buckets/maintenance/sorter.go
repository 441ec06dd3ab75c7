package maintenance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"holdfast/internal/durable"
)

// Bytes sorted in memory, and files merged at the same time.
const (
	runSize  = 32 << 20
	maxFiles = 128
)

// sorter is an external merge sort. A line begins with a path and a tab, so lines sort by path: a tab is smaller than
// any character in a path.
type sorter struct {
	folder, name string
	runSize      int
	lines        [][]byte
	size         int
	runs         []string
	made         int
}

// newSorter sorts lines into the file folder/name.
func newSorter(folder, name string) *sorter {
	return &sorter{folder: folder, name: name, runSize: runSize}
}

// add requires a line without line feeds.
func (s *sorter) add(line []byte) error {
	s.lines = append(s.lines, bytes.Clone(line))
	if s.size += len(line) + 64; s.size < s.runSize {
		return nil
	}
	return s.spill()
}

// spill writes the lines in memory as a sorted file, and merges files if there are too many to open.
func (s *sorter) spill() error {
	slices.SortFunc(s.lines, bytes.Compare)
	err := s.write(func(w *bufio.Writer) error {
		for _, line := range s.lines {
			if err := writeLine(w, line); err != nil {
				return err
			}
		}
		return nil
	})
	s.lines, s.size = nil, 0
	if len(s.runs) < maxFiles || err != nil {
		return err
	}
	return s.merge()
}

// writeLine writes a line with its line feed.
func writeLine(w *bufio.Writer, line []byte) error {
	if _, err := w.Write(line); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

// write adds a sorted file with the lines that fill writes.
func (s *sorter) write(fill func(*bufio.Writer) error) error {
	s.made++
	name := filepath.Join(s.folder, fmt.Sprintf("%s.%d", s.name, s.made))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, name)
	w := bufio.NewWriterSize(f, 256<<10)
	return errors.Join(fill(w), w.Flush(), f.Sync(), f.Close()) // the data must survive a power cut
}

// merge replaces all files with a single file.
func (s *sorter) merge() error {
	from := s.runs
	s.runs = nil
	var inputs []*lines
	defer func() {
		for _, in := range inputs {
			in.close()
		}
	}()
	for _, name := range from {
		in, err := openLines(name, 0)
		if err != nil {
			return err
		}
		inputs = append(inputs, in)
		if err := in.next(); err != nil {
			return err
		}
	}
	err := s.write(func(w *bufio.Writer) error {
		for in := least(inputs); in != nil; in = least(inputs) {
			if err := errors.Join(writeLine(w, in.line), in.next()); err != nil {
				return err
			}
		}
		return nil
	})
	for _, name := range from {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// least returns the input with the smallest line, or nil at the end of all.
func least(inputs []*lines) (first *lines) {
	for _, in := range inputs {
		if !in.ended && (first == nil || bytes.Compare(in.line, first.line) < 0) {
			first = in
		}
	}
	return first
}

// finish merges everything and puts the result in place. A file with the final name is always complete.
func (s *sorter) finish() error {
	if err := s.spill(); err != nil {
		return err
	}
	if len(s.runs) > 1 {
		if err := s.merge(); err != nil {
			return err
		}
	}
	return durable.Rename(s.runs[0], filepath.Join(s.folder, s.name))
}

// lines reads a file line by line.
type lines struct {
	f      *os.File
	r      *bufio.Reader
	line   []byte // only valid until the next call
	offset int64  // after the current line
	ended  bool
}

// openLines begins at an offset that an earlier lines had.
func openLines(name string, offset int64) (*lines, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &lines{f: f, r: bufio.NewReaderSize(f, 64<<10), offset: offset}, nil
}

// next reads a line of any length. At the end, ended is true; a last line without a line feed is an error.
func (l *lines) next() error {
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.line = append(l.line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			l.ended = true
			if len(l.line) > 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		case err != nil:
			return err
		}
		l.offset += int64(len(l.line))
		l.line = l.line[:len(l.line)-1]
		return nil
	}
}

// close ends the read.
func (l *lines) close() { _ = l.f.Close() }
