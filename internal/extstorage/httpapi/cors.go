package httpapi

import "net/http"

const private = "private, no-cache"

// greet sets the headers of public responses. Pages of any origin may read them: access depends on the token, which
// browsers do not send on their own.
func greet(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", private)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
}

// preflight answers CORS preflights before routing and authentication, because they carry no token.
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
