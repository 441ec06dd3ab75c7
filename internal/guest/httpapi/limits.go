package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/web"
)

var classes = map[string]guest.Class{
	"/wishlist":                         guest.ClassWishlist,
	"/wishlist/{propertyId}":            guest.ClassWishlist,
	"/handoff/{tenantId}/{propertyId}":  guest.ClassMint,
	"/search":                           guest.ClassSearch,
	"/search/map":                       guest.ClassSearch,
	"/search/{srsId}":                   guest.ClassSearch,
	"/hotels/{propertyId}":              guest.ClassDetail,
	"/hotels/{propertyId}/availability": guest.ClassDetail,
	"/facets/{country}/{region}":        guest.ClassDetail,
	"/brands/{tenantId}/peek":           guest.ClassDetail,
	upstreamRoute:                       guest.ClassDetail,
	keySetRoute:                         guest.ClassDetail,
	"/telemetry/page-view":              guest.ClassTelemetry,
	"/telemetry/funnel":                 guest.ClassTelemetry,
}

// limit counts the request against the limit for its path, or, if it would begin a session, against the limit for new
// sessions.
func (x *exchange) limit() error {
	class, ok := classes[x.route.template]
	if !ok {
		class = guest.ClassSession
	}
	if x.action.begins && x.session == "" {
		class = guest.ClassBootstrap
	}
	return x.take(class)
}

// take counts a request, and sets RateLimit headers (draft-ietf-httpapi-ratelimit-headers). Above the limit it returns a
// refusal with status 429.
func (x *exchange) take(class guest.Class) error {
	r, limited, err := x.Guests.Limit(x.ctx(), class, x.session, x.address())
	if err != nil || !limited {
		return err
	}
	h := x.out.Header()
	h.Set("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;w=%d`, r.Class, r.Events, int(r.Per.Seconds())))
	h.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%d`, r.Class, r.Remaining, wholeSeconds(r.Reset)))
	if r.Allowed {
		return nil
	}
	h.Set("Retry-After", strconv.Itoa(max(1, wholeSeconds(r.Retry))))
	return web.Refuse(http.StatusTooManyRequests, "rate-limited", "too many requests of this kind: retry after the time in Retry-After")
}

// address returns the client's IP address, for the limit that all clients behind it share. It is not empty even if the
// address is unknown.
func (x *exchange) address() string {
	ip, _ := web.ClientIP(x.in)
	return ip.String()
}

// wholeSeconds rounds up: a client that waits so long is not refused again.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
