package web

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// These are the errors for requests whose end a proxy may see elsewhere than this server. Such a request is refused, and
// nothing after it is answered.
var (
	errTwoLengths  = errcode.New(errcode.Invalid, "malformed HTTP request: it has both Content-Length and Transfer-Encoding: send only one of them")
	errOldChunked  = errcode.New(errcode.Invalid, "malformed HTTP request: HTTP/1.0 has no Transfer-Encoding: send Content-Length, or use HTTP/1.1")
	errLength      = errcode.New(errcode.Invalid, "malformed HTTP request: Content-Length must occur once and be a decimal number")
	errCoding      = errcode.New(errcode.Invalid, "malformed HTTP request: Transfer-Encoding must occur once and be chunked")
	errLineEnd     = errcode.New(errcode.Invalid, "malformed HTTP request: lines must end with CR LF, and contain neither of them")
	errFolding     = errcode.New(errcode.Invalid, "malformed HTTP request: a header field must be on one line and begin with its name")
	errFieldName   = errcode.New(errcode.Invalid, "malformed HTTP request: a header field must begin with a valid name and a colon, without a space between them")
	errChunk       = errcode.New(errcode.Invalid, "malformed HTTP request: invalid chunk: send its size as a hexadecimal number, and CR LF after the size and after the data")
	errTrailer     = errcode.New(errcode.Invalid, "malformed HTTP request: the trailers are too large, or contain a field that belongs in the header")
	errManyFields  = errcode.New(errcode.Invalid, "the header has more than 200 fields: send fewer")
	errHTTP2Opener = errcode.New(errcode.Invalid, "unsupported HTTP version: HTTP/2 needs TLS, with the protocol h2 negotiated by ALPN")
)

// These limit a request besides its content. They are far above the needs of the protocols that we serve.
const (
	headerFields  = 200       // Go needs about 100 bytes for each, even if it is empty
	trailerBytes  = 4 << 10   // over HTTP/1; also net/http's limit
	sizeDigits    = 15        // of a chunk size, which then fits in 63 bits
	lengthDigits  = 18        // of Content-Length, likewise
	lineBytes     = 512       // kept part of a line. It suffices to find the service, and for names and lengths
	chunkLineMost = lineBytes // a chunk size and its extensions, which no known client sends
)

// poison makes net/http refuse a request in whatever part of it the poison follows, without waiting for more bytes. It has
// a bare LF for chunk sizes, invalid names for headers, and the empty line that net/http looks for before it parses
// trailers.
const poison = "\x00\n" + "\x00\r\n\r\n"

// framing finds the ends of requests on an HTTP/1 connection. net/http is lenient in places where a proxy in front of it
// may read something else, which lets a client hide a request from the proxy (request smuggling). framing accepts only
// bytes that all implementations read alike (RFC 9112, section 11.2).
//
// The zero value expects a request. It is not safe for concurrent use.
type framing struct {
	part    part
	line    []byte                // current line, at most lineBytes
	length  int                   // bytes of the current line, without CR LF
	cr      bool                  // the last byte was the CR of the current line's end
	tail    [len("HTTP/1.0")]byte // end of the request line, which is the version
	request []byte                // request line, at most lineBytes
	fields  int                   // lines of the header so far
	extra   int                   // bytes of trailers
	sized   bool                  // has Content-Length
	coded   bool                  // has Transfer-Encoding
	left    uint64                // bytes of the body or of the chunk
	refusal *refusal
}

type refusal struct {
	status int
	err    error
}

type part uint8

const (
	requestLine part = iota
	header
	body
	chunkSize
	chunk
	chunkEnd
	trailer
)

// next returns how many bytes at the start of p belong together, and whether net/http may see them. ended is set after the
// last byte of a request. If it sets f.refusal, net/http may see these n bytes, and then only the poison. p is not empty.
func (f *framing) next(p []byte) (n int, keep, ended bool) {
	if f.part == body || f.part == chunk {
		n = int(min(uint64(len(p)), f.left))
		if f.left -= uint64(n); f.left > 0 {
			return n, true, false
		}
		if f.part == chunk {
			f.part = chunkEnd
			return n, true, false
		}
		f.begin()
		return n, true, true
	}
	n, whole := f.addLine(p)
	keep = f.part != trailer || f.length == 0 && f.refusal == nil // of the trailers only the empty line
	if f.refusal != nil || !whole {
		return n, keep, false
	}
	ended = f.endLine()
	if f.refusal != nil {
		return n - 1, keep, false // without the LF, so that net/http does not see the line
	}
	return n, keep, ended
}

// addLine adds the start of p to the current line. whole is set if it contains the line's end.
func (f *framing) addLine(p []byte) (n int, whole bool) {
	if f.cr {
		if p[0] != '\n' {
			f.refuse(errLineEnd)
			return 0, false
		}
		f.cr = false
		return 1, true
	}
	n = bytes.IndexByte(p, '\r')
	if f.cr = n >= 0; !f.cr {
		n = len(p)
	}
	text := p[:n]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		f.cr = false
		f.refuse(errLineEnd)
		return i, false
	}
	f.length += n
	f.line = append(f.line, text[:min(n, lineBytes-len(f.line))]...)
	switch f.part {
	case requestLine:
		if f.length == n {
			f.request = f.request[:0]
		}
		f.addTail(text)
	case chunkSize:
		if f.length > chunkLineMost {
			f.refuse(errChunk)
		}
	case chunkEnd:
		if f.length > 0 {
			f.refuse(errChunk)
		}
	case trailer:
		if f.extra += n; f.extra > trailerBytes {
			f.refuse(errTrailer)
		}
	}
	if f.refusal != nil {
		return 0, false
	}
	if f.cr {
		n++
	}
	return n, false
}

// addTail keeps the end of the request line, the HTTP version.
func (f *framing) addTail(text []byte) {
	if len(text) >= len(f.tail) {
		copy(f.tail[:], text[len(text)-len(f.tail):])
		return
	}
	copy(f.tail[:], f.tail[len(text):])
	copy(f.tail[len(f.tail)-len(text):], text)
}

// endLine handles the current line. It reports whether the line is a request's last.
func (f *framing) endLine() (ended bool) {
	line, empty := f.line, f.length == 0
	f.line, f.length = f.line[:0], 0
	switch f.part {
	case requestLine:
		if empty { // net/http ignores some after a request, and refuses others
			return false
		}
		f.request = append(f.request[:0], line...)
		if bytes.HasPrefix(line, []byte("PRI ")) {
			f.refusal = &refusal{http.StatusHTTPVersionNotSupported, errHTTP2Opener}
		}
		f.part = header
	case header:
		if empty {
			return f.endHeader()
		}
		if f.fields++; f.fields > headerFields {
			f.refusal = &refusal{http.StatusRequestHeaderFieldsTooLarge, errManyFields}
			return false
		}
		f.field(line)
	case chunkSize:
		f.size(line)
	case chunkEnd:
		f.part = chunkSize
	case trailer:
		if empty {
			f.begin()
			return true
		}
		f.trailer(line)
	}
	return false
}

// begin expects the next request. It keeps the request line until that one begins.
func (f *framing) begin() {
	f.part, f.fields, f.extra, f.sized, f.coded = requestLine, 0, 0, false, false
}

// name returns the name and value in a field's line.
func (f *framing) name(line []byte) (name, value []byte, ok bool) {
	switch i := bytes.IndexByte(line, ':'); {
	case line[0] == ' ' || line[0] == '\t':
		f.refuse(errFolding)
	case i <= 0 || !isToken(line[:i]):
		f.refuse(errFieldName)
	default:
		return line[:i], line[i+1:], true
	}
	return nil, nil, false
}

var contentLength, transferEncoding = []byte("Content-Length"), []byte("Transfer-Encoding")

func (f *framing) field(line []byte) {
	name, value, ok := f.name(line)
	if !ok {
		return
	}
	switch {
	case bytes.EqualFold(name, contentLength):
		value = bytes.TrimPrefix(value, []byte(" "))
		if f.sized || len(value) == 0 || len(value) > lengthDigits {
			f.refuse(errLength)
			return
		}
		f.sized = true
		for _, c := range value {
			if c < '0' || c > '9' {
				f.refuse(errLength)
				return
			}
			f.left = f.left*10 + uint64(c-'0')
		}
	case bytes.EqualFold(name, transferEncoding):
		value = bytes.ToLower(bytes.TrimPrefix(value, []byte(" ")))
		switch {
		case string(value) == "chunked" && !f.coded:
			f.coded = true
		case f.coded || len(value) == 0 || bytes.Contains(value, []byte("chunked")):
			f.refuse(errCoding)
		default: // RFC 9112, section 6.1: a server that does not know the coding should answer 501
			f.refusal = &refusal{http.StatusNotImplemented, ErrTransferEncoding}
		}
	}
}

func (f *framing) endHeader() (ended bool) {
	switch {
	case f.coded && f.sized:
		f.refuse(errTwoLengths)
	case f.coded && string(f.tail[:]) < "HTTP/1.1": // net/http would ignore it
		f.refuse(errOldChunked)
	case f.coded:
		f.part = chunkSize
	case f.left > 0:
		f.part = body
	default:
		f.begin()
		return true
	}
	return false
}

func (f *framing) size(line []byte) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	size, err := strconv.ParseUint(string(digits), 16, 63) // accepts no sign, prefix or space
	if err != nil || len(digits) > sizeDigits {
		f.refuse(errChunk)
		return
	}
	if f.left = size; size == 0 {
		f.part = trailer
	} else {
		f.part = chunk
	}
}

func (f *framing) trailer(line []byte) {
	name, _, ok := f.name(line)
	if ok && slices.ContainsFunc(headerOnly, func(only string) bool { return strings.EqualFold(string(name), only) }) {
		f.refuse(errTrailer)
	}
}

// headerOnly are fields that RFC 9110, section 6.5.1, allows only in the header, because they say where a request ends,
// whom it is for, or who sends it. A client that sends one as a trailer hopes that somebody believes it.
var headerOnly = []string{"Content-Length", "Transfer-Encoding", "Trailer", "Host", "Connection", "Authorization", "Cookie"}

func (f *framing) refuse(err error) { f.refusal = &refusal{http.StatusBadRequest, err} }

// isToken reports whether b is a token, as RFC 9110, section 5.6.2, defines it for names of fields.
func isToken(b []byte) bool {
	for _, c := range b {
		if !tokenBytes[c] {
			return false
		}
	}
	return true
}

var tokenBytes = func() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()
