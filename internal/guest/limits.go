package guest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// Class names routes that share a rate limit.
type Class string

// Rate limit classes.
const (
	ClassSession   Class = "session"
	ClassBootstrap Class = "bootstrap"
	ClassSearch    Class = "search"
	ClassDetail    Class = "detail"
	ClassWishlist  Class = "wishlist"
	ClassMint      Class = "mint"
	ClassTelemetry Class = "telemetry"
)

// Limits are per session, except ClassBootstrap, which is per client address.
type Limits map[Class]Limit

// addressFactor multiplies session limits for client addresses, which many guests may share.
const addressFactor = 10

// Rate is the state of the most restrictive bucket.
type Rate struct {
	Class Class
	Limit
	Taken
}

// Limit takes a token from the session's bucket, if any, and from the client address's bucket (IPv6: its /64).
// limited is false if the class is unlimited.
func (s *Service) Limit(ctx context.Context, class Class, session ID, address string) (r Rate, limited bool, err error) {
	limit, limited := s.Limits()[class]
	if !limited {
		return r, false, nil
	}
	shared := limit
	if class != ClassBootstrap {
		shared.Events, shared.Burst = limit.Events*addressFactor, limit.Burst*addressFactor
	}
	buckets := []Bucket{{string(class) + ":ip:" + s.opts.Cookies.Hash(network(address)), shared}}
	if session != "" {
		buckets = append(buckets, Bucket{string(class) + ":" + string(session), limit})
	}
	taken, err := s.opts.Hot.Take(ctx, buckets)
	if s.opts.Degraded.Without("rate", err) && s.opts.Local != nil {
		for i := range buckets {
			buckets[i].Limit = buckets[i].part(s.opts.Processes)
		}
		taken, err = s.opts.Local.Take(ctx, buckets)
	}
	if err != nil {
		return r, false, err
	}
	if !taken[0].Allowed && s.opts.AddressLimited != nil {
		s.opts.AddressLimited(class, address)
	}
	for i, t := range taken {
		if i == 0 || stricter(t, r.Taken) {
			r = Rate{class, buckets[i].Limit, t}
		}
	}
	return r, true, nil
}

// part returns an nth of the limit, at least 1.
func (l Limit) part(n int) Limit {
	n = max(1, n)
	l.Events, l.Burst = max(1, l.Events/n), max(1, l.Burst/n)
	return l
}

// stricter reports whether a limits the client more than b.
func stricter(a, b Taken) bool {
	if a.Allowed != b.Allowed {
		return !a.Allowed
	}
	if !a.Allowed {
		return a.Retry > b.Retry
	}
	return a.Remaining < b.Remaining
}

// Hash returns a keyed hash of text that must not be stored, e.g. a client address.
func (c *Cookies) Hash(text string) string {
	h := hmac.New(sha256.New, c.keys[0].secret)
	h.Write([]byte("address\x00" + text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// Rates are in requests per minute.
type Rates struct {
	Session   int `toml:"session" doc:"Reading and changing a session and its lists."`
	Bootstrap int `toml:"bootstrap" doc:"New sessions per client address."`
	Search    int `toml:"search" doc:"Searches."`
	Detail    int `toml:"detail" doc:"Hotel views, availability, facets and brands."`
	Wishlist  int `toml:"wishlist" doc:"Reading and changing the wishlist."`
	Mint      int `toml:"mint" doc:"Handoffs to booking sites."`
	Telemetry int `toml:"telemetry" doc:"Batches of page views and funnel events."`
}

// DefaultRates returns the rates of a new configuration.
func DefaultRates() Rates {
	return Rates{Session: 120, Bootstrap: 20, Search: 60, Detail: 120, Wishlist: 60, Mint: 10, Telemetry: 240}
}

// Limits converts rates. The burst is a part of the rate.
func (r Rates) Limits() Limits {
	of := func(n, part int) Limit { return Limit{Events: n, Per: time.Minute, Burst: max(1, n/part)} }
	return Limits{
		ClassSession: of(r.Session, 3), ClassBootstrap: of(r.Bootstrap, 2), ClassSearch: of(r.Search, 3), ClassDetail: of(r.Detail, 3),
		ClassWishlist: of(r.Wishlist, 3), ClassMint: of(r.Mint, 2), ClassTelemetry: of(r.Telemetry, 4),
	}
}
