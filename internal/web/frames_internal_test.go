package web

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// script writes an HTTP/2 client's frames.
type script struct {
	*http2.Framer
	sent   bytes.Buffer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32
}

func newScript() *script {
	s := &script{}
	s.Framer, s.hpack = http2.NewFramer(&s.sent, nil), hpack.NewEncoder(&s.block)
	s.sent.WriteString(http2.ClientPreface)
	_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	_ = s.WriteSettingsAck()
	return s
}

func (s *script) encode(fields []string) []byte {
	s.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = s.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return s.block.Bytes()
}

func (s *script) request(fields ...string) {
	s.stream += 2
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream - 1, BlockFragment: s.encode(fields), EndHeaders: true})
}

func (s *script) trailers(fields ...string) {
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream - 1, BlockFragment: s.encode(fields), EndHeaders: true, EndStream: true})
}

// pieces sends a header in frames with padding and a priority, and continues it byte by byte.
func (s *script) pieces(pad uint8, fields ...string) {
	s.stream += 2
	block := s.encode(fields)
	_ = s.WriteHeaders(http2.HeadersFrameParam{
		StreamID: s.stream - 1, BlockFragment: block[:1], PadLength: pad, Priority: http2.PriorityParam{Weight: 1},
	})
	for i := range block[1:] {
		_ = s.WriteContinuation(s.stream-1, i == len(block)-2, block[1:][i:i+1])
	}
}

func repeat(n int, do func()) {
	for range n {
		do()
	}
}

func small(n int) (fields []string) {
	for i := range n {
		fields = append(fields, fmt.Sprint("x", i%50), "y")
	}
	return fields
}

// TestFrames checks which frames end a connection, however they are cut into reads.
func TestFrames(t *testing.T) {
	t.Parallel()
	const header = 32 << 10
	long := strings.Repeat("a", 3<<10)
	for name, tc := range map[string]struct {
		send func(s *script)
		want error
	}{
		"a browser": {func(s *script) {
			repeat(500, func() {
				s.request("cookie", "a=b", "user-agent", "x")
				_ = s.WriteData(s.stream-1, false, make([]byte, 1000))
				_ = s.WriteData(s.stream-1, true, nil)
				_ = s.WriteWindowUpdate(0, 1000)
				_ = s.WriteWindowUpdate(s.stream-1, 1000)
			})
		}, nil},
		"a page that is left": {func(s *script) {
			repeat(http2Streams, func() { s.request("a", "b"); _ = s.WriteRSTStream(s.stream-1, http2.ErrCodeCancel) })
		}, nil},
		"a header in pieces":               {func(s *script) { s.pieces(7, small(20)...); s.pieces(0, small(20)...); s.pieces(255, "a", "b") }, nil},
		"a few trailers":                   {func(s *script) { s.request("trailer", "x-a,x-b"); s.trailers("x-a", "b", "x-b", "c") }, nil},
		"as many as allowed":               {func(s *script) { s.request(small(headerFields)...); s.trailers(small(trailerFields)...) }, nil},
		"a header that net/http refuses":   {func(s *script) { s.request(repeated("a", long, 15)...) }, nil},
		"many fields":                      {func(s *script) { s.request(small(headerFields + 1)...) }, errHeaderFields},
		"many fields in pieces":            {func(s *script) { s.pieces(3, small(headerFields+1)...) }, errHeaderFields},
		"a far too large header":           {func(s *script) { s.request(repeated("a", long, 50)...) }, errHeaderFields},
		"many announced trailers":          {func(s *script) { s.request("trailer", strings.Repeat("a,", trailerFields)+"b") }, errTrailers},
		"many announced trailers in parts": {func(s *script) { s.request(repeated("trailer", "a,b", 9)...) }, errTrailers},
		"many trailers":                    {func(s *script) { s.request("a", "b"); s.trailers(small(trailerFields + 1)...) }, errTrailers},
		"large trailers":                   {func(s *script) { s.request("a", "b"); s.trailers(repeated("a", long, 2)...) }, errTrailers},
		"resets": {func(s *script) {
			repeat(2*http2Streams+5, func() { s.request("a", "b"); _ = s.WriteRSTStream(s.stream-1, 8) })
		}, errResets},
		"pings":                 {func(s *script) { repeat(1100, func() { _ = s.WritePing(false, [8]byte{}) }) }, errControl},
		"settings":              {func(s *script) { repeat(60, func() { _ = s.WriteSettings() }) }, errControl},
		"acknowledged settings": {func(s *script) { repeat(1100, func() { _ = s.WriteSettingsAck() }) }, errControl},
		"priorities":            {func(s *script) { repeat(1100, func() { _ = s.WritePriority(1, http2.PriorityParam{}) }) }, errControl},
		"empty data":            {func(s *script) { s.request("a", "b"); repeat(1100, func() { _ = s.WriteData(1, false, nil) }) }, errControl},
		"unknown frames":        {func(s *script) { repeat(1100, func() { _ = s.WriteRawFrame(0xfe, 1, 1, []byte("x")) }) }, errControl},
		"goaway":                {func(s *script) { repeat(1100, func() { _ = s.WriteGoAway(0, 0, []byte("x")) }) }, errControl},
		"an endless header": {func(s *script) {
			_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
			repeat(1100, func() { _ = s.WriteContinuation(1, false, nil) })
		}, errControl},
		"a header interrupted": {func(s *script) {
			_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
			s.request("a", "b")
			s.request("a", "b")
		}, errHeaderBlock},
		"a header that is not HPACK": {func(s *script) {
			_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
			s.request("a", "b")
		}, errHeaderBlock},
		"too much padding": {func(s *script) {
			_ = s.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, 1, []byte{200, 0x82})
			s.request("a", "b")
		}, nil}, // net/http ends the connection
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			tc.send(s)
			for _, size := range []int{1 << 20, 1, 10, 4096} {
				synctest.Test(t, func(t *testing.T) { // no allowance is regained
					f, err := newFrames(header), error(nil)
					for text := s.sent.Bytes(); len(text) > 0 && err == nil; {
						n := min(size, len(text))
						err, text = f.check(text[:n]), text[n:]
					}
					if !errors.Is(err, tc.want) {
						t.Errorf("in reads of %d bytes: %v, want %v", size, err, tc.want)
					}
				})
			}
		})
	}
}

func repeated(name, value string, n int) (fields []string) {
	for range n {
		fields = append(fields, name, value)
	}
	return fields
}

func TestAllowance(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	a := allowance{most: 3, every: time.Second}
	for i, tc := range []struct {
		n     int
		after time.Duration
		want  bool
	}{
		{2, 0, true}, {1, 0, true}, {1, 0, false}, {1, time.Second, false}, {1, 2 * time.Second, true}, {1, 999 * time.Millisecond, false}, {3, time.Hour, true},
	} {
		now = now.Add(tc.after)
		if got := a.spend(tc.n, now); got != tc.want {
			t.Errorf("%d: %v, want %v", i, got, tc.want)
		}
	}
}
