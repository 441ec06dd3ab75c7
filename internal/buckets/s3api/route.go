package s3api

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/web"
)

// route is the address that a request names.
type route struct {
	account string     // from ACCOUNT:BUCKET
	hosted  bool       // from the host, which may be BUCKET.ACCOUNT
	bucket  string     // "" for the bucket list
	key     string     // "" for the bucket
	query   url.Values // nil if malformed
}

// parseRoute parses the raw path: /BUCKET, /BUCKET/ or /BUCKET/KEY, with ACCOUNT:BUCKET for another account's bucket.
// If the host is below domain, it contains the bucket: BUCKET.DOMAIN or BUCKET.ACCOUNT.DOMAIN. The key is decoded once
// and not cleaned. After an error, the route contains everything parsed so far.
func parseRoute(r *http.Request, at web.Address, domain string) (rt route, err error) {
	path, ok := strings.CutPrefix(at.Path, "/")
	if !ok {
		return rt, errURI
	}
	if rt.bucket, rt.hosted = bucketOfHost(r.Host, domain); !rt.hosted {
		var bucket string
		bucket, path, _ = strings.Cut(path, "/")
		if bucket, err = url.PathUnescape(bucket); err != nil {
			return rt, errURI
		}
		switch rt.account, rt.bucket, ok = strings.Cut(bucket, ":"); {
		case !ok:
			rt.account, rt.bucket = "", bucket
		case rt.account == "":
			return rt, buckets.ErrBucketName // the path is ":bucket"
		}
	}
	// A semicolon is not a separator, because clients leave it unescaped in X-Amz-SignedHeaders.
	_, raw, _ := strings.Cut(at.Target, "?")
	query, err := url.ParseQuery(strings.ReplaceAll(raw, ";", "%3B"))
	if err != nil {
		return rt, errURI
	}
	rt.query = query
	if rt.bucket == "" && (rt.hosted || at.Path != "/") {
		return rt, buckets.ErrBucketName // the path is "//key" or "/account:/key"
	}
	if rt.key, err = url.PathUnescape(path); err != nil {
		return rt, errURI
	}
	if rt.key == "" {
		return rt, nil
	}
	return rt, buckets.CheckObjectName(rt.key)
}

// bucketOfHost returns the labels before the domain; ok is false for other hosts.
func bucketOfHost(host, domain string) (labels string, ok bool) {
	if domain == "" {
		return "", false
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.CutSuffix(strings.ToLower(host), "."+strings.ToLower(domain))
}

func (rt *route) has(name string) bool { return rt.query.Has(name) }

// Label returns the access log's route for a raw path, without names.
func Label(path string) string {
	path = strings.TrimPrefix(path, "/")
	switch bucket, key, _ := strings.Cut(path, "/"); {
	case bucket == "":
		return "service"
	case key == "":
		return "bucket"
	}
	return "object"
}

// Owns returns true, because only this service uses the listener.
func Owns(string) bool { return true }
