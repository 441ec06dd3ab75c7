package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	ss "holdfast/internal/syncstorage"
)

// encoder encodes records into a buffer of fixed capacity, which the request is
// charged for. It sends the buffer whenever it is full.
type encoder struct {
	w    http.ResponseWriter
	b    []byte
	sent bool // some data has been sent
	err  error
}

const (
	// pieceBytes is the free space in which a piece of a record is encoded without
	// further checks.
	pieceBytes = 1 << 10

	// escaped is the maximum number of bytes for one byte: \u0000.
	escaped = 6
)

// bufferFor returns the buffer size for records of n bytes, an eighth of which may
// be quotes that must be escaped.
func bufferFor(n int) int { return n + n/8 + 4*pieceBytes }

// encoders is a pool of encoders with their buffers.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// newEncoder returns an encoder with a buffer of at least n bytes, and not much
// more.
func newEncoder(w http.ResponseWriter, n int) *encoder {
	e := encoders.Get().(*encoder)
	e.w = w
	if cap(e.b) < n || cap(e.b) > 4*n {
		e.b = make([]byte, 0, n)
	}
	return e
}

// close drops the contents of the buffer. The encoder must not be used afterwards.
func (e *encoder) close() {
	if cap(e.b) > 4*streamBytes { // larger than most answers require
		return
	}
	*e = encoder{b: e.b[:0]}
	encoders.Put(e)
}

// flush sends the contents of the buffer.
func (e *encoder) flush() {
	if e.err == nil {
		_, e.err = e.w.Write(e.b)
	}
	e.b, e.sent = e.b[:0], true
}

// need makes space for a piece.
func (e *encoder) need(n int) {
	if cap(e.b)-len(e.b) < n {
		e.flush()
	}
}

// literal appends text that needs no escapes.
func (e *encoder) literal(text string) {
	e.need(len(text))
	e.b = append(e.b, text...)
}

// id appends the ID of a record, of at most 64 bytes.
func (e *encoder) id(id string) {
	e.need(pieceBytes)
	e.b = appendString(e.b, id)
}

// record appends a record like appendBSO.
func (e *encoder) record(r *ss.BSO) {
	if pieceBytes+escaped*len(r.Payload) <= cap(e.b)-len(e.b) {
		e.b = appendBSO(e.b, r)
		return
	}
	e.need(pieceBytes)
	e.b = appendHead(e.b, r)
	e.b = append(e.b, '"')
	for rest := r.Payload; len(rest) > 0; {
		e.need(pieceBytes)
		n := pieceOf(rest, (cap(e.b)-len(e.b))/escaped)
		e.b = appendEscaped(e.b, rest[:n])
		rest = rest[n:]
	}
	e.need(pieceBytes)
	e.b = append(e.b, '"')
	e.b = appendTail(e.b, r)
}

// pieceOf returns how much of s to encode at once: at most n bytes, without
// splitting a character.
func pieceOf(s []byte, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return n // not UTF-8
}

// appendHead appends a record up to its payload.
func appendHead(b []byte, r *ss.BSO) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, r.ID)
	b = append(b, `,"modified":`...)
	b = r.Modified.Append(b)
	return append(b, `,"payload":`...)
}

// appendTail appends the part of a record after the payload.
func appendTail(b []byte, r *ss.BSO) []byte {
	if r.SortIndex.Set {
		b = append(b, `,"sortindex":`...)
		b = strconv.AppendInt(b, r.SortIndex.Value, 10)
	}
	return append(b, '}')
}
