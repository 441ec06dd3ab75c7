package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// share lets pages of the origins of the site read the answer, with the cookie. Vary is on every answer, so that no
// cache gives an answer for one origin to another.
func (h *Handler) share(w http.ResponseWriter, r *http.Request) {
	origins := h.Guests.Profile().AllowedOrigins()
	header := w.Header()
	if len(origins) == 0 || slices.Contains(header.Values("Vary"), "Origin") { // an error is shared twice
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

// preflight answers the question of a browser whether a page may send a request. It has no session and no rate limit.
func (x *exchange) preflight(methods map[string]*action) bool {
	if x.in.Method != http.MethodOptions || x.in.Header.Get("Access-Control-Request-Method") == "" || len(x.Guests.Profile().AllowedOrigins()) == 0 {
		return false
	}
	header := x.out.Header()
	if header.Get("Access-Control-Allow-Origin") != "" {
		header.Set("Access-Control-Allow-Methods", strings.Join(allowedMethods(methods), ", "))
		header.Set("Access-Control-Allow-Headers", allowedHeaders)
		header.Set("Access-Control-Max-Age", "7200") // browsers keep it no longer
	}
	x.out.WriteHeader(http.StatusNoContent)
	return true
}

const (
	allowedHeaders = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Traceparent, Tracestate, X-Campaign-Medium, X-Campaign-Name, X-Campaign-Source, X-Challenge-Token, X-Currency, X-Idempotency-Key, X-Request-Id, X-Session-Mode"
	exposedHeaders = "Cache-Status, ETag, Idempotency-Replayed, Location, RateLimit, RateLimit-Policy, Retry-After, X-Cache, X-Request-Id, X-Session-Token"
)
