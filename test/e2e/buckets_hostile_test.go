package e2e

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestBucketsHostile sends invalid requests. The server must return the right S3 error, store nothing, and keep the
// connection usable or close it.
func TestBucketsHostile(t *testing.T) {
	t.Parallel()
	listen := testdb.FreeAddress(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__LISTEN="+listen)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	hour := time.Now().Add(-time.Hour)
	for name, r := range map[string]struct {
		line, lines, body string
		signed            time.Time // zero for now
		status            int
		code              string // "" for an error from net/http
	}{
		"malformed path":        {line: "GET /photos/%zz", status: 400, code: "InvalidRequest"},
		"NUL":                   {line: "PUT /photos/%00", status: 400, code: "InvalidArgument"},
		"not UTF-8":             {line: "PUT /photos/%ff", status: 400, code: "InvalidArgument"},
		"long key":              {line: "PUT /photos/" + strings.Repeat("%C3%A9", 513), status: 400, code: "KeyTooLongError"},
		"bucket name":           {line: "PUT /..", status: 400, code: "InvalidBucketName"},
		"no bucket":             {line: "GET //photos/k", status: 400, code: "InvalidBucketName"},
		"replayed":              {line: "GET /photos", signed: hour, status: 403, code: "RequestTimeTooSkewed"},
		"of the future":         {line: "GET /photos", signed: hour.Add(2 * time.Hour), status: 403, code: "RequestTimeTooSkewed"},
		"forged":                {line: "GET /photos", lines: "x-amz-meta-a: b\r\n", status: 403, code: "AccessDenied"},
		"two credentials":       {line: "GET /photos?X-Amz-Signature=a", lines: "", status: 400, code: "InvalidArgument"},
		"5 GiB and more":        {line: "PUT /photos/k", lines: "Content-Length: 5368709121\r\n", status: 400, code: "EntityTooLarge"},
		"negative length":       {line: "PUT /photos/k", lines: "Content-Length: -1\r\n", status: 400, code: "InvalidRequest"},
		"two lengths":           {line: "PUT /photos/k", lines: "Content-Length: 1\r\nContent-Length: 2\r\n", body: "hello", status: 400, code: "InvalidRequest"},
		"wrong chunks":          {line: "PUT /photos/k", lines: "Transfer-Encoding: chunked\r\n", body: "-1\r\nhello\r\n", status: 400, code: "IncompleteBody"},
		"wrong MD5":             {line: "PUT /photos/k", lines: "Content-MD5: x\r\nContent-Length: 5\r\n", body: "hello", status: 400, code: "InvalidDigest"},
		"9 KiB of headers":      {line: "PUT /photos/k", lines: "Content-Length: 5\r\nCache-Control: " + strings.Repeat("a", 9<<10) + "\r\n", body: "hello", status: 400, code: "RequestHeaderSectionTooLarge"},
		"1 MB of headers":       {line: "PUT /photos/k", lines: "Content-Length: 5\r\nCache-Control: " + strings.Repeat("a", 1<<20) + "\r\n", body: "hello", status: 431, code: "RequestHeaderSectionTooLarge"},
		"unknown expectation":   {line: "PUT /photos/k", lines: "Content-Length: 5\r\nExpect: gold\r\n", status: 417, code: "InvalidRequest"},
		"unknown encoding":      {line: "PUT /photos/k", lines: "Transfer-Encoding: gzip\r\n", status: 501, code: "NotImplemented"},
		"control character":     {line: "PUT /photos/k", lines: "Content-Type: a\x01\r\n", status: 400, code: "InvalidRequest"},
		"XML bomb":              {line: "POST /photos?delete", body: `<!DOCTYPE a [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><Delete><Object><Key>&b;</Key></Object></Delete>`, status: 400, code: "MalformedXML"},
		"form without end":      {line: "POST /photos", lines: "Content-Type: multipart/form-data; boundary=x\r\n", body: "--x\r\n" + strings.Repeat("a", 100<<10), status: 400, code: "MaxPostPreDataLengthExceeded"},
		"part 10,001":           {line: "PUT /photos/k?partNumber=10001&uploadId=11111111-2222-4333-8444-555555555555", status: 400, code: "InvalidArgument"},
		"upload that is not":    {line: "POST /photos/k?uploadId=..", status: 404, code: "NoSuchUpload"},
		"unknown method":        {line: "BREW /photos/k", status: 405, code: "MethodNotAllowed"},
		"range without a byte":  {line: "GET /photos/kept", lines: "Range: bytes=99999999999999999999-\r\n", status: 416, code: "InvalidRange"},
		"preflight of a bucket": {line: "OPTIONS /photos", lines: "Origin: a\r\nAccess-Control-Request-Method: GET\r\n", status: 403, code: "AccessForbidden"},
	} {
		c.want(http.StatusOK, http.MethodPut, "/photos/kept", []byte("kept"))
		method, target, _ := strings.Cut(r.line, " ")
		if r.signed.IsZero() {
			r.signed = time.Now()
		}
		if r.body != "" && !strings.Contains(r.lines, "Content-Length") && !strings.Contains(r.lines, "Transfer-Encoding") {
			r.lines += fmt.Sprintf("Content-Length: %d\r\n", len(r.body))
		}
		if err := hostile(c, method, target, r.lines, r.body, r.signed, r.status, r.code); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list := string(c.want(http.StatusOK, http.MethodGet, "/photos", nil)); strings.Count(list, "<Key>") != 1 {
		t.Errorf("list: %s", list)
	}
	s.Verb("buckets", "audits", "run")
}

// hostile sends a request with unsigned header lines and body, and checks the response.
func hostile(c s3, method, target, lines, body string, signed time.Time, status int, code string) error {
	listen := strings.TrimPrefix(c.URL, "http://")
	conn, err := net.Dial("tcp", listen)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.URL, nil)
	if err != nil {
		return err
	}
	r.URL.Opaque, r.URL.RawQuery, _ = strings.Cut(target, "?")
	if strings.HasPrefix(target, "//") { // net/http would parse it as a host
		r.URL.Opaque = strings.TrimPrefix(r.URL.Opaque, "/")
	}
	c.Sign(r, sigv4test.Unsigned, signed)
	text := method + " " + target + " HTTP/1.1\r\nHost: " + listen + "\r\n"
	for name := range r.Header {
		text += name + ": " + r.Header.Get(name) + "\r\n"
	}
	go func() { _, _ = io.WriteString(conn, text+lines+"\r\n"+body) }() // the server may respond before it has read everything
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	a, err := http.ReadResponse(in, r)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(a.Body)
	if err != nil {
		return err
	}
	var e struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	if code != "" {
		if err := xml.NewDecoder(bytes.NewReader(got)).Decode(&e); err != nil {
			return fmt.Errorf("%d %s: %w", a.StatusCode, got, err)
		}
	}
	if a.StatusCode != status || e.Code != code {
		return fmt.Errorf("%d %s, want %d %s", a.StatusCode, got, status, code)
	}
	if a.Close {
		// Unread bytes may make the server reset the connection.
		if n, err := io.Copy(io.Discard, in); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%d bytes after the response, %w", n, err)
		}
		return nil
	}
	if _, err := io.WriteString(conn, "GET /photos/kept HTTP/1.1\r\nHost: "+listen+"\r\n\r\n"); err != nil {
		return err
	}
	if a, err = http.ReadResponse(in, nil); err != nil || a.StatusCode != http.StatusForbidden { // because the request is not signed
		return fmt.Errorf("the next request on the connection: %v, %w", a, err)
	}
	return nil
}
