package s3api_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets/s3api"
)

// codedBody combines all headers that say how a request body is coded.
type codedBody struct {
	signed   string // header, query or anonymous
	mode     string // x-amz-content-sha256: absent, hash, or as sent
	encoding string // Content-Encoding
	decoded  string // x-amz-decoded-content-length: right, other, or as sent
	trailer  bool   // x-amz-trailer is sent
	transfer string // length, chunked (HTTP's), or neither
	framed   bool   // the body is in chunks
}

const (
	ecdsaChunks = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD" // a mode in Signature Version 4A
	crcTrailer  = "x-amz-checksum-crc32"
)

// codedBodies returns all combinations. A body in a streaming mode is always in chunks.
func codedBodies() (all []codedBody) {
	for _, signed := range []string{"header", "query", "anonymous"} {
		for _, mode := range []string{"", "hash", "x", sigv4test.Unsigned, sigv4test.SignedChunks, sigv4test.SignedChunksTrailer, sigv4test.UnsignedChunksTrailer, ecdsaChunks} {
			for _, encoding := range []string{"", "aws-chunked", "gzip", "gzip, AWS-Chunked"} {
				for _, decoded := range []string{"", "right", "other", "x"} {
					for _, trailer := range []bool{false, true} {
						for _, transfer := range []string{"length", "chunked", "neither"} {
							c := codedBody{signed, mode, encoding, decoded, trailer, transfer, true}
							all = append(all, c)
							if c.framed = false; !strings.HasPrefix(mode, "STREAMING-") {
								all = append(all, c)
							}
						}
					}
				}
			}
		}
	}
	return all
}

// want returns S3's answer: "" if it stores the object, or else the error code. These issues of versitygw quote S3:
// 2400 (aws-chunked with UNSIGNED-PAYLOAD), 1691 and 1690 (trailers), 1656 and 1043 (lengths), 1684 (another length
// than declared), 1413 (x-amz-content-sha256). If a trailer is announced in a mode without trailers, or a plain
// body's length differs from the declared length, the headers contradict each other, and S3's behavior is not documented.
func (c *codedBody) want(sent string) string {
	streaming, withTrailer := strings.HasPrefix(c.mode, "STREAMING-"), strings.HasSuffix(c.mode, "-TRAILER")
	unsigned := c.mode == sigv4test.Unsigned || c.mode == "" && c.signed != "header"
	switch {
	case c.mode == "" && c.signed == "header", c.mode == ecdsaChunks:
		return "InvalidRequest"
	case c.mode == "x":
		return "InvalidArgument"
	case c.signed != "header" && strings.HasPrefix(c.mode, "STREAMING-AWS4"):
		return "InvalidRequest"
	case unsigned && strings.Contains(strings.ToLower(c.encoding), "aws-chunked"):
		return "InvalidArgument"
	case c.trailer && !withTrailer:
		return "MalformedTrailerError"
	case c.decoded == "x", c.transfer == "neither":
		return "MissingContentLength"
	case streaming && c.decoded == "" && (c.transfer != "chunked" || c.mode != sigv4test.UnsignedChunksTrailer):
		return "MissingContentLength"
	case streaming && c.decoded == "other":
		return "IncompleteBody"
	case !streaming && c.decoded != "" && c.length() != strconv.Itoa(len(sent)):
		if c.transfer == "length" {
			return "InvalidArgument"
		}
		return "IncompleteBody"
	}
	return ""
}

// length returns x-amz-decoded-content-length.
func (c *codedBody) length() string {
	switch c.decoded {
	case "right":
		return strconv.Itoa(len(hello))
	case "other":
		return strconv.Itoa(len(hello) + 1)
	}
	return c.decoded
}

// send signs and sends the request, and returns the answer and the body.
func (c *codedBody) send(w *wire, target string) (a *http.Response, sent string) {
	r := w.request("PUT", target, "", "Connection: keep-alive")
	set := func(name, value string) {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	set("Content-Encoding", c.encoding)
	set("X-Amz-Decoded-Content-Length", c.length())
	if c.trailer {
		set("X-Amz-Trailer", crcTrailer)
	}
	sent = hello
	if c.framed {
		sent = fmt.Sprintf("%x\r\n%s\r\n0\r\n", len(hello), hello)
		if c.trailer {
			sent += crcTrailer + ":" + crc32Of(hello) + "\r\n"
		}
		sent += "\r\n"
	}
	mode := c.mode
	if mode == "hash" {
		mode = sha256Hex(sent)
	}
	switch {
	case c.signed == "header" && strings.HasPrefix(mode, "STREAMING-AWS4-HMAC"):
		chunks := sigv4test.Chunks{Mode: mode, Size: len(hello), Bare: true}
		if c.trailer && strings.HasSuffix(mode, "-TRAILER") {
			chunks.Trailers = []sigv4test.Trailer{{Name: crcTrailer, Value: crc32Of(hello)}}
		}
		w.main.SignChunked(r, strings.NewReader(hello), -1, chunks, time.Now())
		text, err := io.ReadAll(r.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		sent = string(text)
	case c.signed == "header":
		if w.main.Sign(r, mode, time.Now()); mode == "" {
			r.Header.Del("X-Amz-Content-Sha256")
		}
	case c.signed == "query":
		set("X-Amz-Content-Sha256", mode)
		w.main.Presign(r, time.Minute, time.Now())
	default:
		set("X-Amz-Content-Sha256", mode)
	}
	head := "PUT " + r.URL.RequestURI() + " HTTP/1.1\r\nHost: " + r.URL.Host + "\r\n"
	for name, values := range r.Header {
		head += name + ": " + values[0] + "\r\n"
	}
	switch c.transfer {
	case "length":
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", len(sent)) + sent
	case "chunked":
		head += fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(sent), sent)
	default:
		head += "\r\n"
	}
	if _, err := io.WriteString(w.Conn, head); err != nil {
		w.t.Fatal(err)
	}
	return w.answer(), sent
}

// TestBodyCodings sends a body with each combination in codedBodies. Chunk framing is never
// stored as content unless the headers say that the body is plain, and contradictions are refused.
func TestBodyCodings(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.policy(`{` + toAll + `, "Action": ["s3:PutObject", "s3:GetObject"]}`)
	id := s.upload("/photos/part")
	for _, target := range []string{"/main:photos/k", "/main:photos/part?partNumber=1&uploadId=" + id} {
		w := s.dial()
		for _, c := range codedBodies() {
			if strings.Contains(target, "?") && c.signed != "header" {
				continue // operations share the decision, see TestCodingOfEveryOperation
			}
			a, sent := c.send(w, target)
			text, err := io.ReadAll(a.Body)
			if err != nil {
				t.Fatal(err)
			}
			if a.Close {
				w = s.dial()
			}
			code := answer{body: string(text)}.element("Code")
			if want := c.want(sent); code != want || (a.StatusCode == 200) != (want == "") || (a.StatusCode == 411) != (want == "MissingContentLength") {
				t.Errorf("%s, %+v: %d %s, want %s\n%s", target, c, a.StatusCode, code, want, text)
				continue
			}
			if code != "" {
				continue
			}
			content, encoding := sent, c.encoding
			if strings.HasPrefix(c.mode, "STREAMING-") {
				content, encoding = hello, strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(c.encoding), "aws-chunked"), ", ")
			}
			if tag := `"` + md5Tag(content) + `"`; a.Header.Get("Etag") != tag {
				t.Errorf("%s, %+v: stored %s, want %s", target, c, a.Header.Get("Etag"), tag)
			}
			if c.encoding != "" && !strings.Contains(target, "?") {
				r := s.request("GET", target, "", "Accept-Encoding: gzip")
				s.send(r).want(200).is(content).head("Content-Encoding: " + encoding)
			}
		}
	}
}

// TestCodingOfEveryOperation checks that all operations decide how the body is coded in the same way. Only uploads may
// be in chunks, see versitygw issue 1601.
func TestCodingOfEveryOperation(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	for _, r := range s3api.Routes() {
		for _, c := range []struct{ mode, header, code string }{
			{sigv4test.UnsignedChunksTrailer, "x-amz-decoded-content-length: 20", "InvalidRequest"},
			{sigv4test.SignedChunks, "x-amz-decoded-content-length: 20", "InvalidRequest"},
			{sigv4test.Unsigned, "Content-Encoding: aws-chunked", "InvalidArgument"},
			{sigv4test.Unsigned, "x-amz-decoded-content-length: x", "MissingContentLength"},
			{sigv4test.Unsigned, "x-amz-trailer: x-amz-checksum-crc32", "MalformedTrailerError"},
		} {
			upload := r.OfObject && r.Method == http.MethodPut && (r.Parameter == "" || r.Parameter == "uploadId")
			if upload && c.code == "InvalidRequest" {
				continue
			}
			q := s.request(r.Method, targetOf(r), hello, c.header)
			if r.Method == http.MethodPost && r.Parameter == "" {
				q = s.form(map[string]string{"key": "form"}, hello)
				name, value, _ := strings.Cut(c.header, ": ")
				q.Header.Set(name, value)
				q.Header.Set("X-Amz-Content-Sha256", c.mode)
				if c.mode == sigv4test.SignedChunks {
					continue // a form is not signed by header
				}
			} else {
				s.main.Sign(q, c.mode, time.Now())
			}
			if a := s.send(q); r.Method == http.MethodHead {
				a.want(map[string]int{"MissingContentLength": 411}[c.code] | map[bool]int{true: 400}[c.code != "MissingContentLength"])
			} else if got := a.element("Code"); got != c.code {
				t.Errorf("%s with %s and %s: %d %s, want %s", routeName(r), c.mode, c.header, a.status, got, c.code)
			}
		}
		for _, mode := range []string{sigv4test.UnsignedChunksTrailer, sigv4test.SignedChunks} {
			if r.OfObject && r.Method == http.MethodPut {
				s.chunked(targetOf(r), "", 0, sigv4test.Chunks{Mode: mode, Size: 8}, "x-amz-copy-source: photos/k").fails(400, "InvalidRequest")
			}
		}
	}
	for field, code := range map[string]string{
		"x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER": "InvalidArgument", "content-encoding: aws-chunked": "InvalidArgument",
		"x-amz-trailer: x-amz-checksum-crc32": "MalformedTrailerError", "x-amz-decoded-content-length: 7": "IncompleteBody",
	} {
		name, value, _ := strings.Cut(field, ": ")
		s.send(s.form(map[string]string{"key": "form", name: value}, hello)).fails(400, code)
	}
	s.do("GET", "/photos/form", "").fails(404, "NoSuchKey")
	s.do("GET", "/photos/k", "").is(hello)
}

// TestMissingContentLength sends requests without any length. S3 refuses them if the operation needs a body. In HTTP/1.1
// such a request is sent without a body.
func TestMissingContentLength(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.do("PUT", "/photos/k", hello).want(200)
	bodyless := map[string]bool{ // the headers may say everything
		"PUT /photos": true, "PUT /photos?acl": true, "PUT /photos/k?acl": true, "POST /photos/k?uploads": true,
	}
	id := s.upload("/photos/k")
	walked := 0
	for _, r := range s3api.Routes() {
		if r.Method != http.MethodPut && r.Method != http.MethodPost || r.Parameter == "" && r.Method == http.MethodPost {
			continue // a form's length counts only for its boundary
		}
		target := targetOf(r)
		name := r.Method + " " + target
		if r.Parameter == "uploadId" {
			target += "=" + id + "&partNumber=1"
		}
		status := func(line string) (int, string) {
			w := s.dial()
			q := s.request(r.Method, target, "")
			s.main.Sign(q, sigv4test.Unsigned, time.Now())
			text := r.Method + " " + target + " HTTP/1.1\r\nHost: " + q.URL.Host + "\r\n" + line
			for name := range q.Header {
				text += name + ": " + q.Header.Get(name) + "\r\n"
			}
			if _, err := io.WriteString(w.Conn, text+"\r\n"); err != nil {
				t.Fatal(err)
			}
			a := w.answer()
			body, _ := io.ReadAll(a.Body)
			w.usable(a)
			return a.StatusCode, answer{body: string(body)}.element("Code")
		}
		if got, code := status("Content-Length: 0\r\n"); got == 411 {
			t.Errorf("%s with an empty body: %d %s", name, got, code)
		} else if got == http.StatusNotImplemented {
			continue
		}
		walked++
		got, code := status("")
		if missing := got == 411 && code == "MissingContentLength"; missing == bodyless[name] {
			t.Errorf("%s without a length: %d %s", name, got, code)
		}
	}
	if walked < 15 {
		t.Errorf("%d operations", walked)
	}
}
