package buckets

import (
	"math"
	"slices"
	"strings"
)

// CORSRule is a CORS rule. "*" matches any text; an origin may contain one "*".
type CORSRule struct {
	ID             string   `json:"id,omitempty"`
	AllowedOrigins []string `json:"allowed_origins"`
	AllowedMethods []string `json:"allowed_methods"`           // GET, HEAD, PUT, POST or DELETE
	AllowedHeaders []string `json:"allowed_headers,omitempty"` // request headers; each may contain one "*"
	ExposeHeaders  []string `json:"expose_headers,omitempty"`  // response headers that scripts may read
	MaxAgeSeconds  int      `json:"max_age_seconds,omitempty"` // how long browsers cache a preflight; 0: not sent
}

// MaxCORSRules is S3's limit per bucket.
const MaxCORSRules = 100

// MaxSettingBytes limits the document for a bucket setting, as in S3. Lifecycle rules, notifications and policies have
// limits of their own.
const MaxSettingBytes = 64 << 10

// CheckCORS validates all rules of a bucket. No rules are malformed: DeleteBucketCors removes them.
func CheckCORS(rules []CORSRule) *CORSError {
	if len(rules) == 0 || len(rules) > MaxCORSRules {
		return &CORSError{"CORSRule", "must occur 1 to 100 times", true}
	}
	size := 0
	for i := range rules {
		r := &rules[i]
		if invalid := r.Check(); invalid != nil {
			return invalid
		}
		size += len(r.ID)
		for _, list := range [][]string{r.AllowedOrigins, r.AllowedMethods, r.AllowedHeaders, r.ExposeHeaders} {
			for _, text := range list {
				size += len(text)
			}
		}
	}
	if size > MaxSettingBytes {
		return &CORSError{"CORSRule", "must have at most 64 KiB together", true}
	}
	return nil
}

// maxRuleID is S3's limit for rule IDs.
const maxRuleID = 255

// CORSError reports an invalid element.
type CORSError struct {
	Member    string // S3 element, e.g. AllowedOrigin
	Reason    string // e.g. "must not be empty"
	Malformed bool   // S3 returns MalformedXML for it
}

func (e *CORSError) Error() string { return e.Member + " " + e.Reason }

// Check returns nil for a valid rule. Methods and wildcards are InvalidRequest in S3, other problems MalformedXML.
func (r *CORSRule) Check() *CORSError {
	const wildcards = "must not have more than one *"
	switch {
	case len(r.ID) > maxRuleID:
		return &CORSError{"ID", "must have at most 255 characters", true}
	case len(r.AllowedOrigins) == 0:
		return &CORSError{"AllowedOrigin", "must not be empty", true}
	case len(r.AllowedMethods) == 0:
		return &CORSError{"AllowedMethod", "must not be empty", true}
	case r.MaxAgeSeconds < 0 || r.MaxAgeSeconds > math.MaxInt32:
		return &CORSError{"MaxAgeSeconds", "must be from 0 to 2147483647", true}
	case slices.ContainsFunc(r.AllowedMethods, isNoCORSMethod):
		return &CORSError{"AllowedMethod", "must be GET, HEAD, PUT, POST or DELETE", false}
	case slices.ContainsFunc(r.AllowedOrigins, hasControl):
		return &CORSError{"AllowedOrigin", "must not have control characters", true}
	case slices.ContainsFunc(r.AllowedHeaders, hasControl):
		return &CORSError{"AllowedHeader", "must not have control characters", true}
	case slices.ContainsFunc(r.AllowedOrigins, hasWildcards):
		return &CORSError{"AllowedOrigin", wildcards, false}
	case slices.ContainsFunc(r.AllowedHeaders, hasWildcards):
		return &CORSError{"AllowedHeader", wildcards, false}
	case slices.ContainsFunc(r.ExposeHeaders, func(s string) bool { return !IsHeaderName(s) }):
		return &CORSError{"ExposeHeader", "must be a header name", false}
	}
	return nil
}

var corsMethods = []string{"GET", "HEAD", "PUT", "POST", "DELETE"}

func isNoCORSMethod(s string) bool {
	return !slices.Contains(corsMethods, s)
}

func hasWildcards(s string) bool { return strings.Count(s, "*") > 1 }

// hasControl reports control characters, which could split a response header. A tab is allowed in header values (RFC
// 9110, 5.5).
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// IsHeaderName reports whether s is an RFC 9110 token.
func IsHeaderName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
