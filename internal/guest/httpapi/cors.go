package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// share lets the site's origins read the answer with credentials. Vary is always set, so that caches never serve one
// origin's answer to another.
func (h *Handler) share(w http.ResponseWriter, r *http.Request) {
	origins := h.Guests.Profile().AllowedOrigins()
	header := w.Header()
	if len(origins) == 0 || slices.Contains(header.Values("Vary"), "Origin") { // errors get here twice
		return
	}
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(origins, origin) {
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Allow-Credentials", "true")
	header.Set("Access-Control-Expose-Headers", exposedHeaders)
}

// preflight answers a CORS preflight, and returns false for other requests. methods are the path's.
func (x *exchange) preflight(methods map[string]*action) bool {
	if x.in.Method != http.MethodOptions || x.in.Header.Get("Access-Control-Request-Method") == "" || len(x.Guests.Profile().AllowedOrigins()) == 0 {
		return false
	}
	header := x.out.Header()
	if header.Get("Access-Control-Allow-Origin") != "" {
		header.Set("Access-Control-Allow-Methods", strings.Join(allowedMethods(methods), ", "))
		header.Set("Access-Control-Allow-Headers", allowedHeaders)
		header.Set("Access-Control-Max-Age", "7200") // the browsers' maximum
	}
	x.out.WriteHeader(http.StatusNoContent)
	return true
}

const (
	allowedHeaders = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Traceparent, Tracestate, X-Campaign-Medium, X-Campaign-Name, X-Campaign-Source, X-Challenge-Token, X-Currency, X-Idempotency-Key, X-Request-Id, X-Session-Mode"
	exposedHeaders = "Cache-Status, ETag, Idempotency-Replayed, Location, RateLimit, RateLimit-Policy, Retry-After, X-Cache, X-Request-Id, X-Session-Token"
)
