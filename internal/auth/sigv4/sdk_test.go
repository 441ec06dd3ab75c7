package sigv4_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/checksum"
)

// verifyingServer responds with 200 and the verified body, or with 403, the error's kind and the canonical request.
func verifyingServer(t *testing.T) *httptest.Server {
	t.Helper()
	verifier := sigv4.New("", time.Now)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed, err := verifier.Verify(r.Context(), sigv4.FromHTTP(r), exampleLookup)
		if err == nil {
			var body *sigv4.Body
			if body, err = signed.Body(r.Body, sigv4.BodyOptions{MaxSize: 1 << 20}); err == nil {
				var data []byte
				if data, err = io.ReadAll(body); err == nil {
					w.Write(data)
					return
				}
			}
		}
		e, _ := errors.AsType[*sigv4.Error](err)
		http.Error(w, fmt.Sprintf("%v\n%s", err, e.CanonicalRequest), http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	return server
}

func send(t *testing.T, r *http.Request, want string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || string(got) != want {
		t.Errorf("%s %s: %s: %.2000s, %v", r.Method, r.URL, response.Status, got, err)
	}
}

// targets contain every kind of byte that clients send in keys and parameters.
var targets = []string{
	"/", "/bucket", "/bucket/", "/bucket/key", "/bucket//a//b/", "/bucket/./a/../b", "/bucket/%2E%2E/a", "/bucket/b%20%2Bc",
	"/bucket/%C3%A4%E2%82%AC%F0%9F%98%80", "/bucket/a%2Fb", "/bucket/a%25b%5Fc%5Cd", "/bucket/%00%01%7F%FF", "/bucket/~-._!$&'()*,;=:@",
	"/bucket/!%21%27%28%29%2A", "/bucket/+", "/bucket/a%3Fb%23c", "/bucket/" + strings.Repeat("k%2B", 300),
	"/bucket?uploads", "/bucket?uploads=", "/bucket?location=", "/bucket/key?partNumber=1&uploadId=a%2Fb%3D%3D", "/bucket/key?x-id=PutObject",
	"/bucket?list-type=2&prefix=a%2Fb&delimiter=%2F&continuation-token=a%2Bb%2F%3D", "/bucket?prefix=&marker=&prefix=b&prefix=a",
	"/bucket?prefix=a+b&marker=%C3%A4", "/bucket?a-b=1&a=2&A=3&a.b=4&a%7Eb=5&a_b=6&aB=7", "/bucket?=empty", "/bucket?",
	"/bucket/key?response-content-disposition=attachment%3B%20filename%3D%22a%20b.txt%22",
}

func requestTo(t *testing.T, server *httptest.Server, method, target, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var sdkCredentials = aws.Credentials{AccessKeyID: exampleKey, SecretAccessKey: exampleSecret}

func newSDKSigner() *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
}

func TestGoSDKSigner(t *testing.T) {
	t.Parallel()
	server := verifyingServer(t)
	signer := newSDKSigner()
	for _, target := range targets {
		r := requestTo(t, server, "PUT", target, "hello")
		r.Header.Set("Content-Type", "text/plain;  charset=utf-8 ")
		r.Header.Set("X-Amz-Meta-Words", "  one   two ")
		r.Header.Add("X-Amz-Meta-List", "one")
		r.Header.Add("X-Amz-Meta-List", "two  three")
		r.Header.Set("X-Amz-Content-Sha256", sha256Of("hello"))
		if err := signer.SignHTTP(t.Context(), sdkCredentials, r, sha256Of("hello"), "s3", "eu-central-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		send(t, r, "hello")
	}
}

func TestGoSDKPresigner(t *testing.T) {
	t.Parallel()
	server := verifyingServer(t)
	signer := newSDKSigner()
	for _, target := range targets {
		r := requestTo(t, server, "PUT", target, "")
		q := r.URL.Query()
		q.Set("X-Amz-Expires", "60")
		r.URL.RawQuery = q.Encode()
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("X-Amz-Meta-Words", "one   two")
		uri, header, err := signer.PresignHTTP(t.Context(), sdkCredentials, r, sigv4test.Unsigned, "s3", "us-east-1", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		sent := requestTo(t, server, "PUT", "/", "anything")
		sent.URL = parsed
		sent.Header = header.Clone()
		sent.Header.Del("Host")
		send(t, sent, "anything")
	}
}

func TestOwnSigner(t *testing.T) {
	t.Parallel()
	server := verifyingServer(t)
	signer := sigv4test.Signer{AccessKeyID: exampleKey, Secret: exampleSecret, Region: "us-east-1"}
	for _, target := range targets {
		r := requestTo(t, server, "PUT", target, "hello")
		signer.Sign(r, sha256Of("hello"), time.Now())
		send(t, r, "hello")
		if strings.Contains(target, "?=") {
			continue
		}
		r = requestTo(t, server, "PUT", target, "hello")
		r.Header.Set("X-Amz-Acl", "private")
		signer.Presign(r, time.Minute, time.Now())
		send(t, r, "hello")
	}
}

// TestChunkedOverHTTP sends the framings of real clients over TCP, with sizes around the chunk size.
func TestChunkedOverHTTP(t *testing.T) {
	t.Parallel()
	server := verifyingServer(t)
	signer := sigv4test.Signer{AccessKeyID: exampleKey, Secret: exampleSecret, Region: "us-east-1"}
	for _, size := range []int{0, 1, 8191, 8192, 8193, 100_000} {
		data := strings.Repeat("x", size)
		crc := []sigv4test.Trailer{{Name: "x-amz-checksum-crc32", Value: checksum.Sum(checksum.CRC32, []byte(data)).String()}}
		for _, c := range []sigv4test.Chunks{
			{Mode: sigv4test.SignedChunks, Size: 8192},
			{Mode: sigv4test.SignedChunksTrailer, Size: 8192, Trailers: crc},
			{Mode: sigv4test.SignedChunksTrailer, Size: 8192},
			{Mode: sigv4test.UnsignedChunksTrailer, Size: 8192, Trailers: crc},
			{Mode: sigv4test.UnsignedChunksTrailer, Size: 8192},
		} {
			r := requestTo(t, server, "PUT", "/bucket/key", "")
			signer.SignChunked(r, strings.NewReader(data), int64(size), c, time.Now())
			send(t, r, data)
			if c.Mode == sigv4test.UnsignedChunksTrailer {
				r = requestTo(t, server, "PUT", "/bucket/key", "")
				signer.SignChunked(r, strings.NewReader(data), -1, c, time.Now())
				send(t, r, data)
			}
		}
	}
}
