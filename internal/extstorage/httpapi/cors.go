package httpapi

import "net/http"

// private is what every answer says to caches.
const private = "private, no-cache"

// greet sets what every answer to the public has. A page of any origin may read
// it: what it may ask for is in the token that it sends, and a browser sends none
// by itself.
func greet(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", private)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
}

// preflight answers a browser that asks what a page of another origin may send.
// It comes before routing and tokens, because a browser sends none with it.
func preflight(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Origin") == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, HEAD, PATCH, POST, PUT")
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return true
}

const (
	allowedHeaders = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Revision-Match, X-Request-Id"
	exposedHeaders = "ETag, Idempotency-Replayed, Location, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id"
)
