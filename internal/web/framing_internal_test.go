package web

import (
	"strings"
	"testing"
)

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
