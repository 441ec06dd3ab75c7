package proxy

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

type s3Site struct {
	*buckets.Client
	server *binary.Server
	client *http.Client
	bodies string // body folder
}

func (p proxy) buildS3(t *testing.T) *s3Site {
	t.Helper()
	cert, key, client := binary.Certificate(t)
	server := binary.Start(t, t.TempDir(), "HOLDFAST_BUCKETS__DOMAIN="+ofS3.host)
	s := &s3Site{server.S3(t), server, client, filepath.Join(server.Data, "buckets")}
	dialOnly(client, p.start(t, ofS3, server.S3URL(), cert, key, func(conf string) string { return conf }))
	return s
}

// do sends a signed request. Without a payload, the signature does not cover the body.
func (s *s3Site) do(t *testing.T, status int, method, url string, payload string, body io.Reader, size int64) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = size
	s.Sign(r, payload, time.Now())
	a, err := s.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	t.Cleanup(func() { a.Body.Close() })
	if a.StatusCode != status {
		text, _ := io.ReadAll(a.Body)
		t.Fatalf("%s %s: %d %s, want %d", method, url, a.StatusCode, text, status)
	}
	return a
}

func (s *s3Site) want(t *testing.T, status int, method, url, body string) string {
	t.Helper()
	a := s.do(t, status, method, url, buckets.Hash(body), strings.NewReader(body), int64(len(body)))
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return string(text)
}

const unsigned = "UNSIGNED-PAYLOAD"

// TestS3 sends signed requests through each proxy in docs/buckets-operate.md: with the bucket in the path and in the
// host name, with keys that a proxy might change, and with an object of 100 MiB, which no proxy may buffer.
func TestS3(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		if p.name == "traefik" {
			continue // not in the guide
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := p.buildS3(t)
			const path, host = "https://s3.example.org/photos", "https://photos.s3.example.org"
			s.want(t, http.StatusOK, http.MethodPut, path, "")
			keys := []string{"plain", "a%20+%2F..//b", "%25", "a%3Fb", "%C3%BC", "x/%2e%2e/y", "~(x)*'", "%7b%7D", "a;b:c@d&e=f,g$h!"}
			for i, key := range keys {
				s.want(t, http.StatusOK, http.MethodPut, path+"/"+key, key)
				if got := s.want(t, http.StatusOK, http.MethodGet, host+"/"+key+"?x-id=GetObject", ""); got != key {
					t.Errorf("%s: %q", key, got)
				}
				if list := s.want(t, http.StatusOK, http.MethodGet, host+"/?list-type=2", ""); strings.Count(list, "<Contents>") != i+1 {
					t.Errorf("after %s: %s", key, list)
				}
			}
			s.presigned(t, host+"/plain")
			s.large(t, host+"/large")
		})
	}
}

func (s *s3Site) presigned(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	s.Presign(r, time.Minute, time.Now())
	a, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK || string(text) != "plain" {
		t.Errorf("presigned: %d %s %v", a.StatusCode, text, err)
	}
}

// largeObject is a body that pauses until the server has received its first part.
type largeObject struct {
	arrived func() bool
	left    int64
	sent    int64
	sum     hash.Hash
	block   []byte
}

const sizeOfLarge = 100 << 20

var errStored = errors.New("the proxy does not pass the body on while it receives it")

func (o *largeObject) Read(p []byte) (int, error) {
	if o.left == 0 {
		return 0, io.EOF
	}
	for deadline := time.Now().Add(binary.Bound); o.sent >= 8<<20 && o.arrived != nil; time.Sleep(time.Millisecond) {
		if o.arrived() {
			o.arrived = nil
		} else if time.Now().After(deadline) {
			return 0, errStored
		}
	}
	n := copy(p, o.block[o.sent%int64(len(o.block)):])
	n = int(min(int64(n), o.left))
	o.sum.Write(p[:n])
	o.sent, o.left = o.sent+int64(n), o.left-int64(n)
	return n, nil
}

func (s *s3Site) large(t *testing.T, url string) {
	t.Helper()
	block := bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstu\n"), 1<<15)
	body := &largeObject{left: sizeOfLarge, sum: md5.New(), block: block, arrived: func() bool {
		found := false
		_ = filepath.WalkDir(s.bodies, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				info, err := e.Info()
				found = found || err == nil && info.Size() >= 1<<20
			}
			return nil
		})
		return found
	}}
	a := s.do(t, http.StatusOK, http.MethodPut, url, unsigned, body, sizeOfLarge)
	sum := hex.EncodeToString(body.sum.Sum(nil))
	if tag := strings.Trim(a.Header.Get("ETag"), `"`); tag != sum {
		t.Errorf("the entity tag is %s, want %s", tag, sum)
	}
	a = s.do(t, http.StatusOK, http.MethodGet, url, unsigned, http.NoBody, 0)
	got := md5.New()
	if n, err := io.Copy(got, a.Body); err != nil || n != sizeOfLarge || hex.EncodeToString(got.Sum(nil)) != sum {
		t.Errorf("%d bytes with the MD5 %x, want %s: %v", n, got.Sum(nil), sum, err)
	}
	r := s.do(t, http.StatusOK, http.MethodHead, url, unsigned, http.NoBody, 0)
	if r.ContentLength != sizeOfLarge {
		t.Errorf("HEAD: %d bytes", r.ContentLength)
	}
}

func TestComposeS3(t *testing.T) {
	t.Parallel()
	compose, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^      S3_DOMAIN: \$\{S3_DOMAIN:-(.*)\}$`).FindSubmatch(compose); m == nil || string(m[1]) != "http://s3.invalid" {
		t.Errorf("compose.yaml gives Caddy S3_DOMAIN by default: %s", m)
	}
	p := proxy{name: "compose", start: func(t *testing.T, _ guide, upstream, cert, key string, _ func(string) string) string {
		t.Helper()
		text, err := os.ReadFile("../../packaging/Caddyfile")
		if err != nil {
			t.Fatal(err)
		}
		return runCaddy(t, replace(t, string(text),
			"{$DOMAIN} {\n", fmt.Sprintf("{$DOMAIN} {\n\tbind 127.0.0.1\n\ttls %s %s\n", cert, key),
			"{$S3_DOMAIN} {\n", fmt.Sprintf("{$S3_DOMAIN} {\n\tbind 127.0.0.1\n\ttls %s %s\n", cert, key),
			"holdfast:9000", strings.TrimPrefix(upstream, "http://")), "DOMAIN=example.org", "S3_DOMAIN=s3.example.org")
	}}
	s := p.buildS3(t)
	s.want(t, http.StatusOK, http.MethodPut, "https://s3.example.org/photos", "")
	s.want(t, http.StatusOK, http.MethodPut, "https://s3.example.org/photos/a%20+%2F..//b", "body")
	if got := s.want(t, http.StatusOK, http.MethodGet, "https://s3.example.org/photos/a%20+%2F..//b", ""); got != "body" {
		t.Errorf("%q", got)
	}
}
