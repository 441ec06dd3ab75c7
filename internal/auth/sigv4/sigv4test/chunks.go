package sigv4test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Trailer is a header that follows the body.
type Trailer struct{ Name, Value string }

// Chunks selects the framing of a body.
type Chunks struct {
	Mode     string // SignedChunks, SignedChunksTrailer or UnsignedChunksTrailer
	Size     int
	Trailers []Trailer
	Stream   bool // use Transfer-Encoding: chunked although the size is known
	Bare     bool // keep the headers, which may contradict the body
}

// SignChunked signs a request and sets its chunked body. A negative size means Transfer-Encoding: chunked without a
// declared size, which only UnsignedChunksTrailer allows.
func (s Signer) SignChunked(r *http.Request, data io.Reader, size int64, c Chunks, now time.Time) {
	now = now.UTC()
	if !c.Bare {
		c.setHeaders(r, size)
	}
	e := &encoder{data: data, chunks: c, buf: make([]byte, c.Size)}
	e.previous = s.Sign(r, c.Mode, now)
	e.key, e.scope = s.key(now), now.Format("20060102T150405Z")+"\n"+s.scope(now)
	r.Body = io.NopCloser(e)
}

func (c Chunks) setHeaders(r *http.Request, size int64) {
	r.Header.Set("Content-Encoding", "aws-chunked")
	r.ContentLength = -1
	if size >= 0 {
		r.Header.Set("X-Amz-Decoded-Content-Length", strconv.FormatInt(size, 10))
		if !c.Stream {
			r.ContentLength = c.length(size)
		}
	}
	var names []string
	for _, t := range c.Trailers {
		names = append(names, t.Name)
	}
	if names != nil {
		r.Header.Set("X-Amz-Trailer", strings.Join(names, ","))
	}
}

func (c Chunks) length(size int64) (n int64) {
	line := 2
	if c.Mode != UnsignedChunksTrailer {
		line += len(";chunk-signature=") + 64
	}
	frame := func(n int64) int64 { return int64(len(strconv.FormatInt(n, 16))+line) + n }
	n = size / int64(c.Size) * (frame(int64(c.Size)) + 2)
	if rest := size % int64(c.Size); rest > 0 {
		n += frame(rest) + 2
	}
	n += frame(0) + 2
	for _, t := range c.Trailers {
		n += int64(len(t.Name) + 1 + len(t.Value) + 2)
	}
	if c.Mode == SignedChunksTrailer {
		n += int64(len("x-amz-trailer-signature:") + 64 + 2)
	}
	return n
}

type encoder struct {
	data     io.Reader
	chunks   Chunks
	buf      []byte
	frame    bytes.Buffer
	ended    bool
	key      []byte
	scope    string
	previous string
}

func (e *encoder) Read(p []byte) (int, error) {
	for e.frame.Len() == 0 {
		if e.ended {
			return 0, io.EOF
		}
		n, err := io.ReadFull(e.data, e.buf)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return 0, err
		}
		if n > 0 {
			e.chunk(e.buf[:n])
			e.frame.WriteString("\r\n")
		}
		if n < len(e.buf) {
			e.chunk(nil)
			e.trailer()
			e.ended = true
		}
	}
	return e.frame.Read(p)
}

func (e *encoder) chunk(data []byte) {
	fmt.Fprintf(&e.frame, "%x", len(data))
	if e.chunks.Mode != UnsignedChunksTrailer {
		sum, empty := sha256.Sum256(data), sha256.Sum256(nil)
		e.sign("AWS4-HMAC-SHA256-PAYLOAD", hex.EncodeToString(empty[:])+"\n"+hex.EncodeToString(sum[:]))
		e.frame.WriteString(";chunk-signature=" + e.previous)
	}
	e.frame.WriteString("\r\n")
	e.frame.Write(data)
}

func (e *encoder) trailer() {
	var text []byte
	for _, t := range e.chunks.Trailers {
		e.frame.WriteString(t.Name + ":" + t.Value + "\r\n")
		text = slices.Concat(text, []byte(t.Name+":"+t.Value+"\n"))
	}
	if e.chunks.Mode == SignedChunksTrailer {
		sum := sha256.Sum256(text)
		e.sign("AWS4-HMAC-SHA256-TRAILER", hex.EncodeToString(sum[:]))
		e.frame.WriteString("x-amz-trailer-signature:" + e.previous + "\r\n")
	}
	e.frame.WriteString("\r\n")
}

func (e *encoder) sign(label, hashes string) {
	e.previous = hex.EncodeToString(sign(e.key, label+"\n"+e.scope+"\n"+e.previous+"\n"+hashes))
}
