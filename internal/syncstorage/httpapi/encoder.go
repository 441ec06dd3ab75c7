package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	ss "holdfast/internal/syncstorage"
)

// encoder encodes records into a fixed buffer charged to the request, and sends it when full.
type encoder struct {
	w    http.ResponseWriter
	b    []byte
	sent bool
	err  error
}

const (
	// pieceBytes is the free space for encoding a piece without further checks.
	pieceBytes = 1 << 10

	escaped = 6
)

// bufferFor returns the buffer size for n bytes, of which up to an eighth may need escaping.
func bufferFor(n int) int { return n + n/8 + 4*pieceBytes }

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// newEncoder returns an encoder with a buffer of at least n bytes. The caller charges the memory.
func newEncoder(w http.ResponseWriter, n int) *encoder {
	e := encoders.Get().(*encoder)
	e.w = w
	if cap(e.b) < n || cap(e.b) > 4*n {
		e.b = make([]byte, 0, n)
	}
	return e
}

// close returns the buffer to the pool. The caller flushes first.
func (e *encoder) close() {
	if cap(e.b) > 4*streamBytes {
		return
	}
	*e = encoder{b: e.b[:0]}
	encoders.Put(e)
}

// flush sends the buffer. After an error, it sends nothing more.
func (e *encoder) flush() {
	if e.err == nil {
		_, e.err = e.w.Write(e.b)
	}
	e.b, e.sent = e.b[:0], true
}

// need makes room for n bytes. n must fit into the buffer.
func (e *encoder) need(n int) {
	if cap(e.b)-len(e.b) < n {
		e.flush()
	}
}

// literal appends text as it is.
func (e *encoder) literal(text string) {
	e.need(len(text))
	e.b = append(e.b, text...)
}

// id appends an ID as a JSON string.
func (e *encoder) id(id string) {
	e.need(pieceBytes)
	e.b = appendString(e.b, id)
}

// record appends a record. It escapes a large payload in pieces.
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

// pieceOf returns the length of a piece with at most n bytes that does not split a character.
func pieceOf(s []byte, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return n
}

// appendHead appends a record up to its payload.
func appendHead(b []byte, r *ss.BSO) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, r.ID)
	b = append(b, `,"modified":`...)
	b = r.Modified.Append(b)
	return append(b, `,"payload":`...)
}

// appendTail appends the members after the payload.
func appendTail(b []byte, r *ss.BSO) []byte {
	if r.SortIndex.Set {
		b = append(b, `,"sortindex":`...)
		b = strconv.AppendInt(b, r.SortIndex.Value, 10)
	}
	return append(b, '}')
}
