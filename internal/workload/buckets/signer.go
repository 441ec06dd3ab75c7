package buckets

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
)

// LoadSigner signs load generator requests. A Client derives the key and hashes the body every time, which costs as
// much as the measured server. Path and query must be canonical.
type LoadSigner struct {
	id, scope string
	key       []byte
	hashes    map[int64]string // by length; other bodies are unsigned
}

// NewLoadSigner returns a signer for now's day.
func NewLoadSigner(key sigv4test.Signer, hashes map[int64]string, now time.Time) *LoadSigner {
	date := now.UTC().Format("20060102")
	s := &LoadSigner{id: key.AccessKeyID, scope: date + "/" + key.Region + "/s3/aws4_request", key: []byte("AWS4" + key.Secret), hashes: hashes}
	for _, text := range []string{date, key.Region, "s3", "aws4_request"} {
		s.key = hmacSHA256(s.key, text)
	}
	return s
}

// Sign signs a request made on that day.
func (s *LoadSigner) Sign(r *http.Request, now time.Time) {
	payload, known := s.hashes[r.ContentLength]
	if !known {
		payload = sigv4test.Unsigned
	}
	stamp := s.scope[:8] + now.UTC().Format("T150405Z")
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery +
		"\nhost:" + r.URL.Host + "\nx-amz-content-sha256:" + payload + "\nx-amz-date:" + stamp +
		"\n\nhost;x-amz-content-sha256;x-amz-date\n" + payload
	signature := hmacSHA256(s.key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+s.scope+"\n"+Hash(canonical))
	r.Header["X-Amz-Content-Sha256"] = []string{payload}
	r.Header["X-Amz-Date"] = []string{stamp}
	r.Header["Authorization"] = []string{"AWS4-HMAC-SHA256 Credential=" + s.id + "/" + s.scope +
		", SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" + hex.EncodeToString(signature)}
}

func hmacSHA256(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// Escape encodes a query value canonically.
func Escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
