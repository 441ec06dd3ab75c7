package httpapi

import "net/http"

// preflight lets any origin read responses. It runs before routing and authentication, because browsers send no
// credentials with preflights, and clients ask about missing paths.
func preflight(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions {
		h.Set("Access-Control-Expose-Headers", exposedHeaders)
		return false
	}
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, POST, PUT")
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	h.Set("Access-Control-Max-Age", "1728000")
	w.WriteHeader(http.StatusNoContent)
	return true
}

const (
	allowedHeaders = "Authorization, Content-Type, User-Agent, X-If-Modified-Since, X-If-Unmodified-Since, X-Last-Modified, " +
		"X-Weave-Bytes, X-Weave-Records, X-Weave-Timestamp, X-Weave-Total-Bytes, X-Weave-Total-Records"
	exposedHeaders = "Retry-After, X-Last-Modified, X-Weave-Backoff, X-Weave-Next-Offset, X-Weave-Quota-Remaining, " +
		"X-Weave-Records, X-Weave-Timestamp"
)
