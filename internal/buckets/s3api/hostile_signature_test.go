package s3api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/checksum"
)

func replaced(from, to string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), from, to))
	}
}

func with(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

func TestForgedSignatures(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const malformed = "AuthorizationHeaderMalformed"
	now := time.Now()
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
		code   string
	}{
		"empty header":             {with("Authorization", ""), 400, "InvalidRequest"},
		"another scheme":           {with("Authorization", "Basic dXNlcjpwYXNz"), 400, "InvalidRequest"},
		"Signature Version 2":      {with("Authorization", "AWS "+s.main.AccessKeyID+":AAAA"), 400, "InvalidRequest"},
		"scheme alone":             {with("Authorization", "AWS4-HMAC-SHA256"), 400, malformed},
		"cut after the credential": {func(r *http.Request) { head, _, _ := strings.Cut(auth(r), ","); with("Authorization", head)(r) }, 400, malformed},
		"cut in the signature":     {func(r *http.Request) { a := auth(r); with("Authorization", a[:len(a)-1])(r) }, 400, malformed},
		"one header too many":      {func(r *http.Request) { with("Authorization", auth(r), auth(r))(r) }, 400, malformed},
		"signature twice":          {func(r *http.Request) { with("Authorization", auth(r)+",Signature="+strings.Repeat("0", 64))(r) }, 400, malformed},
		"huge header":              {with("Authorization", "AWS4-HMAC-SHA256 "+strings.Repeat("a", 7<<10)), 400, malformed},
		"signature in upper case": {func(r *http.Request) {
			head, sum, _ := strings.Cut(auth(r), "Signature=")
			with("Authorization", head+"Signature="+strings.ToUpper(sum))(r)
		}, 400, malformed},
		"another signature":         {func(r *http.Request) { a := auth(r); with("Authorization", a[:len(a)-64]+strings.Repeat("0", 64))(r) }, 403, "SignatureDoesNotMatch"},
		"another region":            {replaced("/us-east-1/", "/eu-west-1/"), 400, malformed},
		"another service":           {replaced("/s3/", "/sts/"), 400, malformed},
		"another end of the scope":  {replaced("aws4_request", "aws5_request"), 400, malformed},
		"another day":               {replaced("/"+stamp(now)[:8]+"/", "/20130524/"), 400, malformed},
		"another key":               {replaced(s.main.AccessKeyID, s.other.AccessKeyID), 403, "SignatureDoesNotMatch"},
		"unknown key":               {replaced(s.main.AccessKeyID, "HFAAAAAAAAAAAAAAAAAA"), 403, "InvalidAccessKeyId"},
		"key of hostile characters": {replaced(s.main.AccessKeyID, "<&\"'\xff"), 400, malformed},
		"host is not signed":        {replaced("host;", ""), 403, "AccessDenied"},
		"unsigned header of S3":     {with("X-Amz-Meta-A", "1"), 403, "AccessDenied"},
		"signed header is missing":  {replaced("host;", "host;if-match;"), 403, "SignatureDoesNotMatch"},
		"headers are not sorted":    {replaced("host;x-amz-content-sha256", "x-amz-content-sha256;host"), 400, malformed},
		"no date":                   {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, 403, "AccessDenied"},
		"date is not one":           {with("X-Amz-Date", "yesterday"), 403, "AccessDenied"},
		"date twice":                {with("X-Amz-Date", stamp(now), stamp(now)), 400, "InvalidArgument"},
		"year 0":                    {with("X-Amz-Date", "00000101T000000Z"), 400, malformed},
		"year 9999":                 {with("X-Amz-Date", "99991231T235959Z"), 400, malformed},
		"hour 25":                   {with("X-Amz-Date", stamp(now)[:9]+"250000Z"), 403, "AccessDenied"},
		"query, too":                {func(r *http.Request) { r.URL.RawQuery = "X-Amz-Signature=1" }, 400, "InvalidArgument"},
		"parameter added":           {func(r *http.Request) { r.URL.RawQuery = "acl" }, 403, "SignatureDoesNotMatch"},
		"wrong escape in the query": {func(r *http.Request) { r.URL.RawQuery = "a=%zz" }, 400, "InvalidURI"},
		"another method":            {func(r *http.Request) { r.Method = "POST" }, 403, "SignatureDoesNotMatch"},
		"another key of the object": {func(r *http.Request) { r.URL.Opaque += "%2f" }, 403, "SignatureDoesNotMatch"},
		"another host":              {func(r *http.Request) { r.Host = "example.org" }, 403, "SignatureDoesNotMatch"},
		"no hash":                   {func(r *http.Request) { r.Header.Del("X-Amz-Content-Sha256") }, 400, "InvalidRequest"},
		"hash is not one":           {with("X-Amz-Content-Sha256", strings.ToUpper(sha256Hex(hello))), 400, "InvalidArgument"},
		"unknown mode":              {with("X-Amz-Content-Sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), 400, "InvalidRequest"},
		"another hash":              {with("X-Amz-Content-Sha256", sha256Hex("x")), 403, "SignatureDoesNotMatch"},
		"another body":              {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.ToUpper(hello))) }, 400, "XAmzContentSHA256Mismatch"},
		"session token":             {with("X-Amz-Security-Token", "token"), 400, "InvalidToken"},
	} {
		r := s.request("PUT", "/photos/k", hello)
		s.main.Sign(r, sha256Hex(hello), now)
		c.change(r)
		if a := s.send(r); a.status != c.status || a.element("Code") != c.code {
			t.Errorf("%s: %d %s, want %d %s\n%s", name, a.status, a.element("Code"), c.status, c.code, a.body)
		} else {
			a.fails(c.status, c.code).hasNot(s.main.Secret)
		}
	}
	s.nothing("k")
}

func auth(r *http.Request) string { return r.Header.Get("Authorization") }

// A request is valid for 15 minutes in both directions.
func TestReplayedRequests(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for ahead, status := range map[time.Duration]int{-16 * time.Minute: 403, -14 * time.Minute: 200, 14 * time.Minute: 200, 16 * time.Minute: 403, -time.Hour * 24 * 365: 403, 24 * time.Hour: 403} {
		r := s.request("GET", "/photos", "")
		s.main.Sign(r, sigv4test.Unsigned, time.Now().Add(ahead))
		if a := s.send(r); status == 403 {
			a.fails(403, "RequestTimeTooSkewed").has("<RequestTime>", "<ServerTime>")
		} else {
			a.want(200)
		}
	}
	for _, c := range []struct {
		signed, expires time.Duration
		status          int
	}{
		{-time.Minute, 59 * time.Second, 403}, {-time.Minute, time.Hour, 200}, {14 * time.Minute, time.Second, 200}, {16 * time.Minute, time.Hour, 403},
		{-8 * 24 * time.Hour, 7 * 24 * time.Hour, 403}, {-6 * 24 * time.Hour, 7 * 24 * time.Hour, 200},
	} {
		r := s.request("GET", "/photos", "")
		s.main.Presign(r, c.expires, time.Now().Add(c.signed))
		if a := s.send(r); c.status == 403 {
			a.fails(403, "AccessDenied")
		} else {
			a.want(200)
		}
	}
}

func TestForgedPresignedURLs(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const malformed = "AuthorizationQueryParametersError"
	swap := func(from, to string) func(*http.Request) {
		return func(r *http.Request) { r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, from, to) }
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
		code   string
	}{
		"without its signature":    {func(r *http.Request) { r.URL.RawQuery, _, _ = strings.Cut(r.URL.RawQuery, "&X-Amz-Signature") }, 400, malformed},
		"signature cut":            {func(r *http.Request) { r.URL.RawQuery = r.URL.RawQuery[:len(r.URL.RawQuery)-1] }, 400, malformed},
		"signature twice":          {func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Signature=" + strings.Repeat("0", 64) }, 400, malformed},
		"valid for longer":         {swap("X-Amz-Expires=60", "X-Amz-Expires=604800"), 403, "SignatureDoesNotMatch"},
		"valid for 8 days":         {swap("X-Amz-Expires=60", "X-Amz-Expires=691200"), 400, malformed},
		"valid for no time":        {swap("X-Amz-Expires=60", "X-Amz-Expires=0"), 400, malformed},
		"valid until the past":     {swap("X-Amz-Expires=60", "X-Amz-Expires=-60"), 400, malformed},
		"valid for ever":           {swap("X-Amz-Expires=60", "X-Amz-Expires="+strings.Repeat("9", 30)), 400, malformed},
		"another region":           {swap("us-east-1", "mars"), 400, malformed},
		"another service":          {swap("%2Fs3%2F", "%2Fec2%2F"), 400, malformed},
		"another algorithm":        {swap("AWS4-HMAC-SHA256", "AWS4-HMAC-MD5"), 400, "InvalidRequest"},
		"header, too":              {with("Authorization", "AWS4-HMAC-SHA256 Credential=a"), 400, "InvalidArgument"},
		"another object":           {func(r *http.Request) { r.URL.Opaque = "/photos/l" }, 403, "SignatureDoesNotMatch"},
		"DELETE with one of PUT":   {func(r *http.Request) { r.Method, r.Body, r.ContentLength = "DELETE", nil, 0 }, 403, "SignatureDoesNotMatch"},
		"another subresource":      {func(r *http.Request) { r.URL.RawQuery += "&tagging" }, 403, "SignatureDoesNotMatch"},
		"copy of another's object": {with("X-Amz-Copy-Source", "/photos/secret"), 403, "AccessDenied"},
		"metadata":                 {with("X-Amz-Meta-A", "1"), 403, "AccessDenied"},
		"Signature Version 2":      {func(r *http.Request) { r.URL.RawQuery = "AWSAccessKeyId=a&Expires=9999999999&Signature=b" }, 403, "AccessDenied"},
		"session token":            {func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Security-Token=a" }, 400, "InvalidToken"},
	} {
		r := s.request("PUT", "/photos/k", hello)
		s.main.Presign(r, time.Minute, time.Now())
		c.change(r)
		if a := s.send(r); a.status != c.status || a.element("Code") != c.code {
			t.Errorf("%s: %d %s, want %d %s\n%s", name, a.status, a.element("Code"), c.status, c.code, a.body)
		} else {
			a.fails(c.status, c.code).hasNot(s.main.Secret)
		}
	}
	s.nothing("k")
}

// changed reads a body and changes it. It fails the test if change has no effect.
func changed(t *testing.T, name string, body io.Reader, change func(string) string) string {
	t.Helper()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if change == nil {
		return string(text)
	}
	after := change(string(text))
	if after == string(text) {
		t.Fatalf("%s: %q was not changed", name, text)
	}
	return after
}

func TestHostileChunks(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	crc := sigv4test.Trailer{Name: "x-amz-checksum-crc32", Value: crc32Of(hello)}
	unsigned := sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Trailers: []sigv4test.Trailer{crc}}
	signed := sigv4test.Chunks{Mode: sigv4test.SignedChunks}
	both := sigv4test.Chunks{Mode: sigv4test.SignedChunksTrailer, Trailers: []sigv4test.Trailer{crc}}
	swap := func(from, to string) func(string) string {
		return func(framed string) string { return strings.Replace(framed, from, to, 1) }
	}
	cut := func(from string) func(string) string {
		return func(framed string) string { head, _, _ := strings.Cut(framed, from); return head }
	}
	const line = "x-amz-checksum-crc32:"
	trailer := line + crc.Value + "\r\n"
	size := int64(len(hello)) // two chunks of 10 bytes
	for name, c := range map[string]struct {
		chunks sigv4test.Chunks
		size   int64
		change func(string) string
		status int
		code   string
	}{
		"cut in the data":               {unsigned, size, func(f string) string { return f[:9] }, 400, "IncompleteBody"},
		"cut in signed data":            {signed, size, func(f string) string { return f[:len(f)/2] }, 400, "IncompleteBody"},
		"no last chunk":                 {unsigned, size, cut("0\r\n" + line), 400, "IncompleteBody"},
		"no last signed chunk":          {signed, size, cut("0;chunk-signature"), 400, "IncompleteBody"},
		"no end":                        {signed, size, func(f string) string { return f[:len(f)-2] }, 400, "IncompleteBody"},
		"nothing":                       {signed, size, func(string) string { return "" }, 400, "IncompleteBody"},
		"not in chunks":                 {unsigned, size, func(string) string { return hello }, 400, "IncompleteBody"},
		"negative size":                 {unsigned, size, swap("a\r\n", "-a\r\n"), 400, "IncompleteBody"},
		"size with a sign":              {unsigned, size, swap("a\r\n", "+a\r\n"), 400, "IncompleteBody"},
		"size 0x":                       {unsigned, size, swap("a\r\n", "0xa\r\n"), 400, "IncompleteBody"},
		"huge size":                     {unsigned, size, swap("a\r\n", "7fffffffffffffff\r\n"), 400, "IncompleteBody"},
		"size that overflows":           {unsigned, size, swap("a\r\n", "fffffffffffffffff\r\n"), 400, "IncompleteBody"},
		"size is no number":             {unsigned, size, swap("a\r\n", "zz\r\n"), 400, "IncompleteBody"},
		"no size":                       {unsigned, size, swap("a\r\n", "\r\n"), 400, "IncompleteBody"},
		"long line":                     {unsigned, size, swap("a\r\n", "a;"+strings.Repeat("x", 10000)+"\r\n"), 400, "IncompleteBody"},
		"endless line":                  {unsigned, size, func(string) string { return strings.Repeat("0", 100000) }, 400, "IncompleteBody"},
		"extension":                     {unsigned, size, swap("a\r\n", "a;name=value\r\n"), 400, "IncompleteBody"},
		"LF":                            {unsigned, size, swap("a\r\n", "a\n"), 400, "IncompleteBody"},
		"smaller size than data":        {unsigned, size, swap("a\r\n", "9\r\n"), 400, "IncompleteBody"},
		"larger size than data":         {unsigned, size, swap("a\r\n", "b\r\n"), 400, "IncompleteBody"},
		"another signature of a chunk":  {signed, size, func(f string) string { return f[:18] + strings.Repeat("0", 64) + f[82:] }, 403, "SignatureDoesNotMatch"},
		"no signature of a chunk":       {signed, size, func(f string) string { return "a" + f[82:] }, 400, "IncompleteBody"},
		"changed data":                  {signed, size, swap(hello[:10], strings.ToUpper(hello[:10])), 403, "SignatureDoesNotMatch"},
		"changed data, not signed":      {unsigned, size, swap(hello[:10], strings.ToUpper(hello[:10])), 400, "BadDigest"},
		"data after the end":            {signed, size, func(f string) string { return f + "x" }, 400, "IncompleteBody"},
		"a second body":                 {unsigned, size, func(f string) string { return f + f }, 400, "MalformedTrailerError"},
		"declared one byte more":        {unsigned, size + 1, nil, 400, "IncompleteBody"},
		"declared one byte less":        {unsigned, size - 1, nil, 400, "IncompleteBody"},
		"declared one byte less signed": {signed, size - 1, nil, 400, "IncompleteBody"},
		"declared more than 5 GiB":      {unsigned, 5<<30 + 1, nil, 400, "EntityTooLarge"},
		"no trailer":                    {unsigned, size, swap(trailer, ""), 400, "MalformedTrailerError"},
		"another trailer":               {unsigned, size, swap("crc32:", "sha1:"), 400, "MalformedTrailerError"},
		"trailer twice":                 {unsigned, size, swap(trailer, trailer+trailer), 400, "MalformedTrailerError"},
		"wrong trailer":                 {unsigned, size, swap(crc.Value, "AAAAAA=="), 400, "BadDigest"},
		"malformed trailer":             {unsigned, size, swap(crc.Value, "AAAA"), 400, "InvalidRequest"},
		"empty trailer":                 {unsigned, size, swap(crc.Value, ""), 400, "InvalidRequest"},
		"changed trailer":               {both, size, swap(crc.Value, "AAAAAA=="), 403, "SignatureDoesNotMatch"},
		"no signature of the trailer":   {both, size, cut("x-amz-trailer-signature"), 400, "MalformedTrailerError"},
		"another one of the trailer":    {both, size, func(f string) string { return f[:len(f)-68] + strings.Repeat("0", 64) + f[len(f)-4:] }, 403, "SignatureDoesNotMatch"},
	} {
		r := s.request("PUT", "/photos/k", hello)
		c.chunks.Size, c.chunks.Stream = 10, true
		s.main.SignChunked(r, strings.NewReader(hello), c.size, c.chunks, time.Now())
		text := changed(t, name, r.Body, c.change)
		r.Body = io.NopCloser(strings.NewReader(text))
		if a := s.send(r); a.status != c.status || a.element("Code") != c.code {
			t.Errorf("%s: %d %s, want %d %s\n%q\n%s", name, a.status, a.element("Code"), c.status, c.code, text, a.body)
		} else {
			a.fails(c.status, c.code)
		}
	}
	s.nothing("k")
	both.Size, both.Stream = 10, true
	s.chunked("/photos/k", hello, size, both).want(200)
	s.do("GET", "/photos/k", "").is(hello)
}

func TestHostileChecksums(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	id := s.upload("/photos/k")
	document := "<Tagging><TagSet></TagSet></Tagging>"
	targets := []struct{ method, target, body string }{
		{"PUT", "/photos/k", hello}, {"PUT", "/photos/k?partNumber=1&uploadId=" + id, hello}, {"PUT", "/photos?tagging", document},
		{"POST", "/photos?delete", "<Delete><Object><Key>kept</Key></Object></Delete>"},
	}
	s.do("PUT", "/photos/kept", "")
	for a := checksum.CRC32; a <= checksum.SHA256; a++ {
		for _, target := range targets {
			right := checksum.Sum(a, []byte(target.body)).String()
			for value, code := range map[string]string{
				checksum.Sum(a, []byte("x")).String(): "BadDigest", right[1:]: "InvalidRequest", "": "InvalidRequest", "!" + right[1:]: "InvalidRequest", right + "AAAA": "InvalidRequest",
				strings.TrimRight(right, "="): "InvalidRequest",
			} {
				if value == right { // CRC64 without padding
					continue
				}
				s.do(target.method, target.target, target.body, a.Header()+": "+value).fails(400, code)
			}
			s.do(target.method, target.target, target.body, a.Header()+": "+right, a.Header()+": "+right).fails(400, "InvalidArgument")
			another := checksum.Sum((a+1)%5, []byte(target.body))
			s.do(target.method, target.target, target.body, a.Header()+": "+right, another.Algorithm.Header()+": "+another.String()).fails(400, "InvalidRequest")
			s.do(target.method, target.target, target.body, a.Header()+": "+right, "x-amz-sdk-checksum-algorithm: "+another.Algorithm.String()).fails(400, "InvalidRequest")
		}
		wrong := sigv4test.Trailer{Name: a.Header(), Value: checksum.Sum(a, []byte("x")).String()}
		s.chunked("/photos/k", hello, int64(len(hello)), sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 8, Trailers: []sigv4test.Trailer{wrong}}).fails(400, "BadDigest")
		s.chunked("/photos/k", hello, int64(len(hello)), sigv4test.Chunks{Mode: sigv4test.SignedChunksTrailer, Size: 8, Trailers: []sigv4test.Trailer{wrong}}).fails(400, "BadDigest")
		wrong.Value = wrong.Value[1:]
		s.chunked("/photos/k", hello, int64(len(hello)), sigv4test.Chunks{Mode: sigv4test.SignedChunksTrailer, Size: 8, Trailers: []sigv4test.Trailer{wrong}}).fails(400, "InvalidRequest")
		right := sigv4test.Trailer{Name: a.Header(), Value: checksum.Sum(a, []byte(hello)).String()}
		s.chunked("/photos/k", hello, int64(len(hello)), sigv4test.Chunks{Mode: sigv4test.UnsignedChunksTrailer, Size: 8, Trailers: []sigv4test.Trailer{right}},
			a.Header()+": "+right.Value).fails(400, "InvalidRequest")
	}
	for _, target := range targets {
		for value, code := range map[string]string{md5Of("x"): "BadDigest", "x": "InvalidDigest", "": "InvalidDigest", md5Of("x")[1:]: "InvalidDigest", strings.ToLower(sha256Of("x")): "InvalidDigest"} {
			s.do(target.method, target.target, target.body, "Content-MD5: "+value).fails(400, code)
		}
		s.do(target.method, target.target, target.body, "Content-MD5: "+md5Of(target.body), "Content-MD5: "+md5Of(target.body)).fails(400, "InvalidDigest")
		s.do(target.method, target.target, target.body, "x-amz-sdk-checksum-algorithm: CRC32").fails(400, "InvalidRequest")
		s.do(target.method, target.target, target.body, "x-amz-checksum-md9: AAAA").fails(400, "InvalidRequest")
	}
	s.do("GET", "/photos/k?uploadId="+id, "").want(200).hasNot("<Part>")
	s.do("HEAD", "/photos/kept", "").want(200)
	s.nothing("k")
}
