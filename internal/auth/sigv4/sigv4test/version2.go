package sigv4test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the protocol's
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Subresources are the query parameters that Signature Version 2 signs, from "Signing and authenticating REST requests
// (AWS signature version 2)".
var Subresources = []string{
	"acl", "cors", "delete", "lifecycle", "location", "logging", "notification", "partNumber", "policy", "requestPayment",
	"response-cache-control", "response-content-disposition", "response-content-encoding", "response-content-language",
	"response-content-type", "response-expires", "restore", "tagging", "torrent", "uploadId", "uploads", "versionId",
	"versioning", "versions", "website",
}

// PresignVersion2 adds a signature of version 2 to the query, over the request's headers and Subresources. bucket is the
// bucket in the host, or "" if the path contains it.
func (s Signer) PresignVersion2(r *http.Request, bucket string, expires time.Time) {
	stamp := strconv.FormatInt(expires.Unix(), 10)
	lines := []string{r.Method, r.Header.Get("Content-MD5"), r.Header.Get("Content-Type"), stamp}
	var headers []string
	for name, values := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") {
			headers = append(headers, lower+":"+strings.TrimSpace(strings.Join(values, ",")))
		}
	}
	slices.Sort(headers)
	resource, _, _ := strings.Cut(r.URL.RequestURI(), "?")
	if bucket != "" {
		resource = "/" + bucket + resource
	}
	var signed []string
	for name, values := range r.URL.Query() {
		switch {
		case !slices.Contains(Subresources, name):
		case values[0] == "":
			signed = append(signed, name)
		default:
			signed = append(signed, name+"="+values[0])
		}
	}
	slices.Sort(signed)
	if len(signed) > 0 {
		resource += "?" + strings.Join(signed, "&")
	}
	text := strings.Join(append(append(lines, headers...), resource), "\n")
	q := r.URL.Query()
	q.Set("AWSAccessKeyId", s.AccessKeyID)
	q.Set("Expires", stamp)
	q.Set("Signature", s.signVersion2(text))
	r.URL.RawQuery = encode(q)
}

// SignFormVersion2 adds the form fields that version 2 signs.
func (s Signer) SignFormVersion2(fields map[string]string, policy string) {
	encoded := base64.StdEncoding.EncodeToString([]byte(policy))
	fields["AWSAccessKeyId"], fields["policy"], fields["signature"] = s.AccessKeyID, encoded, s.signVersion2(encoded)
}

func (s Signer) signVersion2(text string) string {
	m := hmac.New(sha1.New, []byte(s.Secret))
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}
