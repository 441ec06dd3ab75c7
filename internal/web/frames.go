package web

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// These are the reasons to end an HTTP/2 connection.
var (
	errPreface      = errors.New("the client negotiated h2, but does not use HTTP/2")
	errControl      = errors.New("too many SETTINGS, PING, PRIORITY, empty or unknown frames")
	errResets       = errors.New("too many requests reset")
	errHeaderBlock  = errors.New("a header is interrupted by another frame, or malformed")
	errHeaderFields = fmt.Errorf("a header has more than %d fields, or is far too large", headerFields)
	errTrailers     = fmt.Errorf("a request has more than %d trailers, or more than %d bytes in them", trailerFields, trailerBytes)
)

// frames follows the bytes that an HTTP/2 client sends, and ends the connection if they exceed a client's needs: see
// the limits in http2.go. It decodes headers once more, because a single byte may stand for kilobytes, and because net/http
// decodes a request's header, and its list of trailers, before any handler could charge them.
type frames struct {
	list    int // bytes of a header that end the connection
	preface int // bytes of the preface that were received
	control allowance
	resets  allowance

	frame  [9]byte // frame header (RFC 9113, section 4.1)
	have   int     // bytes of frame
	left   int     // bytes of the payload
	prefix int     // bytes of the payload before the header block
	pad    int     // bytes of the payload after the header block
	padded bool    // the next byte of the payload is pad
	broken bool    // net/http ends the connection
	stream uint32  // highest that was opened

	hpack *hpack.Decoder
	block headerBlock
}

// headerBlock is a header or trailers, in a HEADERS frame and its CONTINUATION frames.
type headerBlock struct {
	open     bool // no END_HEADERS yet
	trailers bool
	fields   int
	bytes    int // as RFC 9113, section 6.5.2, counts them
	names    int // announced trailers
}

// newFrames expects an HTTP/2 client whose headers have at most header bytes.
func newFrames(header int) *frames {
	f := &frames{
		// A header that is larger than allowed gets 431 from net/http. A much larger one is an attack.
		list: 4 * header,
		// A browser sends a few of these frames when it connects, and one for some requests. Go's client sends a PING with
		// each RST_STREAM.
		control: allowance{most: 1000, every: 5 * time.Millisecond},
		// A page that is left resets all its requests at once.
		resets: allowance{most: 2 * http2Streams, every: 10 * time.Millisecond},
	}
	f.hpack = hpack.NewDecoder(http2Table, f.block.add)
	f.hpack.SetMaxStringLength(f.list)
	return f
}

func (b *headerBlock) add(field hpack.HeaderField) {
	b.fields++
	b.bytes += int(field.Size())
	if field.Name == "trailer" {
		b.names += strings.Count(field.Value, ",") + 1
	}
}

// settingsCost is the price of a SETTINGS frame in control frames: clients send one to three in all.
const settingsCost = 20

// check returns an error if net/http must not see p.
func (f *frames) check(p []byte) error {
	n := min(len(p), len(http2.ClientPreface)-f.preface)
	if string(p[:n]) != http2.ClientPreface[f.preface:f.preface+n] {
		return errPreface
	}
	f.preface += n
	for p = p[n:]; len(p) > 0; p = p[n:] {
		var err error
		if f.have < len(f.frame) {
			n = copy(f.frame[f.have:], p)
			if f.have += n; f.have == len(f.frame) {
				err = f.begin()
			}
		} else {
			n = min(len(p), f.left)
			err = f.payload(p[:n])
		}
		if err != nil {
			return err
		}
		if f.have == len(f.frame) && f.left == 0 {
			f.end()
		}
	}
	return nil
}

func (f *frames) kind() http2.FrameType { return http2.FrameType(f.frame[3]) }

func (f *frames) has(flag http2.Flags) bool { return http2.Flags(f.frame[4]).Has(flag) }

// begin handles a frame's header. net/http checks lengths, and which frames may be where. It answers a frame between those
// of a header block, or one that cannot be decoded, and ends the connection. Behind such a frame nothing is delivered.
func (f *frames) begin() error {
	if f.broken {
		return errHeaderBlock
	}
	f.left = int(f.frame[0])<<16 | int(f.frame[1])<<8 | int(f.frame[2])
	f.prefix, f.pad, f.padded = 0, 0, false
	kind := f.kind()
	if f.block.open != (kind == http2.FrameContinuation) {
		f.broken = true
		return nil
	}
	now := time.Now()
	switch {
	case kind == http2.FrameHeaders:
		f.beginHeader()
		return nil
	case kind == http2.FrameRSTStream:
		if !f.resets.spend(1, now) {
			return errResets
		}
		return nil
	case !f.control.spend(f.cost(kind), now):
		return errControl
	}
	return nil
}

// cost is the price of a frame as a control frame.
func (f *frames) cost(kind http2.FrameType) int {
	switch {
	case kind == http2.FrameData && (f.left > 0 || f.has(http2.FlagDataEndStream)),
		kind == http2.FrameContinuation && f.left > 0,
		kind == http2.FrameWindowUpdate: // for each piece of an answer
		return 0
	case kind == http2.FrameSettings && !f.has(http2.FlagSettingsAck):
		return settingsCost
	}
	return 1
}

func (f *frames) beginHeader() {
	stream := binary.BigEndian.Uint32(f.frame[5:]) & (1<<31 - 1)
	f.block = headerBlock{open: true, trailers: stream <= f.stream}
	f.stream = max(f.stream, stream)
	if f.padded = f.has(http2.FlagHeadersPadded); f.padded {
		f.prefix++
	}
	if f.has(http2.FlagHeadersPriority) {
		f.prefix += 5 // RFC 9113, section 6.2
	}
}

// payload handles a part of a frame's payload, and decodes the header block in it.
func (f *frames) payload(p []byte) error {
	if !f.block.open || f.broken {
		f.left -= len(p)
		return nil
	}
	for ; f.prefix > 0 && len(p) > 0; p = p[1:] {
		if f.padded {
			f.pad, f.padded = int(p[0]), false
		}
		f.prefix--
		f.left--
	}
	if n := min(len(p), f.left-f.pad); n > 0 {
		_, err := f.hpack.Write(p[:n])
		f.broken = err != nil
	}
	f.left -= len(p)
	return f.block.check(f.list)
}

// end handles the end of a frame.
func (f *frames) end() {
	f.have = 0
	if f.block.open && f.has(http2.FlagHeadersEndHeaders) {
		f.block.open = false
		f.broken = f.broken || f.hpack.Close() != nil
	}
}

func (b *headerBlock) check(list int) error {
	switch {
	case b.fields > headerFields, b.bytes > list:
		return errHeaderFields
	case b.names > trailerFields, b.trailers && (b.fields > trailerFields || b.bytes > trailerBytes):
		return errTrailers
	}
	return nil
}
