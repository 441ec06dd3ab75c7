package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/httpapi"
	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
	"holdfast/internal/web"
)

func TestHostileNames(t *testing.T) {
	t.Parallel()
	onEachEngine(t, testHostileNames)
}

func testHostileNames(t *testing.T, s *server) {
	names := map[string]string{
		"..": "..", "../../etc/passwd": "../../etc/passwd", "/": "/", "//": "//", "a//b": "a//b", "a/": "a/", ".": ".", "%2e%2e": "%252e%252e", "%": "%25", "_": "_", `\`: "%5C",
		"a\x01b": "a%01b", "\r\n": "%0D%0A", "\x7f": "%7F", "<&\">": "%3C%26%22%3E", "\ufffe": "%EF%BF%BE", "\U0010ffff": "%F4%8F%BF%BF", strings.Repeat("é", 512): strings.Repeat("%C3%A9", 512),
		"a;b=c": "a;b=c", "metadata": "metadata", "k/metadata": "k/metadata", "objects/k": "objects%2Fk", "x?y#z": "x%3Fy%23z", "+ +": "+%20+",
	}
	for name, escaped := range names {
		if o := s.put(escaped, hello+name); o.Name != name {
			t.Errorf("%q was stored as %q", name, o.Name)
		}
	}
	for name, escaped := range names {
		s.do("GET", objects+escaped, "").is(200).says(hello + name)
		s.asS3("GET", "/photos/"+escaped, "").is(200).says(hello + name)
		if o := s.do("GET", metadata+escaped, "").is(200).object(); o.Name != name {
			t.Errorf("%q is %q in its metadata", name, o.Name)
		}
		if o := s.do("PATCH", metadata+escaped, `{"content_type":"a/b"}`).is(200).object(); o.Name != name {
			t.Errorf("%q is %q in an update", name, o.Name)
		}
	}
	s.do("GET", objects+"%2e%2E", "").is(200).says(hello + "..")
	s.do("GET", objects+"a%2f%2Fb", "").is(200).says(hello + "a//b")
	var listed []string
	marker := ""
	for range len(names) {
		page, next := s.do("GET", photos+"/objects?limit=5"+marker, "").names()
		if listed = append(listed, page...); next == nil {
			break
		}
		marker = "&marker=" + url.QueryEscape(*next)
	}
	want := make([]string, 0, len(names))
	for name := range names {
		want = append(want, name)
	}
	if slices.Sort(want); !slices.Equal(listed, want) {
		t.Errorf("listed are %q, want %q", listed, want)
	}
	for name, escaped := range names {
		s.do("DELETE", objects+escaped, "").is(204)
		if a := s.asS3("GET", "/photos/"+escaped, ""); a.status != 404 {
			t.Errorf("%q exists after it was deleted: %d", name, a.status)
		}
	}
	for _, bad := range []string{"", "%00", "%ff", "a%c3", strings.Repeat("a", 1025)} {
		for method, body := range map[string]string{"GET": "", "PUT": hello, "DELETE": ""} {
			s.do(method, objects+bad, body).fails(422, "InvalidObjectName")
		}
		s.do("PATCH", metadata+bad, "{}").fails(422, "InvalidObjectName")
	}
	if n := s.files(); n != 2*len(names) { // garbage until it is collected
		t.Errorf("%d files, want %d", n, 2*len(names))
	}
}

// Refused requests store nothing.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for header, code := range map[string]string{
		"Durability-Level: 0": "InvalidDurabilityLevel", "Durability-Level: 10": "InvalidDurabilityLevel", "Durability-Level: two": "InvalidDurabilityLevel", "Content-MD5: " + md5Of("other"): "ContentMd5Error", "Content-MD5: x": "ContentMd5Error",
		"Object-Checksum: CRC32 AAAAAA==": "ContentMd5Error", "Object-Checksum: CRC32": "InvalidArgument", "Object-Checksum: CRC32 x": "InvalidArgument", "Object-Checksum: MD5 " + md5Of(hello): "InvalidArgument",
		"Object-Roles: x": "InvalidArgument", "Object-Roles: ,": "InvalidArgument", "Object-Properties: x": "InvalidArgument", "Object-Properties: []": "InvalidArgument", "Object-Properties: null": "InvalidArgument", `Object-Properties: {"s3":1}`: "InvalidArgument",
		`Object-Properties: {"a":"\u0000"}`: "InvalidArgument", `Object-Properties: {"a":1e999999}`: "InvalidArgument", "Object-Properties: " + strings.Repeat("[", 200): "InvalidArgument", `Object-Properties: {"a":"` + strings.Repeat("a", 8192) + `"}`: "InvalidArgument",
		"m-a: " + strings.Repeat("a", 4096): "InvalidArgument", "Cache-Control: " + strings.Repeat("a", 4096): "InvalidArgument",
	} {
		s.do("PUT", objects+"k", hello, header).fails(400, code)
	}
	s.do("PUT", objects+"k", hello, "Object-Roles: "+strings.Repeat(role+",", 5)+strings.TrimSuffix(manyRoles(33), ",")).fails(400, "InvalidArgument")
	for _, header := range []string{"Durability-Level", "Object-Checksum", "Object-Properties", "If-Unmodified-Since"} {
		r := s.request("PUT", objects+"k", strings.NewReader(hello))
		r.Header[header] = []string{"1", "1"}
		if a := s.send(s.client, r); a.status != 400 {
			t.Errorf("%s twice: %d", header, a.status)
		}
	}
	r := s.request("PUT", objects+"k", endless(5<<30+1))
	r.ContentLength = 5<<30 + 1
	r.Header.Set("Expect", "100-continue")
	s.send(s.client, r).fails(413, "MaxContentLength")
	s.do("PUT", "/buckets/v1/accounts/main/buckets/absent/objects/k", hello).fails(404, "BucketNotFound")
	s.do("GET", objects+"k", "").fails(404, "ObjectNotFound")
	if n := s.files(); n != 0 {
		t.Errorf("%d files, want none", n)
	}
}

func manyRoles(n int) (list string) {
	for range n {
		list += buckets.NewUUID() + ","
	}
	return list
}

// Truncated, malformed and slow bodies are not stored.
func TestCutBody(t *testing.T) {
	t.Parallel()
	options := quiet
	options.Pace = web.Rate{Grace: 200 * time.Millisecond, BytesPerSecond: 1 << 20}
	s := withBucket(t, options)
	for _, c := range []struct {
		rest   string
		close  bool
		status int
		code   string
	}{
		{"Content-Length: 100\r\n\r\n" + hello, true, 400, "UploadAbandoned"},
		{"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", true, 400, "UploadAbandoned"},
		{"Content-Length: 100\r\n\r\n" + hello, false, 408, "UploadTimeout"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "PUT %sk HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n%s", objects, s.token, c.rest); err != nil {
			t.Fatal(err)
		}
		if c.close {
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", c.rest, err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.Body.Close() != nil || response.StatusCode != c.status || !strings.Contains(string(body), c.code) {
			t.Errorf("%q: %d %s %v, want %d %s", c.rest, response.StatusCode, body, err, c.status, c.code)
		}
	}
	s.do("GET", objects+"k", "").fails(404, "ObjectNotFound")
	if n := s.files(); n != 0 {
		t.Errorf("%d files, want none", n)
	}
}

func TestQuotaAndSpace(t *testing.T) {
	t.Parallel()
	s := withBucket(t, quiet)
	if err := s.store.SetQuota(t.Context(), s.main.ID, buckets.BucketRef{}, buckets.Quota{Objects: 1}); err != nil {
		t.Fatal(err)
	}
	s.put("k", hello)
	s.do("PUT", objects+"l", hello).fails(403, "QuotaExceeded")
	s.do("PUT", objects+"k", "Durability-Level of more than there are nodes", "Durability-Level: 3").fails(507, "NotEnoughSpace")
	if n := s.files(); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	// The body is on no node.
	s.remove()
	if a := s.do("GET", objects+"k", ""); a.status != 500 && a.status != 503 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// These are errors that no request here can cause.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err       error
		status    int
		code      string
		retryable bool
	}{
		{errors.New("a bug"), 500, "InternalError", false},
		{errcode.New(errcode.Unavailable, "the database is away"), 503, "ServiceUnavailable", true},
		{fairshare.ErrFull, 503, "Throttled", true},
		{errcode.New(errcode.Conflict, "others write"), 503, "ServiceUnavailable", true},
		{errcode.New(errcode.Denied, "no"), 403, "AuthorizationFailed", false},
		{errcode.New(errcode.NotFound, "no"), 404, "ResourceNotFound", false},
		{errcode.New(errcode.Invalid, "no"), 400, "InvalidArgument", false},
		{errcode.New(errcode.TooLarge, "no"), 413, "MaxContentLength", false},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "1")
		httpapi.WriteError(w, httptest.NewRequest(http.MethodGet, "/buckets/", nil), c.err)
		a := answer{t, c.code, w.Code, w.Header(), w.Body.String()}
		a.fails(c.status, c.code)
		if retryable := strings.Contains(a.body, `"retryable":true`); retryable != c.retryable || (a.header.Get("Retry-After") != "") != c.retryable {
			t.Errorf("%s: %v %s", c.code, a.header, a.body)
		}
		if strings.Contains(a.body, "bug") {
			t.Errorf("%s has the cause", a.body)
		}
	}
}
