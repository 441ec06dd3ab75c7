package sigv4_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/checksum"
)

const crcHello = "x-amz-checksum-crc32:NhCmhg==" // the checksum of "hello"

// unsignedChunks reads a framed five-byte body with a CRC32 in the trailer.
func unsignedChunks(t testing.TB, framed string, o sigv4.BodyOptions, lines ...string) ([]byte, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPut, "/bucket/key", nil)
	r.Header = header(lines...)
	exampleSigner.Sign(r, sigv4test.UnsignedChunksTrailer, exampleTime)
	r.ContentLength = -1
	body, err := verified(t, r).Body(strings.NewReader(framed), o)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

func TestFraming(t *testing.T) {
	t.Parallel()
	const end = "0\r\n" + crcHello + "\r\n\r\n"
	for name, c := range map[string]struct {
		framed string
		want   sigv4.Kind
	}{
		"one chunk":                     {"5\r\nhello\r\n" + end, 0},
		"five chunks":                   {"1\r\nh\r\n1\r\ne\r\n1\r\nl\r\n1\r\nl\r\n1\r\no\r\n" + end, 0},
		"leading zeros":                 {"0000000000000005\r\nhello\r\n00\r\n" + crcHello + "\r\n\r\n", 0},
		"no empty line at the end":      {"5\r\nhello\r\n0\r\n" + crcHello + "\r\n", 0},
		"empty line before the trailer": {"5\r\nhello\r\n0\r\n\r\n" + crcHello + "\r\n\r\n", 0},
		"minio-go":                      {"5\r\nhello\r\n0\r\n" + crcHello + "\n\r\n\r\n", 0},
		"LF after the trailer":          {"5\r\nhello\r\n0\r\n" + crcHello + "\n\r\n", 0},
		"trailer in upper case":         {"5\r\nhello\r\n0\r\n" + strings.Replace(crcHello, "x-amz", "X-AMZ", 1) + "\r\n\r\n", 0},
		"space in the trailer":          {"5\r\nhello\r\n0\r\n" + strings.Replace(crcHello, ":", ": ", 1) + " \r\n\r\n", 0},

		"empty":                        {"", sigv4.Incomplete},
		"no framing":                   {"hello", sigv4.Incomplete},
		"no framing, a line":           {"hello\r\n", sigv4.MalformedChunk},
		"no length":                    {"\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"length with a sign":           {"+5\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"negative length":              {"-5\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"length with 0x":               {"0x5\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"length with a space":          {"5 \r\nhello\r\n" + end, sigv4.MalformedChunk},
		"length with an underscore":    {"0_5\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"length with 17 digits":        {"00000000000000005\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"length of 2^63":               {"8000000000000000\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"length of 2^63-1":             {"7fffffffffffffff\r\nhello\r\n" + end, sigv4.SizeMismatch},
		"length ends with LF":          {"5\nhello\r\n" + end, sigv4.MalformedChunk},
		"extension":                    {"5;a=b\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"signature":                    {"5;chunk-signature=" + emptyHash + "\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"long line":                    {strings.Repeat("0", 200) + "5\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"line of 10,000 bytes":         {strings.Repeat("0", 10_000) + "5\r\nhello\r\n" + end, sigv4.MalformedChunk},
		"endless line":                 {strings.Repeat("0", 10_000), sigv4.MalformedChunk},
		"chunk too long":               {"5\r\nhello!\r\n" + end, sigv4.MalformedChunk},
		"chunk too short":              {"5\r\nhell\r\n" + end, sigv4.MalformedChunk},
		"LF after the data":            {"5\r\nhello\n" + end, sigv4.MalformedChunk},
		"more than declared":           {"6\r\nhello!\r\n" + end, sigv4.SizeMismatch},
		"another chunk":                {"5\r\nhello\r\n1\r\n!\r\n" + end, sigv4.SizeMismatch},
		"less than declared":           {"4\r\nhell\r\n" + end, sigv4.SizeMismatch},
		"nothing":                      {end, sigv4.SizeMismatch},
		"three empty lines":            {"5\r\nhello\r\n0\r\n" + crcHello + "\r\n\r\n\r\n\r\n", sigv4.MalformedTrailer},
		"a line after the end":         {"5\r\nhello\r\n" + end + "x\r\n", sigv4.MalformedTrailer},
		"no last chunk":                {"5\r\nhello\r\n", sigv4.Incomplete},
		"no trailer":                   {"5\r\nhello\r\n0\r\n\r\n", sigv4.MalformedTrailer},
		"empty trailer":                {"5\r\nhello\r\n0\r\n\r\n\r\n", sigv4.MalformedTrailer},
		"trailer ends early":           {"5\r\nhello\r\n0\r\n" + crcHello, sigv4.Incomplete},
		"trailer without a colon":      {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32\r\n\r\n", sigv4.MalformedTrailer},
		"trailer of another name":      {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32c:mnG7TA==\r\n\r\n", sigv4.MalformedTrailer},
		"trailer that is no checksum":  {"5\r\nhello\r\n0\r\nx-amz-meta-a:1\r\n\r\n", sigv4.MalformedTrailer},
		"trailer twice":                {"5\r\nhello\r\n0\r\n" + crcHello + "\r\n" + crcHello + "\r\n\r\n", sigv4.MalformedTrailer},
		"signature in the trailer":     {"5\r\nhello\r\n0\r\n" + crcHello + "\r\nx-amz-trailer-signature:" + emptyHash + "\r\n\r\n", sigv4.MalformedTrailer},
		"signature before the trailer": {"5\r\nhello\r\n0\r\nx-amz-trailer-signature:" + emptyHash + "\r\n" + crcHello + "\r\n\r\n", sigv4.MalformedTrailer},
		"long trailer":                 {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:" + strings.Repeat("A", 200) + "\r\n\r\n", sigv4.MalformedChunk},
		"wrong checksum":               {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n", sigv4.InvalidChecksum},
		"checksum of nothing":          {"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", sigv4.DigestMismatch},
		"data after the end":           {"5\r\nhello\r\n" + end + "x", sigv4.Incomplete},
		"a second body":                {"5\r\nhello\r\n" + end + "5\r\nhello\r\n" + end, sigv4.MalformedTrailer},
	} {
		got, err := unsignedChunks(t, c.framed, allowed, "x-amz-decoded-content-length: 5", "x-amz-trailer: x-amz-checksum-crc32")
		if kind := kindOf(t, err); kind != c.want || kind == 0 && string(got) != "hello" {
			t.Errorf("%s: got %q, %v, %v; want %v", name, got, kind, err, c.want)
		}
	}
}

func TestHeadersOfChunks(t *testing.T) {
	t.Parallel()
	const framed = "5\r\nhello\r\n0\r\n\r\n"
	const withTrailer = "5\r\nhello\r\n0\r\n" + crcHello + "\r\n\r\n"
	for name, c := range map[string]struct {
		framed string
		limit  int64
		lines  []string
		want   sigv4.Kind
	}{
		"no length":                 {framed, 5, nil, 0},
		"no length, too large":      {framed, 4, nil, sigv4.TooLarge},
		"too large":                 {framed, 4, []string{"x-amz-decoded-content-length: 5"}, sigv4.TooLarge},
		"length is not a number":    {framed, 5, []string{"x-amz-decoded-content-length: five"}, sigv4.InvalidLength},
		"length with a sign":        {framed, 5, []string{"x-amz-decoded-content-length: +5"}, sigv4.InvalidLength},
		"negative length":           {framed, 5, []string{"x-amz-decoded-content-length: -5"}, sigv4.InvalidLength},
		"length of 2^63":            {framed, 5, []string{"x-amz-decoded-content-length: 9223372036854775808"}, sigv4.InvalidLength},
		"length twice":              {framed, 5, []string{"x-amz-decoded-content-length: 5", "x-amz-decoded-content-length: 5"}, sigv4.InvalidLength},
		"trailer":                   {withTrailer, 5, []string{"x-amz-trailer: X-Amz-Checksum-Crc32"}, 0},
		"trailer of the wrong size": {"4\r\nhell\r\n0\r\n" + crcHello + "\r\n\r\n", 5, []string{"x-amz-trailer: x-amz-checksum-crc32"}, sigv4.DigestMismatch},
		"trailer was not announced": {withTrailer, 5, nil, sigv4.MalformedTrailer},
		"trailer is no checksum":    {framed, 5, []string{"x-amz-trailer: x-amz-meta-a"}, sigv4.InvalidChecksum},
		"unknown checksum":          {framed, 5, []string{"x-amz-trailer: x-amz-checksum-md5"}, sigv4.InvalidChecksum},
		"empty trailer":             {framed, 5, []string{"x-amz-trailer:"}, sigv4.InvalidChecksum},
		"same trailer twice":        {framed, 5, []string{"x-amz-trailer: x-amz-checksum-crc32,x-amz-checksum-crc32"}, sigv4.InvalidChecksum},
		"two trailers, one sent":    {withTrailer, 5, []string{"x-amz-trailer: x-amz-checksum-crc32, x-amz-checksum-sha1"}, sigv4.InvalidChecksum},
		"header and trailer":        {withTrailer, 5, []string{"x-amz-trailer: x-amz-checksum-crc32", "x-amz-checksum-crc32: NhCmhg=="}, sigv4.InvalidChecksum},
		"MD5 of the object":         {framed, 5, []string{"Content-MD5: " + md5Of("hello")}, 0},
		"MD5 of the frame":          {framed, 5, []string{"Content-MD5: " + md5Of(framed)}, sigv4.DigestMismatch},
	} {
		_, err := unsignedChunks(t, c.framed, sigv4.BodyOptions{MaxSize: c.limit}, c.lines...)
		if kind := kindOf(t, err); kind != c.want {
			t.Errorf("%s: got %v, %v; want %v", name, kind, err, c.want)
		}
	}
}

func TestSignaturesOfChunks(t *testing.T) {
	t.Parallel()
	const data = "Welcome to Amazon S3."
	trailers := []sigv4test.Trailer{{Name: "x-amz-checksum-crc32", Value: checksum.Sum(checksum.CRC32, []byte(data)).String()}}
	chunks := sigv4test.Chunks{Mode: sigv4test.SignedChunksTrailer, Size: 7, Trailers: trailers}
	r, framed := chunked(t, data, int64(len(data)), chunks)
	s := verified(t, r)
	lines := strings.SplitAfter(string(framed), "\r\n") // header, data, header, data, …
	replace := func(i int, line string) string {
		all := append([]string(nil), lines...)
		all[i] = line
		return strings.Join(all, "")
	}
	_, otherFramed := chunked(t, strings.ToLower(data), int64(len(data)), chunks, "x-amz-meta-other: 1")
	for name, c := range map[string]struct {
		framed string
		want   sigv4.Kind
	}{
		"as sent":               {string(framed), 0},
		"minio-go":              {replace(7, strings.TrimSuffix(lines[7], "\r\n")+"\n\r\n"), 0},
		"data changed":          {replace(1, "welcome\r\n"), sigv4.Mismatch},
		"chunks swapped":        {strings.Join([]string{lines[2], lines[3], lines[0], lines[1]}, "") + strings.Join(lines[4:], ""), sigv4.Mismatch},
		"chunk left out":        {lines[0] + lines[1] + strings.Join(lines[4:], ""), sigv4.Mismatch},
		"chunk again":           {lines[0] + lines[1] + lines[0] + lines[1] + lines[2] + lines[3], sigv4.Mismatch},
		"of another request":    {string(otherFramed), sigv4.Mismatch},
		"no signature":          {replace(0, "7\r\n"), sigv4.MalformedChunk},
		"short signature":       {replace(0, lines[0][:len(lines[0])-3]+"\r\n"), sigv4.Mismatch},
		"in upper case":         {replace(0, strings.Replace(strings.ToUpper(lines[0]), "CHUNK-SIGNATURE", "chunk-signature", 1)), sigv4.Mismatch},
		"last chunk changed":    {replace(6, "0;chunk-signature="+emptyHash+"\r\n"), sigv4.Mismatch},
		"trailer changed":       {replace(7, "x-amz-checksum-crc32:AAAAAA==\r\n"), sigv4.Mismatch},
		"trailer not signed":    {replace(8, ""), sigv4.MalformedTrailer},
		"trailer cut":           {strings.Join(lines[:8], ""), sigv4.MalformedTrailer},
		"trailer signature":     {replace(8, "x-amz-trailer-signature:"+emptyHash+"\r\n"), sigv4.Mismatch},
		"signature twice":       {replace(8, lines[8]+lines[8]), sigv4.MalformedTrailer},
		"trailer after it":      {replace(8, lines[8]+"x-amz-meta-a:1\r\n"), sigv4.MalformedTrailer},
		"signature comes first": {replace(7, lines[8]), sigv4.MalformedTrailer},
	} {
		body, err := s.Body(strings.NewReader(c.framed), allowed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); kindOf(t, err) != c.want {
			t.Errorf("%s: got %q, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestSignedChunksEnd(t *testing.T) {
	t.Parallel()
	r, framed := chunked(t, "hello", 5, sigv4test.Chunks{Mode: sigv4test.SignedChunks, Size: 5})
	s := verified(t, r)
	for end, want := range map[string]sigv4.Kind{"\r\n": 0, "\r": sigv4.Incomplete, "": sigv4.Incomplete, "\r\nx": sigv4.MalformedChunk, "xx": sigv4.MalformedChunk} {
		body, err := s.Body(strings.NewReader(strings.TrimSuffix(string(framed), "\r\n")+end), allowed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(body); kindOf(t, err) != want {
			t.Errorf("%q: got %v, want %v", end, err, want)
		}
	}
}

func TestSignedChunksNeedTheirLength(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{sigv4test.SignedChunks, sigv4test.SignedChunksTrailer, sigv4test.UnsignedChunksTrailer} {
		for _, length := range []int64{-1, 100} {
			r := httptest.NewRequest(http.MethodPut, "/bucket/key", nil)
			exampleSigner.Sign(r, mode, exampleTime)
			r.ContentLength = length
			_, err := verified(t, r).Body(strings.NewReader(""), allowed)
			want := sigv4.MissingLength
			if mode == sigv4test.UnsignedChunksTrailer && length < 0 {
				want = 0
			}
			if kindOf(t, err) != want {
				t.Errorf("%s, Content-Length %d: %v", mode, length, err)
			}
		}
	}
}

func TestEmptyObjectOfMinioGo(t *testing.T) {
	t.Parallel()
	for _, declared := range []string{"0", "1"} {
		r := httptest.NewRequest(http.MethodPut, "/bucket/key", nil)
		r.Header = header("x-amz-decoded-content-length: " + declared)
		exampleSigner.Sign(r, sigv4test.SignedChunks, exampleTime)
		r.ContentLength = 0
		body, err := verified(t, r).Body(strings.NewReader(""), allowed)
		if err == nil {
			_, err = io.ReadAll(body)
		}
		if (err == nil) != (declared == "0") {
			t.Errorf("declared %s: %v", declared, err)
		}
	}
}

func TestAnonymousBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string
		sent  string
		want  sigv4.Kind
	}{
		"plain":        {nil, "hello", 0},
		"hash":         {[]string{"x-amz-content-sha256: " + sha256Of("hello")}, "hello", 0},
		"another hash": {[]string{"x-amz-content-sha256: " + emptyHash}, "hello", sigv4.PayloadHashMismatch},
		"wrong hash":   {[]string{"x-amz-content-sha256: x"}, "hello", sigv4.InvalidPayloadHash},
		"chunks":       {[]string{"x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, "5\r\nhello\r\n0\r\n\r\n", 0},
		"signed":       {[]string{"x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, "", sigv4.Unsupported},
		"checksum":     {[]string{"x-amz-checksum-crc32: AAAAAA=="}, "hello", sigv4.DigestMismatch},
	} {
		body, err := sigv4.NewBody(sigv4.Request{Header: header(c.lines...), ContentLength: -1}, strings.NewReader(c.sent), allowed)
		if err == nil {
			_, err = io.ReadAll(body)
		}
		if kindOf(t, err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestEveryMutation checks that changing or cutting a signed body at any byte is an error or changes nothing.
func TestEveryMutation(t *testing.T) {
	t.Parallel()
	const data = "Welcome to Amazon S3."
	for _, c := range allModes(data) {
		if len(c.Trailers) == 0 && c.Mode == sigv4test.UnsignedChunksTrailer {
			continue // no checksum covers the data
		}
		r, framed := chunked(t, data, int64(len(data)), c)
		s := verified(t, r)
		read := func(framed []byte) {
			body, err := s.Body(bytes.NewReader(framed), allowed)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(body); kindOf(t, err) == 0 && string(got) != data {
				t.Errorf("%s: %q is accepted as %q", c.Mode, framed, got)
			}
		}
		for i := range framed {
			read(framed[:i])
			for _, replacement := range []byte{framed[i] ^ 1, framed[i] ^ 0x20, '0', '\r', '\n', ';'} {
				changed := bytes.Clone(framed)
				changed[i] = replacement
				read(changed)
				read(append(bytes.Clone(framed[:i]), append([]byte{replacement}, framed[i:]...)...))
			}
		}
	}
}
