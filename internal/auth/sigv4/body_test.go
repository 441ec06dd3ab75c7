package sigv4_test

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/checksum"
)

var allowed = sigv4.BodyOptions{MaxSize: 1 << 20}

func verified(t testing.TB, r *http.Request) *sigv4.Signed {
	t.Helper()
	s, err := verifierAt(exampleTime).Verify(t.Context(), received(r, nil), exampleLookup)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func plain(t testing.TB, payload, data string, length int64, o sigv4.BodyOptions, lines ...string) (*sigv4.Body, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPut, "/bucket/key", nil)
	r.Header = header(lines...)
	exampleSigner.Sign(r, payload, exampleTime)
	r.ContentLength = length
	return verified(t, r).Body(strings.NewReader(data), o)
}

// chunked also returns the framed body.
func chunked(t testing.TB, data string, size int64, c sigv4test.Chunks, lines ...string) (*http.Request, []byte) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPut, "/bucket/key", nil)
	r.Header = header(lines...)
	exampleSigner.SignChunked(r, strings.NewReader(data), size, c, exampleTime)
	framed, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if size >= 0 && size == int64(len(data)) && int64(len(framed)) != r.ContentLength {
		t.Fatalf("the framed body has %d bytes, declared are %d", len(framed), r.ContentLength)
	}
	return r, framed
}

var readers = map[string]func(io.Reader) ([]byte, error){
	"all":          io.ReadAll,
	"byte by byte": func(r io.Reader) ([]byte, error) { return io.ReadAll(iotest.OneByteReader(r)) },
	"1 MiB": func(r io.Reader) ([]byte, error) {
		var b bytes.Buffer
		_, err := io.CopyBuffer(struct{ io.Writer }{&b}, struct{ io.Reader }{r}, make([]byte, 1<<20))
		return b.Bytes(), err
	},
}

func md5Of(data string) string {
	sum := md5.Sum([]byte(data))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func TestPlainBody(t *testing.T) {
	t.Parallel()
	const data = "Welcome to Amazon S3."
	crc := checksum.Sum(checksum.CRC32, []byte(data)).String()
	sha := checksum.Sum(checksum.SHA256, []byte(data)).String()
	size := int64(len(data))
	for name, c := range map[string]struct {
		payload, data string
		length        int64
		options       sigv4.BodyOptions
		lines         []string
		want          sigv4.Kind
	}{
		"unsigned":                      {sigv4test.Unsigned, data, size, allowed, nil, 0},
		"unsigned, length unknown":      {sigv4test.Unsigned, data, -1, allowed, nil, 0},
		"hash":                          {sha256Of(data), data, size, allowed, nil, 0},
		"another hash":                  {sha256Of("x"), data, size, allowed, nil, sigv4.PayloadHashMismatch},
		"empty, another hash":           {sha256Of("x"), "", 0, allowed, nil, sigv4.PayloadHashMismatch},
		"MD5":                           {sigv4test.Unsigned, data, size, allowed, []string{"Content-MD5: " + md5Of(data)}, 0},
		"another MD5":                   {sigv4test.Unsigned, data, size, allowed, []string{"Content-MD5: " + md5Of("x")}, sigv4.DigestMismatch},
		"wrong MD5":                     {sigv4test.Unsigned, data, size, allowed, []string{"Content-MD5: abc"}, sigv4.InvalidMD5},
		"empty MD5":                     {sigv4test.Unsigned, data, size, allowed, []string{"Content-MD5:"}, sigv4.InvalidMD5},
		"MD5 twice":                     {sigv4test.Unsigned, data, size, allowed, []string{"Content-MD5: " + md5Of(data), "Content-MD5: " + md5Of(data)}, sigv4.InvalidMD5},
		"CRC32":                         {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: " + crc}, 0},
		"CRC32 of nothing":              {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: AAAAAA=="}, sigv4.DigestMismatch},
		"CRC32 of nothing, ignored":     {sigv4test.Unsigned, data, size, sigv4.BodyOptions{MaxSize: 100, IgnoreChecksums: true}, []string{"x-amz-checksum-crc32: AAAAAA=="}, 0},
		"SHA-256, twice needed":         {sha256Of(data), data, size, allowed, []string{"x-amz-checksum-sha256: " + sha}, 0},
		"CRC32 with a length of CRC64":  {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: AAAAAAAAAAA="}, sigv4.InvalidChecksum},
		"two checksums":                 {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: " + crc, "x-amz-checksum-sha256: " + sha}, sigv4.InvalidChecksum},
		"the SDK's algorithm":           {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: " + crc, "x-amz-sdk-checksum-algorithm: crc32"}, 0},
		"another than the SDK's":        {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: " + crc, "x-amz-sdk-checksum-algorithm: SHA256"}, sigv4.InvalidChecksum},
		"the SDK's algorithm alone":     {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-sdk-checksum-algorithm: CRC32"}, sigv4.InvalidChecksum},
		"unknown algorithm of the SDK":  {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: " + crc, "x-amz-sdk-checksum-algorithm: MD9"}, sigv4.InvalidChecksum},
		"CRC32 twice":                   {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-crc32: " + crc, "x-amz-checksum-crc32: " + crc}, sigv4.InvalidChecksum},
		"unknown checksum":              {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-xxhash64: AAAA"}, sigv4.InvalidChecksum},
		"algorithm, type and mode":      {sigv4test.Unsigned, data, size, allowed, []string{"x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT", "x-amz-checksum-mode: ENABLED"}, 0},
		"ends early":                    {sigv4test.Unsigned, data, size + 1, allowed, nil, sigv4.SizeMismatch},
		"continues":                     {sigv4test.Unsigned, data, size - 1, allowed, nil, sigv4.SizeMismatch},
		"as large as allowed":           {sigv4test.Unsigned, data, size, sigv4.BodyOptions{MaxSize: size}, nil, 0},
		"too large":                     {sigv4test.Unsigned, data, size, sigv4.BodyOptions{MaxSize: size - 1}, nil, sigv4.TooLarge},
		"length unknown, as large":      {sigv4test.Unsigned, data, -1, sigv4.BodyOptions{MaxSize: size}, nil, 0},
		"length unknown, too large":     {sigv4test.Unsigned, data, -1, sigv4.BodyOptions{MaxSize: size - 1}, nil, sigv4.TooLarge},
		"too small":                     {sigv4test.Unsigned, data, size, sigv4.BodyOptions{MaxSize: 100, MinSize: size + 1}, nil, sigv4.TooSmall},
		"empty":                         {emptyHash, "", 0, sigv4.BodyOptions{}, nil, 0},
		"empty, continues":              {sigv4test.Unsigned, data, 0, sigv4.BodyOptions{}, nil, sigv4.SizeMismatch},
		"empty, length unknown":         {emptyHash, "", -1, sigv4.BodyOptions{}, nil, 0},
		"not empty, length unknown":     {sigv4test.Unsigned, data, -1, sigv4.BodyOptions{}, nil, sigv4.TooLarge},
		"another MD5 in an empty body":  {sigv4test.Unsigned, "", 0, allowed, []string{"Content-MD5: " + md5Of("x")}, sigv4.DigestMismatch},
		"decoded length without chunks": {sigv4test.Unsigned, data, size, allowed, []string{fmt.Sprint("x-amz-decoded-content-length: ", size)}, 0},
	} {
		for way, read := range readers {
			body, err := plain(t, c.payload, c.data, c.length, c.options, c.lines...)
			var got []byte
			if err == nil {
				got, err = read(body)
			}
			if kind := kindOf(t, err); kind != c.want {
				t.Errorf("%s, %s: got %v, %v; want %v", name, way, kind, err, c.want)
			}
			if body == nil {
				continue
			}
			if r, ok := body.Result(); ok != (c.want == 0) || ok && (r.Size != int64(len(c.data)) || string(got) != c.data || base64.StdEncoding.EncodeToString(r.MD5[:]) != md5Of(c.data)) {
				t.Errorf("%s, %s: got %q and %+v, %v", name, way, got, r, ok)
			}
			if _, again := body.Read(make([]byte, 1)); c.want == 0 && again != io.EOF || c.want != 0 && again != err {
				t.Errorf("%s, %s: after the end: %v", name, way, again)
			}
		}
	}
}

// A caller that reads only the declared number of bytes still gets a verified body.
func TestLastByteComesAfterVerification(t *testing.T) {
	t.Parallel()
	const data = "Welcome to Amazon S3."
	chunks := sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 10, Trailers: []sigv4test.Trailer{{Name: "x-amz-checksum-crc32", Value: "AAAAAA=="}}}
	r, framed := chunked(t, data, int64(len(data)), chunks)
	inChunks, err := verified(t, r).Body(bytes.NewReader(framed), allowed)
	if err != nil {
		t.Fatal(err)
	}
	atOnce, err := plain(t, sha256Of("x"), data, int64(len(data)), allowed)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]*sigv4.Body{"chunks": inChunks, "plain": atOnce} {
		got := make([]byte, len(data))
		if _, err := io.ReadFull(body, got); kindOf(t, err) == 0 {
			t.Errorf("%s: all bytes of a wrong body were delivered", name)
		}
	}
	right, err := plain(t, sha256Of(data), data, int64(len(data)), allowed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(right, make([]byte, len(data))); err != nil {
		t.Error(err)
	}
	if _, ok := right.Result(); !ok {
		t.Error("no result after the last byte")
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	const data = "hello"
	sum := func(a checksum.Algorithm) checksum.Checksum { return checksum.Sum(a, []byte(data)) }
	o := sigv4.BodyOptions{MaxSize: 100, Compute: []checksum.Algorithm{checksum.CRC64NVME, checksum.CRC32C}}
	body, err := plain(t, sha256Of(data), data, 5, o, "x-amz-checksum-sha1: "+sum(checksum.SHA1).String(), "x-amz-sdk-checksum-algorithm: SHA1")
	if err != nil {
		t.Fatal(err)
	}
	if got := body.Declared(); !slices.Equal(got, []checksum.Algorithm{checksum.SHA1}) {
		t.Errorf("declared: %v", got)
	}
	if _, ok := body.Result(); ok {
		t.Error("a result before the body was read")
	}
	if _, err := io.ReadAll(body); err != nil {
		t.Fatal(err)
	}
	r, _ := body.Result()
	if !slices.Equal(r.Checksums, []checksum.Checksum{sum(checksum.CRC32C), sum(checksum.CRC64NVME), sum(checksum.SHA1)}) || r.SHA256 != sha256Of(data) {
		t.Errorf("result: %+v", r)
	}
}

func TestConnectionBreaks(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	r, framed := chunked(t, strings.Repeat("x", 1000), 1000, sigv4test.Chunks{Mode: sigv4test.SignedChunks, Size: 300})
	s := verified(t, r)
	for n := range framed {
		for _, cause := range []error{broken, io.ErrUnexpectedEOF, fmt.Errorf("read: %w", io.EOF)} {
			body, err := s.Body(io.MultiReader(bytes.NewReader(framed[:n]), iotest.ErrReader(cause)), allowed)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(body)
			if kindOf(t, err) != sigv4.Incomplete || errors.Is(err, broken) != (cause == broken) || errors.Is(err, io.EOF) {
				t.Fatalf("after %d bytes: %v", n, err)
			}
		}
	}
}

// allModes lists all framings, with valid trailers for data.
func allModes(data string) []sigv4test.Chunks {
	trailer := func(a checksum.Algorithm) sigv4test.Trailer {
		return sigv4test.Trailer{Name: a.Header(), Value: checksum.Sum(a, []byte(data)).String()}
	}
	all := []sigv4test.Trailer{trailer(checksum.SHA256), trailer(checksum.CRC32), trailer(checksum.CRC64NVME), trailer(checksum.CRC32C), trailer(checksum.SHA1)}
	return []sigv4test.Chunks{
		{Mode: sigv4test.SignedChunks, Size: 7},
		{Mode: sigv4test.SignedChunks, Size: 8192},
		{Mode: sigv4test.SignedChunksTrailer, Size: 100, Trailers: all[:1]},
		{Mode: sigv4test.SignedChunksTrailer, Size: 65536, Trailers: all[2:3]},
		{Mode: sigv4test.UnsignedChunksTrailer, Size: 100, Trailers: all[1:2]},
		{Mode: sigv4test.UnsignedChunksTrailer, Size: 65536, Trailers: all[3:4]},
		{Mode: sigv4test.UnsignedChunksTrailer, Size: 300, Trailers: all[4:]},
		{Mode: sigv4test.UnsignedChunksTrailer, Size: 65536},
	}
}

func TestChunkedBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 6, 7, 8, 99, 100, 101, 4095, 4096, 4097, 70_000} {
		data := strings.Repeat("0123456789", size/10+1)[:size]
		for _, c := range allModes(data) {
			r, framed := chunked(t, data, int64(size), c)
			for way, read := range readers {
				body, err := verified(t, r).Body(bytes.NewReader(framed), sigv4.BodyOptions{MaxSize: int64(size)})
				if err != nil {
					t.Fatal(err)
				}
				got, err := read(body)
				if err != nil || string(got) != data {
					t.Errorf("%s, %d bytes in chunks of %d, %s: %d bytes, %v", c.Mode, size, c.Size, way, len(got), err)
				}
				if r, ok := body.Result(); !ok || len(r.Checksums) != len(c.Trailers) {
					t.Errorf("%s: result %+v, %v", c.Mode, r, ok)
				}
			}
		}
	}
}

//nolint:paralleltest // it counts the allocations of the process
func TestMemoryIsBounded(t *testing.T) {
	const size = 64 << 20
	framing := fmt.Sprintf("%x\r\n", size)
	r := httptest.NewRequest(http.MethodPut, "/bucket/key", nil)
	r.Header = header("x-amz-decoded-content-length: "+fmt.Sprint(size), "x-amz-trailer: x-amz-checksum-crc32")
	exampleSigner.Sign(r, sigv4test.UnsignedChunksTrailer, exampleTime)
	r.ContentLength = -1
	zeros := io.LimitReader(zeroReader{}, size)
	framed := io.MultiReader(strings.NewReader(framing), zeros, strings.NewReader("\r\n0\r\nx-amz-checksum-crc32:"+crcOfZeros(size)+"\r\n\r\n"))
	body, err := verified(t, r).Body(framed, sigv4.BodyOptions{MaxSize: size})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	buffer := make([]byte, 32<<10)
	runtime.ReadMemStats(&before)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, buffer)
	runtime.ReadMemStats(&after)
	if err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func crcOfZeros(size int) string {
	part := checksum.Part{Checksum: checksum.Sum(checksum.CRC32, make([]byte, 1<<20)), Size: 1 << 20}
	sum, _ := checksum.FullObject(checksum.CRC32, slices.Repeat([]checksum.Part{part}, size>>20))
	return sum.String()
}
