//test:unraced the race detector makes it ten times as slow

package sigv4_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/checksum"
)

func BenchmarkVerify(b *testing.B) {
	put := httptest.NewRequest(http.MethodPut, "/bucket/photos/2013/05/24/example%20photo.jpg?x-id=PutObject", nil)
	put.Header = header("Content-Type: image/jpeg", "x-amz-meta-a: 1", "x-amz-checksum-crc32: AAAAAA==", "Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==", "Accept-Encoding: identity")
	exampleSigner.Sign(put, emptyHash, exampleTime)
	get := httptest.NewRequest(http.MethodGet, "/bucket/photos/2013/05/24/example%20photo.jpg", nil)
	exampleSigner.Presign(get, time.Hour, exampleTime)
	for name, r := range map[string]sigv4.Request{"header": received(put, nil), "presigned": received(get, nil)} {
		b.Run(name, func(b *testing.B) {
			v := verifierAt(exampleTime)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(b.Context(), r, exampleLookup); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBody reads 1 MiB in each payload mode. All modes compute MD5 for the ETag, which is the slowest digest: see
// BenchmarkSum in package checksum.
func BenchmarkBody(b *testing.B) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	crc := []sigv4test.Trailer{{Name: "x-amz-checksum-crc32", Value: checksum.Sum(checksum.CRC32, data).String()}}
	for name, c := range map[string]sigv4test.Chunks{
		"unsigned":                {},
		"hash":                    {},
		"signed chunks of 64 KiB": {Mode: sigv4test.SignedChunks, Size: 64 << 10},
		"signed chunks, CRC32":    {Mode: sigv4test.SignedChunksTrailer, Size: 64 << 10, Trailers: crc},
		"unsigned chunks, CRC32":  {Mode: sigv4test.UnsignedChunksTrailer, Size: 64 << 10, Trailers: crc},
	} {
		r, framed := httptest.NewRequest(http.MethodPut, "/bucket/key", nil), data
		switch name {
		case "unsigned":
			exampleSigner.Sign(r, sigv4test.Unsigned, exampleTime)
		case "hash":
			exampleSigner.Sign(r, sha256Of(string(data)), exampleTime)
		default:
			r, framed = chunked(b, string(data), int64(len(data)), c)
		}
		r.ContentLength = int64(len(framed))
		s := verified(b, r)
		buffer := make([]byte, 128<<10)
		for more, cores := range map[string]*sigv4.Cores{"": nil, ", idle core": sigv4.NewCores()} {
			b.Run(name+more, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					body, err := s.Body(bytes.NewReader(framed), sigv4.BodyOptions{MaxSize: int64(len(data)), Cores: cores})
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, buffer); err != nil || n != int64(len(data)) {
						b.Fatal(n, err)
					}
				}
			})
		}
	}
}
