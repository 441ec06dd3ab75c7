package s3api_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
)

func TestHostileKeys(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	keys := map[string]string{
		"..": "..", "../../etc/passwd": "../../etc/passwd", "/": "/", "//": "//", "a//b": "a//b", "a/": "a/", ".": ".",
		"%2e%2e": "%252e%252e", "%": "%25", "_": "_", `\`: "%5C", "a\x01b": "a%01b", "\r\n": "%0D%0A", "\x7f": "%7F", "<&\">": "%3C%26%22%3E",
		"\ufffe": "%EF%BF%BE", "\U0010ffff": "%F4%8F%BF%BF", strings.Repeat("é", 512): strings.Repeat("%C3%A9", 512), "a;b=c": "a;b=c", "*~'()!": "*~'()!",
	}
	for key, escaped := range keys {
		s.do("PUT", "/photos/"+escaped, hello+key).want(200)
	}
	for key, escaped := range keys {
		s.do("GET", "/photos/"+escaped, "").want(200).is(hello + key)
	}
	s.do("GET", "/photos/%2e%2e", "").is(hello + "..")
	listed := map[string]bool{}
	token := ""
	for more := "true"; more == "true"; {
		a := s.do("GET", "/photos?list-type=2&encoding-type=url&max-keys=3"+token, "").want(200)
		for _, k := range a.elements("Key") {
			key, err := url.PathUnescape(k)
			if err != nil || listed[key] {
				t.Fatalf("key %q: %v", k, err)
			}
			listed[key] = true
		}
		more, token = a.element("IsTruncated"), "&continuation-token="+escape(a.element("NextContinuationToken"))
	}
	for key := range keys {
		if !listed[key] {
			t.Errorf("key %q is not listed", key)
		}
	}
	s.do("GET", "/photos", "").want(200).has("<Key>a&#x1;b</Key>", "<Key>&#xd;&#xa;</Key>", "<Key>&lt;&amp;&quot;&gt;</Key>")
	for _, bad := range []string{"/photos/%00", "/photos/%ff", "/photos/a%c3"} {
		s.do("PUT", bad, hello).fails(400, "InvalidArgument")
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		s.do(method, "/photos/"+strings.Repeat("%C3%A9", 512)+"a", "").fails(400, "KeyTooLongError")
	}
	for _, bad := range []string{"/photos?prefix=%ff", "/photos?marker=%00", "/photos?list-type=2&start-after=%ff", "/photos?delimiter=%ff", "/photos?versions&key-marker=%ff",
		"/photos?uploads&key-marker=%ff", "/photos?uploads&key-marker=a&upload-id-marker=x", "/?prefix=%ff", "/photos?list-type=2&continuation-token=",
		"/photos?list-type=2&continuation-token=zz", "/photos?list-type=2&continuation-token=" + base64.RawURLEncoding.EncodeToString([]byte("i\xff")),
		"/photos?list-type=2&continuation-token=" + base64.RawURLEncoding.EncodeToString([]byte("i"+strings.Repeat("a", 5000)))} {
		s.do("GET", bad, "").fails(400, "InvalidArgument")
	}
}

func TestListStartsAfter(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, k := range []string{"a", "b%20c", "d/1", "d/2", "e"} {
		s.do("PUT", "/photos/"+k, "")
	}
	keys := func(query string) string {
		a := s.do("GET", "/photos?list-type=2&"+query, "").want(200)
		return strings.Join(a.elements("Key"), " ")
	}
	for query, want := range map[string]string{
		"start-after=b": "b c d/1 d/2 e", "start-after=b&encoding-type=url": "b%20c d/1 d/2 e", "start-after=d/1": "d/2 e", "start-after=d/&delimiter=/": "e",
		"start-after=z": "", "prefix=d/": "d/1 d/2", "prefix=d/&start-after=a": "d/1 d/2", "prefix=d/&start-after=e": "",
	} {
		if got := keys(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	// The token takes precedence over start-after, which clients send again with it.
	a := s.do("GET", "/photos?list-type=2&start-after=a&max-keys=1", "")
	if got := keys("start-after=a&max-keys=1&continuation-token=" + escape(a.element("NextContinuationToken"))); got != "d/1" {
		t.Error(got)
	}
}

func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	id := s.upload("/photos/k")
	bomb := `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>`
	deep := strings.Repeat("<a>", 100000)
	for _, target := range []string{"POST /photos?delete", "POST /photos/k?uploadId=" + id, "PUT /photos?cors", "PUT /photos?tagging", "PUT /photos/k?tagging", "PUT /photos?acl", "PUT /fresh"} {
		method, path, _ := strings.Cut(target, " ")
		for _, document := range []string{
			"not XML", "<", "<a></b>", bomb + "<Delete><Object><Key>&b;</Key></Object></Delete>", `<?xml version="1.0" encoding="UTF-16"?><Delete/>`,
			`<!DOCTYPE a SYSTEM "file:///etc/passwd"><Delete><Object><Key>&a;</Key></Object></Delete>`, deep, "\xff\xfe", "<Delete><Object><Key>\x01</Key></Object></Delete>",
		} {
			a := s.do(method, path, document)
			if a.status != 400 {
				t.Errorf("%s with %.40q: status %d, want 400\n%s", target, document, a.status, a.body)
			}
		}
		s.do(method, path, strings.Repeat("<a/>", 3<<20/4)).fails(400, "MaxMessageLengthExceeded")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.complete("/photos/k", id, strings.Repeat("<Part/>", 2<<20/7-20)).fails(400, "MalformedXML")
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 48<<20 {
		t.Errorf("%d MB allocated for a document of 2 MB", n>>20)
	}
}

func TestResourceDoesNotLeak(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	r := s.request("GET", "/photos/absent", "")
	s.main.Presign(r, time.Minute, time.Now())
	s.send(r).fails(404, "NoSuchKey").has("<Resource>/photos/absent</Resource>").hasNot("Signature").hasNot("Credential")
	r = s.request("GET", "/photos/absent", "")
	r.URL.Opaque = "//user:secret@" + r.URL.Host + "/photos/absent"
	s.send(r).fails(403, "AccessDenied").has("<Resource>/photos/absent</Resource>").hasNot("secret")
}

func TestNotEnoughSpace(t *testing.T) {
	t.Parallel()
	s := withBucket(t, slog.New(slog.DiscardHandler))
	s.options.Limits.Copies = 3
	s.reopen()
	s.do("PUT", "/photos/k", hello+" on three nodes").fails(507, "InsufficientStorage")
	if n := s.files(); n != 0 {
		t.Errorf("%d files, want none", n)
	}
}

// FuzzRequest checks that no request causes a 5xx, except 501 for unsupported features.
func FuzzRequest(f *testing.F) {
	s := withBucket(f, slog.New(slog.DiscardHandler))
	s.do("PUT", "/photos/k", hello, "x-amz-checksum-crc32: "+crc32Of(hello))
	id := s.upload("/photos/m")
	for _, seed := range []struct{ method, target, header, body string }{
		{"GET", "/", "", ""}, {"GET", "/photos?list-type=2&prefix=a&delimiter=/&max-keys=2&start-after=k", "", ""}, {"GET", "/photos/k", "Range: bytes=1-2", ""},
		{"PUT", "/photos/k", "x-amz-copy-source: /photos/k\nx-amz-metadata-directive: REPLACE", ""}, {"PUT", "/photos/x?partNumber=1&uploadId=" + id, "", "x"},
		{"PUT", "/photos/m?partNumber=1&uploadId=" + id, "x-amz-copy-source: photos/k\nx-amz-copy-source-range: bytes=0-1", ""},
		{"POST", "/photos/m?uploadId=" + id, "", "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>"},
		{"POST", "/photos?delete", "Content-MD5: x", "<Delete><Object><Key>a</Key></Object></Delete>"}, {"OPTIONS", "/photos/k", "Origin: a\nAccess-Control-Request-Method: GET", ""},
		{"POST", "/photos", "Content-Type: multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"policy\"\r\n\r\ne30=\r\n--x--"},
		{"GET", "/photos/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a", "", ""}, {"PUT", "/photos?cors", "", "<CORSConfiguration><CORSRule/></CORSConfiguration>"},
		{"GET", "/photos/k?attributes", "x-amz-object-attributes: ETag", ""}, {"GET", "/main:photos/%ff%00?uploads", "Host: a.s3.test", ""}, {"PUT", "/photos/t?tagging", "", "<Tagging/>"},
		{"PUT", "/photos/k", "x-amz-decoded-content-length: 3\nx-amz-trailer: x-amz-checksum-crc32\nx-amz-tagging: a=b&c", "3\r\nabc\r\n0\r\n\r\n"},
	} {
		for signed := range 5 {
			f.Add(signed, seed.method, seed.target, seed.header, seed.body)
		}
	}
	f.Fuzz(func(t *testing.T, signed int, method, target, header, body string) {
		s := *s
		s.t = t
		r, ok := fuzzed(&s, method, target, header, body)
		if !ok {
			t.Skip()
		}
		payloads := []string{"", sha256Hex(body), sigv4test.Unsigned, sigv4test.UnsignedChunksTrailer, sigv4test.SignedChunks}
		if n := len(payloads); signed%n > 0 {
			s.main.Sign(r, payloads[signed%n], time.Now())
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Skip() // net/http refuses to send it
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode >= 500 && response.StatusCode != http.StatusNotImplemented {
			t.Errorf("status %d", response.StatusCode)
		}
		if a := (answer{t, target, response.StatusCode, response.Header, string(text)}); err == nil && response.StatusCode >= 400 && len(text) > 0 && response.Header.Get("Content-Type") == "application/xml" {
			a.fails(response.StatusCode, a.element("Code"))
		}
	})
}

func fuzzed(s *server, method, target, header, body string) (*http.Request, bool) {
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, " \r\n\t#") || method == "" || strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) || method == "CONNECT" {
		return nil, false
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return nil, false
		}
	}
	var headers []string
	if header != "" {
		headers = strings.Split(header, "\n")
	}
	return s.request(method, target, body, headers...), true
}

func TestOneCreatorWins(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const n = 20
	statuses := make(chan int, n)
	for i := range n {
		r := s.request("PUT", "/photos/k", hello+strconv.Itoa(i), "If-None-Match: *")
		s.main.Sign(r, sigv4test.Unsigned, time.Now())
		go func() {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				statuses <- 0
				return
			}
			response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	count := map[int]int{}
	for range n {
		count[<-statuses]++
	}
	if fmt.Sprint(count) != fmt.Sprint(map[int]int{200: 1, 412: n - 1}) {
		t.Error(count)
	}
	if files := s.files(); files != 2 {
		t.Errorf("%d files, want 2", files)
	}
}
