package httpapi

import (
	"net/http"
	"regexp"
	"strconv"
)

// cors answers preflights and lets pages of any origin read the answers. It
// comes before routing and credentials: a browser sends neither with its
// preflight, and asks about paths that do not exist.
func cors(w http.ResponseWriter, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions {
		h.Set("Access-Control-Expose-Headers", exposed)
		return false
	}
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, POST, PUT")
	h.Set("Access-Control-Allow-Headers", allowed)
	h.Set("Access-Control-Max-Age", "1728000")
	w.WriteHeader(http.StatusNoContent)
	return true
}

const (
	allowed = "Authorization, Content-Type, User-Agent, X-If-Modified-Since, X-If-Unmodified-Since, X-Last-Modified, " +
		"X-Weave-Bytes, X-Weave-Records, X-Weave-Timestamp, X-Weave-Total-Bytes, X-Weave-Total-Records"
	exposed = "Retry-After, X-Last-Modified, X-Weave-Backoff, X-Weave-Next-Offset, X-Weave-Quota-Remaining, " +
		"X-Weave-Records, X-Weave-Timestamp"
)

// oldIOS is a Firefox for iOS that crashes on the headers of a good answer.
var oldIOS = regexp.MustCompile(`^Firefox-iOS-Sync/(\d{1,3})\.[^ ]*b[^ ]* \([^)]*iPhone OS [^)]*\) \([^)]*\)$`)

// refused reports whether the client is one that must not be answered: major
// versions 1 to 19. Developers' builds have major 0 or no number.
func refused(userAgent string) bool {
	m := oldIOS.FindStringSubmatch(userAgent)
	if m == nil {
		return false
	}
	major, err := strconv.Atoi(m[1])
	return err == nil && 0 < major && major < 20
}
