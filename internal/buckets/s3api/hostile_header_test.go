package s3api_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
)

type wire struct {
	*server
	net.Conn
	in *bufio.Reader
}

func (s *server) dial() *wire {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return &wire{s, c, bufio.NewReader(c)}
}

// put sends a PUT of photos/k with these lines and this body. The signature does not cover the length.
func (w *wire) put(lines, body string) *http.Response {
	w.t.Helper()
	r := w.request("PUT", "/photos/k", "")
	w.main.Sign(r, sigv4test.Unsigned, time.Now())
	text := "PUT /photos/k HTTP/1.1\r\nHost: " + r.URL.Host + "\r\n"
	for name := range r.Header {
		text += name + ": " + r.Header.Get(name) + "\r\n"
	}
	// The response may precede the body.
	go func() { _, _ = io.WriteString(w.Conn, text+lines+"\r\n"+body) }()
	return w.answer()
}

func (w *wire) answer() *http.Response {
	w.t.Helper()
	if err := w.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		w.t.Fatal(err)
	}
	response, err := http.ReadResponse(w.in, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	response.Body = io.NopCloser(strings.NewReader(string(body)))
	return response
}

// usable checks that the connection is closed or that the next request on it works.
func (w *wire) usable(last *http.Response) {
	w.t.Helper()
	if !last.Close {
		r := w.request("GET", "/photos/absent", "")
		w.main.Sign(r, sigv4test.Unsigned, time.Now())
		if err := r.Write(w.Conn); err != nil {
			w.t.Fatal(err)
		}
		if next := w.answer(); next.StatusCode != 404 {
			w.t.Errorf("the next request on the connection has the status %d", next.StatusCode)
		}
		return
	}
	if _, err := w.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Errorf("the connection is not closed after %d %v: %v", last.StatusCode, last.Header, err)
	}
}

// TestHostileLengths checks that wrong, huge and ambiguous lengths are refused before anything is stored, and that the
// rest is not parsed as another request.
func TestHostileLengths(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const smuggled = "GET /photos HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, c := range map[string]struct {
		lines, body string
		status      int
		code        string // "" if net/http refuses the request
	}{
		"more than 5 GiB":            {"Content-Length: 5368709121\r\n", "x", 400, "EntityTooLarge"},
		"5 TB":                       {"Content-Length: 5497558138880\r\n", "x", 400, "EntityTooLarge"},
		"largest number":             {"Content-Length: 9223372036854775807\r\n", "x", 400, "EntityTooLarge"},
		"overflow":                   {"Content-Length: 9223372036854775808\r\n", "x", 400, ""},
		"negative":                   {"Content-Length: -1\r\n", "x", 400, ""},
		"with a sign":                {"Content-Length: +1\r\n", "x", 400, ""},
		"hexadecimal":                {"Content-Length: 0x1\r\n", "x", 400, ""},
		"two lengths":                {"Content-Length: 5\r\nContent-Length: 6\r\n", "hello", 400, ""},
		"two lengths in a line":      {"Content-Length: 5, 5\r\n", "hello", 400, ""},
		"another transfer encoding":  {"Transfer-Encoding: gzip\r\n", smuggled, 501, ""},
		"two transfer encodings":     {"Transfer-Encoding: gzip, chunked\r\n", smuggled, 501, ""},
		"transfer encoding twice":    {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", smuggled, 501, ""},
		"chunks without a size":      {"Transfer-Encoding: chunked\r\n", "zz\r\n" + smuggled, 400, "IncompleteBody"},
		"negative chunk":             {"Transfer-Encoding: chunked\r\n", "-1\r\n" + smuggled, 400, "IncompleteBody"},
		"huge chunk":                 {"Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n" + smuggled, 400, "IncompleteBody"},
		"chunk without CRLF":         {"Transfer-Encoding: chunked\r\n", "1\r\nxx\r\n0\r\n\r\n", 400, "IncompleteBody"},
		"endless chunk extension":    {"Transfer-Encoding: chunked\r\n", "1;" + strings.Repeat("x", 100000), 400, "IncompleteBody"},
		"more than 8 KiB of headers": {"Content-Length: 5\r\nRange: bytes=0-" + strings.Repeat("9", 9000) + "\r\n", "hello", 400, "RequestHeaderSectionTooLarge"},
		"header that is continued":   {"Content-Length: 5\r\nIf-Match: a\r\n b\r\n", "hello", 400, "InvalidArgument"},
		"control character":          {"Content-Length: 5\r\nContent-Type: a\x01b\r\n", "hello", 400, ""},
		"NUL":                        {"Content-Length: 5\r\nContent-Type: a\x00b\r\n", "hello", 400, ""},
		"space in the name":          {"Content-Length: 5\r\nContent Type: a\r\n", "hello", 400, ""},
		"space before the colon":     {"Content-Length: 5\r\nContent-Length : 6\r\n", "hello", 400, ""},
		"two hosts":                  {"Content-Length: 5\r\nHost: b\r\n", "hello", 400, ""},
		"unknown expectation":        {"Content-Length: 5\r\nExpect: gold\r\n", "hello", 417, ""},
	} {
		w := s.dial()
		a := w.put(c.lines, c.body)
		text, _ := io.ReadAll(a.Body)
		if a.StatusCode != c.status || c.code != "" && !strings.Contains(string(text), "<Code>"+c.code+"</Code>") {
			t.Errorf("%s: %d %s, want %d %s", name, a.StatusCode, text, c.status, c.code)
		}
		w.usable(a)
	}
	s.nothing("k")
	// With both headers, the chunks count. The next request must not begin inside them.
	w := s.dial()
	a := w.put("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")
	if a.StatusCode != 200 {
		t.Errorf("length and chunks: %d", a.StatusCode)
	}
	w.usable(a)
	s.do("GET", "/photos/k", "").is("hello")
}

func TestConnectionAfterRefusal(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	large := strings.Repeat("large ", 100000)
	for _, c := range []struct {
		headers string
		status  int
	}{
		{"x-amz-acl: public-read", 400}, {"x-amz-acl: everybody", 400}, {"x-amz-meta-a: " + strings.Repeat("a", 2049), 400}, {"x-amz-server-side-encryption: AES256", 501},
		{`If-Match: "x"`, 404}, {"Content-MD5: " + md5Of("x"), 400}, {"x-amz-copy-source: photos/absent", 404}, {"x-amz-checksum-crc32: AAAAAA==", 400},
	} {
		for _, body := range []string{hello, large} {
			w := s.dial()
			r := s.request("PUT", "/photos/k", body, c.headers)
			s.main.Sign(r, sha256Hex(body), time.Now())
			go func() { _ = r.Write(w.Conn) }() // the response may precede the body
			a := w.answer()
			if a.StatusCode != c.status {
				t.Errorf("%s: %d, want %d", c.headers, a.StatusCode, c.status)
			}
			w.usable(a)
		}
	}
	s.nothing("k")
}

func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		status  int
		code    string
		headers []string
	}{
		{400, "MetadataTooLarge", []string{"x-amz-meta-a: " + long(2048)}},
		{400, "MetadataTooLarge", []string{"x-amz-meta-a: " + long(1024), "x-amz-meta-b: " + long(1023)}},
		{400, "MetadataTooLarge", []string{"x-amz-meta-" + long(2049) + ": "}},
		{400, "MetadataTooLarge", []string{"x-amz-meta-a: " + strings.Repeat("ü", 1024)}},
		{400, "RequestHeaderSectionTooLarge", []string{"Content-Disposition: " + long(8<<10)}},
		{400, "RequestHeaderSectionTooLarge", []string{"Cache-Control: " + long(3<<10), "Content-Language: " + long(3<<10), "Expires: " + long(3<<10)}},
		{400, "InvalidArgument", []string{"x-amz-acl: private", "x-amz-acl: private"}},
		{400, "InvalidArgument", []string{"x-amz-copy-source: a/b", "x-amz-copy-source: c/d"}},
		{400, "InvalidArgument", []string{"x-amz-acl: <script>"}},
		{400, "InvalidStorageClass", []string{"x-amz-storage-class: GLACIER"}},
		{501, "NotImplemented", []string{"x-amz-server-side-encryption: AES256"}},
		{501, "NotImplemented", []string{"x-amz-grant-read: id=1"}},
		{501, "NotImplemented", []string{"x-amz-write-offset-bytes: 5"}},
		{400, "InvalidArgument", []string{"If-Match: " + strings.Repeat(`"a",`, 101)}},
	} {
		s.do("PUT", "/photos/k", hello, c.headers...).fails(c.status, c.code)
		if c.code != "InvalidArgument" || !strings.HasPrefix(c.headers[0], "If-") && !strings.HasPrefix(c.headers[0], "x-amz-copy") {
			s.do("POST", "/photos/k?uploads", "", c.headers...).fails(c.status, c.code)
		}
	}
	s.do("GET", "/photos?uploads", "").want(200).hasNot("<Upload>")
	s.nothing("k")

	// Valid metadata is returned unchanged, except for the encoding of encoded words.
	s.do("PUT", "/photos/k", hello, "x-amz-meta-a: "+long(2047)).want(200)
	s.do("GET", "/photos/k", "").head("X-Amz-Meta-A: " + long(2047))
	const encoded = "=?UTF-8?B?R3LDvMOfZQ==?= =?iso-8859-1?Q?=E9?="
	s.do("PUT", "/photos/k", hello, "x-amz-meta-a: "+encoded, "x-amz-meta-c: one", "x-amz-meta-c: two", "x-amz-meta-d:", "Content-Type: no type").want(200)
	s.do("GET", "/photos/k", "").head("X-Amz-Meta-A: =?UTF-8?B?R3LDvMOfZcOp?=", "X-Amz-Meta-C: one,two", "X-Amz-Meta-D:", "Content-Type: no type")
}

func TestHostileTags(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/kept", hello, "x-amz-tagging: a=1").want(200)
	xmlOf := func(tags string) string { return "<Tagging><TagSet>" + tags + "</TagSet></Tagging>" }
	tag := func(k, v string) string { return "<Tag><Key>" + k + "</Key><Value>" + v + "</Value></Tag>" }
	var header, document string
	for i := range 11 {
		header += "&k" + strconv.Itoa(i) + "=v"
		document += tag("k"+strconv.Itoa(i), "v")
	}
	long := strings.Repeat("é", 257)
	for _, c := range []struct{ header, document, code string }{
		{header[1:], document, "BadRequest"},
		{"a=1&a=2", tag("a", "1") + tag("a", "2"), "InvalidArgument InvalidTag"},
		{"=v", tag("", "v"), "InvalidArgument InvalidTag"},
		{escape(long[:258]) + "=v", tag(long[:258], "v"), "InvalidTag"},
		{"k=" + escape(long), tag("k", long), "InvalidTag"},
		{"k%24=v", tag("k$", "v"), "InvalidTag"},
		{"k=v%3C", tag("k", "v&lt;"), "InvalidTag"},
		{"k=%0A", tag("k", "&#10;"), "InvalidTag"},
		{"k=%F0%9F%98%80", tag("k", "😀"), "InvalidTag"},
		{"aws:k=v", tag("AWS:k", "v"), "InvalidTag"},
		{"k=%zz", tag("k", "v")[1:], "InvalidArgument MalformedXML"},
		{"k=%00", "", "InvalidTag"},
		{"k=%FF", "", "InvalidArgument"},
		{"%FF=v", "", "InvalidArgument"},
		{"a=1;b=2", "", "InvalidArgument"},
	} {
		code, ofDocument, ok := strings.Cut(c.code, " ")
		if !ok {
			ofDocument = code
		}
		s.do("PUT", "/photos/k", hello, "x-amz-tagging: "+c.header).fails(400, code)
		s.do("POST", "/photos/k?uploads", "", "x-amz-tagging: "+c.header).fails(400, code)
		if c.document != "" {
			s.do("PUT", "/photos/kept?tagging", xmlOf(c.document)).fails(400, ofDocument)
			s.send(s.form(map[string]string{"key": "k", "tagging": xmlOf(c.document)}, hello)).fails(400, ofDocument)
		}
	}
	s.do("PUT", "/photos/k", hello, "x-amz-tagging: a=1", "x-amz-tagging: b=2").fails(400, "InvalidArgument")
	s.do("GET", "/photos/kept?tagging", "").has(tag("a", "1"))
	s.do("DELETE", "/photos/kept", "").want(204)
	s.do("GET", "/photos?uploads", "").hasNot("<Upload>")
	s.do("GET", "/photos/k", "").fails(404, "NoSuchKey")
	allowed := "Über +-=._:/@"
	s.do("PUT", "/photos/k", "", "x-amz-tagging: "+escape(allowed)+"="+escape(allowed)).want(200)
	s.do("GET", "/photos/k?tagging", "").has(tag(allowed, allowed))
}

// Invalid dates are ignored, as HTTP requires.
func TestHostileDates(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	future := time.Now().Add(2 * time.Hour).UTC()
	for date, after := range map[string]bool{ // whether the object is older
		"Sun, 06 Nov 1994 08:49:37 GMT": false, "Sunday, 06-Nov-94 08:49:37 GMT": false, "Sun Nov  6 08:49:37 1994": false, "1994-11-06T08:49:37Z": false, "1994-11-06T08:49:37.123+01:00": false,
		"Thu, 01 Jan 1970 00:00:00 GMT": false, "Wed, 31 Dec 1969 23:59:59 GMT": false, "Sat, 01 Jan 0000 00:00:00 GMT": false, "Mon, 01 Jan 0001 00:00:00 GMT": false, "0000-01-01T00:00:00Z": false,
		future.Format(http.TimeFormat): true, future.Format(time.RFC3339): true, "Fri, 31 Dec 9999 23:59:59 GMT": true, "9999-12-31T23:59:59Z": true,
	} {
		modified, unmodified := 200, 412
		if after {
			modified, unmodified = 304, 200
		}
		s.do("GET", "/photos/k", "", "If-Modified-Since: "+date).want(modified)
		s.do("HEAD", "/photos/k", "", "If-Unmodified-Since: "+date).want(unmodified)
		s.do("PUT", "/photos/copy", "", "x-amz-copy-source: photos/k", "x-amz-copy-source-if-unmodified-since: "+date).want(unmodified)
		s.do("PUT", "/photos/copy", "", "x-amz-copy-source: photos/k", "x-amz-copy-source-if-modified-since: "+date).want(map[bool]int{false: 200, true: 412}[after])
		s.do("GET", "/photos/k", "", "Range: bytes=0-0", "If-Range: "+date).want(200)
	}
	for _, date := range []string{
		"", "0", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 10000 08:49:37 GMT", "Sun, 06 Nov -001 08:49:37 GMT",
		"10000-01-01T00:00:00Z", "99999999999999999999", "1994-11-06", strings.Repeat("9", 4000), "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
	} {
		for _, name := range []string{"If-Modified-Since", "If-Unmodified-Since"} {
			s.do("GET", "/photos/k", "", name+": "+date).want(200)
		}
		s.do("GET", "/photos/k", "", "Range: bytes=0-0", "If-Range: "+date).want(map[bool]int{true: 206, false: 200}[date == ""])
	}
}

func TestHostileRanges(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	const body = "0123456789"
	s.do("PUT", "/photos/k", body)
	huge := strings.Repeat("9", 1000)
	for header, want := range map[string]string{ // "" means 416, body means that the range is ignored
		"bytes=0-0": "0", "bytes=9-": "9", "bytes=-1": "9", "bytes=-" + huge: body + "*", "bytes=0-" + huge: body + "*", "bytes=" + huge + "-": "", "bytes=" + huge + "-" + huge: "", "bytes=10-10": "", "bytes=-0": "",
		"bytes=9223372036854775807-": "", "bytes=9223372036854775806-9223372036854775807": "", "bytes=-9223372036854775808": body + "*", "bytes=18446744073709551616-18446744073709551617": "",
		"bytes=5-4": body, "bytes=9-0": body, "bytes=": body, "bytes=-": body, "bytes": body, "bytes=a-b": body, "bytes=0x0-0x1": body, "bytes=+0-1": body, "bytes=0-+1": body, "bytes=0--1": body, "bytes=1-2-3": body,
		"bytes=0-0,1-1": body, "bytes=" + strings.Repeat("0-0,", 1000) + "0-0": body, "bytes=,0-0": body, "items=0-0": body, "none": body, "bytes=0.0-1": body, "bytes=٠-١": body, "bytes=0-1;": body,
	} {
		a := s.do("GET", "/photos/k", "", "Range: "+header)
		head := s.do("HEAD", "/photos/k", "", "Range: "+header)
		switch {
		case want == "":
			a.fails(416, "InvalidRange").head("Content-Range: bytes */10")
		case want == body:
			a.want(200).is(body)
		default:
			a.want(206).is(strings.TrimSuffix(want, "*"))
		}
		if head.want(a.status); a.status != 416 {
			head.head("Content-Length: "+a.header.Get("Content-Length"), "Content-Range: "+a.header.Get("Content-Range"))
		}
	}
	for _, number := range []string{"0", "-1", "10001", "1.0", "x", "%00", "99999999999999999999"} {
		s.do("GET", "/photos/k?partNumber="+number, "").fails(400, "InvalidArgument")
	}
}
