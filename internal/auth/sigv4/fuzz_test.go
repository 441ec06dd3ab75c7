package sigv4_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/checksum"
)

// A changed header is refused unless it means the same as the example's.
func FuzzAuthorization(f *testing.F) {
	example := exampleRequests()["GET object"]
	right := example.Header.Get("Authorization")
	f.Add(right)
	f.Add(strings.ReplaceAll(right, ",", ", "))
	f.Add(strings.Replace(right, "Credential=", "Credential=,", 1))
	f.Add("AWS4-HMAC-SHA256 Signature=,Signature=;,=,")
	f.Fuzz(func(t *testing.T, value string) {
		r := example
		r.Header = example.Header.Clone()
		r.Header.Set("Authorization", value)
		_, err := verifierAt(exampleTime).Verify(t.Context(), r, exampleLookup)
		if kindOf(t, err) != 0 {
			return
		}
		for field := range strings.SplitSeq(strings.TrimPrefix(right, "AWS4-HMAC-SHA256 "), ",") {
			if !strings.Contains(value, field) {
				t.Errorf("%q is accepted", value)
			}
		}
	})
}

// A changed query is refused unless it has the example's parameters.
func FuzzPresigned(f *testing.F) {
	example := exampleRequests()["presigned URL"]
	_, right, _ := strings.Cut(example.Target, "?")
	f.Add(right)
	f.Add(right + "&X-Amz-Signature=1&acl")
	f.Add(strings.ReplaceAll(right, "%2F", "/"))
	f.Add("X-Amz-Algorithm&X-Amz-Credential=%&X-Amz-Signature=;")
	want, err := url.ParseQuery(right)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := example
		r.Target = "/test.txt?" + query
		_, err := verifierAt(exampleTime).Verify(t.Context(), r, exampleLookup)
		if kindOf(t, err) != 0 {
			return
		}
		got, err := url.ParseQuery(query)
		if err != nil || got.Encode() != want.Encode() {
			t.Errorf("%q is accepted: %v", query, err)
		}
	})
}

// FuzzChunks encodes and decodes a body. A changed byte is an error or changes nothing.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("Welcome to Amazon S3."), uint16(7), uint8(0), -1, byte(0))
	f.Add([]byte("Welcome to Amazon S3."), uint16(100), uint8(2), 30, byte('\n'))
	f.Add([]byte{}, uint16(1), uint8(4), 0, byte('0'))
	f.Fuzz(func(t *testing.T, data []byte, size uint16, mode uint8, index int, value byte) {
		modes := allModes(string(data))[:7] // the last mode does not protect the data
		c := modes[int(mode)%len(modes)]
		c.Size = int(size) + 1
		r, framed := chunked(t, string(data), int64(len(data)), c)
		s := verified(t, r)
		read := func(framed []byte) ([]byte, error) {
			body, err := s.Body(bytes.NewReader(framed), sigv4.BodyOptions{MaxSize: int64(len(data))})
			if err != nil {
				t.Fatal(err)
			}
			return io.ReadAll(body)
		}
		if got, err := read(framed); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s: %q is decoded as %q, %v", c.Mode, data, got, err)
		}
		if index < 0 || index >= len(framed) {
			return
		}
		inserted := append(bytes.Clone(framed[:index]), append([]byte{value}, framed[index:]...)...)
		removed := append(bytes.Clone(framed[:index]), framed[index+1:]...)
		framed[index] = value
		for _, changed := range [][]byte{framed, inserted, removed, framed[:index]} {
			if got, err := read(changed); kindOf(t, err) == 0 && !bytes.Equal(got, data) {
				t.Errorf("%s: %q is accepted as %q", c.Mode, changed, got)
			}
		}
	})
}

func FuzzFraming(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n"+crcHello+"\r\n\r\n"), true)
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"), false)
	f.Add([]byte("ffffffffffffffff\r\n"), false)
	f.Fuzz(func(t *testing.T, framed []byte, trailer bool) {
		r := sigv4.Request{Header: http.Header{"X-Amz-Content-Sha256": {sigv4test.UnsignedChunksTrailer}}, ContentLength: -1}
		if trailer {
			r.Header["X-Amz-Trailer"] = []string{"x-amz-checksum-crc32"}
		}
		body, err := sigv4.NewBody(r, bytes.NewReader(framed), sigv4.BodyOptions{MaxSize: 100})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		if len(got) > 100 || len(got) > len(framed) {
			t.Errorf("%q is decoded as %q", framed, got)
		}
		if kindOf(t, err) == 0 && trailer && !bytes.Contains(framed, []byte(checksum.Sum(checksum.CRC32, got).String())) {
			t.Errorf("%q is accepted as %q", framed, got)
		}
	})
}

// FuzzPolicy compares Policy.Check with policyAllows.
func FuzzPolicy(f *testing.F) {
	f.Add(examplePolicy, "key", "user/user1/a")
	f.Add(`{"expiration": "2015-12-30T12:00:00Z", "conditions": [["content-length-range", "1", 2], {"acl": "a", "b": ""}]}`, "acl", "b")
	f.Add(`{"expiration": "2015-12-30T12:00:00Z", "conditions": [["starts-with", "$Content-Type", "image/"]]}`, "content-type", "image/png, image/jpeg")
	f.Add(`{"expiration": "2015-12-30T12:00:00Z", "conditions": [["EQ", "$KEY", "\u0061"], {"KEY": "a"}, ["starts-with", "$acl", ""]]}`, "key", "a")
	f.Add(`{"expiration":"","conditions":[[],{},null,"",["eq","$",1]]}`, "", "")
	f.Fuzz(func(t *testing.T, document, field, value string) {
		p, err := sigv4.ParsePolicy(base64Of(document))
		if kind := kindOf(t, err); kind != 0 {
			if kind != sigv4.InvalidPolicy {
				t.Errorf("%q: %v", document, err)
			}
			return
		}
		if p.MinSize < 0 || p.MinSize > p.MaxSize && strings.Count(document, "range") < 2 {
			t.Errorf("%q allows %d to %d bytes", document, p.MinSize, p.MaxSize)
		}
		field = strings.ToLower(field)
		err = p.Check(map[string]string{field: value})
		if got, want := kindOf(t, err) == 0, policyAllows(t, document, field, value); got != want {
			t.Errorf("%q allows %q=%q: %t, want %t", document, field, value, got, want)
		}
	})
}

func policyAllows(t *testing.T, document, field, value string) bool {
	t.Helper()
	var policy struct{ Conditions []any }
	if err := json.Unmarshal([]byte(document), &policy); err != nil {
		t.Fatalf("%q is not JSON: %v", document, err)
	}
	covered := field == "policy" || field == "x-amz-signature" || field == "file" || strings.HasPrefix(field, "x-ignore-")
	has := func(name string) string {
		if strings.ToLower(name) != field {
			return ""
		}
		covered = true
		return value
	}
	allowed := true
	for _, c := range policy.Conditions {
		switch c := c.(type) {
		case map[string]any:
			for name, want := range c {
				allowed = has(name) == want && allowed
			}
		case []any:
			operator := strings.ToLower(c[0].(string))
			if operator == "content-length-range" {
				continue
			}
			name, want := c[1].(string)[1:], c[2].(string)
			got := has(name)
			switch {
			case operator == "eq":
				allowed = got == want && allowed
			case strings.ToLower(name) == "content-type":
				for part := range strings.SplitSeq(got, ",") {
					allowed = strings.HasPrefix(strings.TrimLeft(part, " "), want) && allowed
				}
			default:
				allowed = strings.HasPrefix(got, want) && allowed
			}
		}
	}
	return allowed && covered
}

// FuzzSigned checks that the verifier accepts all requests of sigv4test's signer, and none that changed afterwards.
func FuzzSigned(f *testing.F) {
	for change := range uint8(10) {
		f.Add("PUT", "/bucket/a b/%2e%2e//k", "x-id=PutObject&uploads", "x-amz-meta-a", "one  two", change%2 == 0, change, "x")
		f.Add("A", "/0", "}", "A", "", true, uint8(2), "0")
		f.Add("GET", "/%C3%A4+$;*", "prefix=a/b%20c&prefix=&b+c=%2B&=", "content-type", "", change%2 == 1, change, "%41")
	}
	f.Fuzz(func(t *testing.T, method, path, query, name, value string, presigned bool, change uint8, other string) {
		path = "/" + strings.TrimLeft(path, "/")
		if !isPlain(method+path+query+other, "#?") || !isName(method) || !isName(name) || strings.Contains(query, ";") || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return
		}
		params, err := url.ParseQuery(query)
		if _, wrong := url.PathUnescape(path); err != nil || wrong != nil {
			return
		}
		for name := range params {
			if strings.HasPrefix(strings.ToLower(name), "x-amz-") || params.Has("AWSAccessKeyId") {
				return
			}
		}
		switch name = strings.ToLower(name); name {
		case "host", "authorization", "content-length", "transfer-encoding", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "expect", "user-agent", "connection":
			return
		}
		r := &http.Request{Method: method, Host: "example.com", URL: &url.URL{Opaque: path, RawQuery: query}, Header: http.Header{}}
		r.Header.Set(name, value)
		if presigned {
			exampleSigner.Presign(r, time.Hour, exampleTime)
		} else {
			exampleSigner.Sign(r, emptyHash, exampleTime)
		}
		q := sigv4.Request{Method: method, Target: path + "?" + r.URL.RawQuery, Host: r.Host, Header: r.Header}
		verify := func() sigv4.Kind {
			_, err := verifierAt(exampleTime).Verify(t.Context(), q, exampleLookup)
			return kindOf(t, err)
		}
		if kind := verify(); kind != 0 {
			t.Fatalf("%+v is refused: %v", q, kind)
		}
		same := false // whether the changed request means the same
		switch change % 8 {
		case 0:
			q.Method += other
			same = other == ""
		case 1:
			q.Target = path + other + "?" + r.URL.RawQuery
			same = other == ""
		case 2:
			q.Target += "&" + other
			same = strings.Trim(other, "&") == ""
		case 3:
			q.Header.Add(name, other)
		case 4:
			q.Host = other
			same = other == r.Host
		case 5:
			q.Header.Set("X-Amz-Meta-Other", other)
			same = name == "x-amz-meta-other" && strings.Join(strings.Fields(value), " ") == other
		case 6:
			changed := strings.Replace(r.Header.Get("Authorization"), "/20130524/", "/20130525/", 1)
			q.Header.Set("Authorization", changed)
		case 7:
			q.Target = strings.Replace(path, "%", "%25", 1) + "?" + r.URL.RawQuery
			same = !strings.Contains(path, "%")
		}
		if kind := verify(); (kind == 0) != same {
			t.Errorf("change %d by %q: %+v: %v", change%8, other, q, kind)
		}
	})
}

func isPlain(s, others string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) && !strings.ContainsAny(s, others)
}

func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' })
}
