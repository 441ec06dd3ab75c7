package web

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/workload/desync"
)

// requests returns each complete request in text as net/http sees it. The text arrives in reads of size bytes.
func requests(text []byte, size int) (all [][]byte, refused bool) {
	f, current := &framing{}, []byte{}
	for len(text) > 0 && f.refusal == nil {
		n, keep, ended := f.next(text[:min(size, len(text))])
		if keep {
			current = append(current, text[:n]...)
		}
		if text = text[n:]; ended {
			all, current = append(all, current), nil
		}
	}
	return all, f.refusal != nil
}

// FuzzFraming checks that reads may cut a request anywhere, and that net/http ends a request where framing does, if it
// accepts it.
func FuzzFraming(f *testing.F) {
	for _, c := range desync.Cases() {
		f.Add([]byte(c.Wire("/a", "b", "/c")), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		whole, refused := requests(text, max(len(text), 1))
		cut, cutRefused := requests(text, max(size%100, 1))
		if !slices.EqualFunc(whole, cut, bytes.Equal) || refused != cutRefused {
			t.Errorf("%q, %v; in parts: %q, %v", whole, refused, cut, cutRefused)
		}
		for _, one := range whole {
			in := bufio.NewReader(bytes.NewReader(one))
			r, err := http.ReadRequest(in)
			if err != nil {
				continue
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Errorf("net/http does not read the body of %q: %v", one, err)
			}
			if left, _ := io.ReadAll(in); len(left) > 0 || len(r.Trailer) > 0 && hasTrailer(r) {
				t.Errorf("net/http leaves %q of %q, with trailers %v", left, one, r.Trailer)
			}
		}
	})
}

func hasTrailer(r *http.Request) bool {
	for _, values := range r.Trailer {
		if len(values) > 0 {
			return true
		}
	}
	return false
}

// BenchmarkFraming measures a usual request's header.
func BenchmarkFraming(b *testing.B) {
	text := []byte("GET /1.5/1/storage/bookmarks?full=1&newer=1800000000.00 HTTP/1.1\r\nHost: example.org\r\nUser-Agent: Firefox/142.0\r\nAccept: application/json\r\n" +
		"Accept-Language: en\r\nAccept-Encoding: gzip, deflate\r\nAuthorization: Hawk id=\"" + strings.Repeat("x", 250) + "\", ts=\"1800000000\", nonce=\"abcdef\", mac=\"abcdefabcdefabcdefabcdef=\"\r\n" +
		"X-Weave-Timestamp: 1800000000.00\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")
	c := &wire{}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if n := c.check(text); n != len(text) || c.framing.refusal != nil {
			b.Fatal(n, c.framing.refusal)
		}
	}
}
