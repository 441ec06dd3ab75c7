// Package sigv4test signs S3 requests with AWS Signature Version 4 for tests and benchmarks. It shares no code with
// package sigv4, so that a mistake in one shows in the other.
package sigv4test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values of x-amz-content-sha256.
const (
	Unsigned              = "UNSIGNED-PAYLOAD"
	SignedChunks          = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	SignedChunksTrailer   = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	UnsignedChunksTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

type Signer struct {
	AccessKeyID, Secret, Region string
}

// unsigned headers may change after signing.
var unsigned = []string{"authorization", "expect", "user-agent", "transfer-encoding", "connection"}

// Sign sets the Authorization header and returns the signature. payload is the body's SHA-256 in hexadecimal or one of
// the constants.
func (s Signer) Sign(r *http.Request, payload string, now time.Time) string {
	now = now.UTC()
	r.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	r.Header.Set("X-Amz-Content-Sha256", payload)
	names := []string{"host"}
	for name := range r.Header {
		if lower := strings.ToLower(name); !slices.Contains(unsigned, lower) {
			names = append(names, lower)
		}
	}
	if r.ContentLength > 0 {
		names = append(names, "content-length")
	}
	slices.Sort(names)
	names = slices.Compact(names)
	signature := s.signature(r, r.URL.Query(), names, payload, now)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.AccessKeyID+"/"+s.scope(now)+
		",SignedHeaders="+strings.Join(names, ";")+",Signature="+signature)
	return signature
}

// Presign adds the signature to the query. All headers must be sent with the request.
func (s Signer) Presign(r *http.Request, expires time.Duration, now time.Time) {
	now = now.UTC()
	names := []string{"host"}
	for name := range r.Header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	q := r.URL.Query()
	q.Set("X-Amz-Algorithm", "AWS4-HMAC-SHA256")
	q.Set("X-Amz-Credential", s.AccessKeyID+"/"+s.scope(now))
	q.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	q.Set("X-Amz-Expires", strconv.FormatInt(int64(expires/time.Second), 10))
	q.Set("X-Amz-SignedHeaders", strings.Join(names, ";"))
	payload := cmp.Or(q.Get("X-Amz-Content-Sha256"), r.Header.Get("X-Amz-Content-Sha256"), Unsigned)
	signature := s.signature(r, q, names, payload, now)
	r.URL.RawQuery = encode(q) + "&X-Amz-Signature=" + signature
}

// SignForm adds a signed form upload's fields. The JSON policy must contain FormConditions.
func (s Signer) SignForm(fields map[string]string, policy string, now time.Time) {
	encoded := base64.StdEncoding.EncodeToString([]byte(policy))
	for _, field := range s.form(now) {
		fields[field[0]] = field[1]
	}
	key := s.key(now)
	fields["policy"] = encoded
	fields["x-amz-signature"] = hex.EncodeToString(sign(key, encoded))
}

func (s Signer) FormConditions(now time.Time) string {
	var list []string
	for _, field := range s.form(now) {
		list = append(list, `{"`+field[0]+`": "`+field[1]+`"}`)
	}
	return strings.Join(list, ", ")
}

func (s Signer) form(now time.Time) [][2]string {
	now = now.UTC()
	return [][2]string{
		{"x-amz-algorithm", "AWS4-HMAC-SHA256"},
		{"x-amz-credential", s.AccessKeyID + "/" + s.scope(now)},
		{"x-amz-date", now.Format("20060102T150405Z")},
	}
}

func (s Signer) signature(r *http.Request, q url.Values, names []string, payload string, now time.Time) string {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	var headers strings.Builder
	for _, name := range names {
		var values []string
		for _, v := range r.Header.Values(name) {
			values = append(values, strings.Join(strings.Fields(v), " "))
		}
		switch name {
		case "host":
			values = []string{host}
		case "content-length":
			values = []string{strconv.FormatInt(r.ContentLength, 10)}
		}
		headers.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	path, _, _ := strings.Cut(r.URL.RequestURI(), "?")
	canonical := strings.Join([]string{r.Method, path, encode(q), headers.String(), strings.Join(names, ";"), payload}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", now.Format("20060102T150405Z"), s.scope(now), hex.EncodeToString(sum[:])}, "\n")
	return hex.EncodeToString(sign(s.key(now), text))
}

// encode follows the specification: %20 for a space, sorted by encoded name and value.
func encode(q url.Values) string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	var all [][2]string
	for name, values := range q {
		for _, v := range values {
			all = append(all, [2]string{escape(name), escape(v)})
		}
	}
	slices.SortFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	lines := make([]string, len(all))
	for i, p := range all {
		lines[i] = p[0] + "=" + p[1]
	}
	return strings.Join(lines, "&")
}

func (s Signer) scope(now time.Time) string {
	return now.UTC().Format("20060102") + "/" + s.Region + "/s3/aws4_request"
}

func (s Signer) key(now time.Time) []byte {
	key := []byte("AWS4" + s.Secret)
	for _, text := range []string{now.UTC().Format("20060102"), s.Region, "s3", "aws4_request"} {
		key = sign(key, text)
	}
	return key
}

func sign(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
