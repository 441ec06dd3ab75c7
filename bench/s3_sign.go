package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// s3Signer signs requests with AWS Signature Version 4. It derives the key once and knows the
// hashes of bodies by their length, so that it costs less than what it measures. The path and the
// query must be in canonical form.
type s3Signer struct {
	id, scope string
	key       []byte
	hashes    map[int64]string // of bodies, by length; others are not signed
}

const s3Region = "us-east-1"

func newSigner(id, secret string, hashes map[int64]string, now time.Time) *s3Signer {
	date := now.UTC().Format("20060102")
	s := &s3Signer{id: id, scope: date + "/" + s3Region + "/s3/aws4_request", key: []byte("AWS4" + secret), hashes: hashes}
	for _, text := range []string{date, s3Region, "s3", "aws4_request"} {
		s.key = hmacSHA256(s.key, text)
	}
	return s
}

// sign is credentials.sign.
func (s *s3Signer) sign(r *http.Request) error {
	payload, known := s.hashes[r.ContentLength]
	if !known {
		payload = "UNSIGNED-PAYLOAD"
	}
	stamp := s.scope[:8] + time.Now().UTC().Format("T150405Z")
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery +
		"\nhost:" + r.URL.Host + "\nx-amz-content-sha256:" + payload + "\nx-amz-date:" + stamp +
		"\n\nhost;x-amz-content-sha256;x-amz-date\n" + payload
	signature := hmacSHA256(s.key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+s.scope+"\n"+sha256Hex([]byte(canonical)))
	r.Header["X-Amz-Content-Sha256"] = []string{payload}
	r.Header["X-Amz-Date"] = []string{stamp}
	r.Header["Authorization"] = []string{"AWS4-HMAC-SHA256 Credential=" + s.id + "/" + s.scope +
		", SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" + hex.EncodeToString(signature)}
	return nil
}

func hmacSHA256(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// queryEscape encodes a value of a query as the signature requires.
func queryEscape(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString("%" + string(digits[c>>4]) + string(digits[c&15]))
		}
	}
	return b.String()
}
