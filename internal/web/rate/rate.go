// Package rate limits each client's rate with token buckets.
//
// Buckets are local to the process, so a client that reaches n processes gets n times the rate. If there are too many
// buckets, the least recently used bucket is dropped, and starts full again.
package rate

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// Limit allows a client Events in each Per, and Burst events at the same time.
type Limit struct {
	Events int           // tokens gained in Per
	Per    time.Duration // interval in which Events tokens are gained
	Burst  int           // capacity: tokens that an unused bucket holds
}

// check refuses numbers that are not positive.
func (l Limit) check(clients int) error {
	if l.Events <= 0 || l.Per <= 0 || l.Burst <= 0 || clients <= 0 {
		return errcode.New(errcode.Invalid, "rate: events, interval, burst and number of clients must be greater than 0")
	}
	return nil
}

// every returns the tokens gained per second.
func (l Limit) every() float64 { return float64(l.Events) / l.Per.Seconds() }

// Buckets are safe for concurrent use. A nil *Buckets has no limit.
type Buckets struct {
	limit Limit
	every float64 // tokens per second
	now   clock.Clock

	mu    sync.Mutex
	byKey *simplelru.LRU[string, *rate.Limiter]
}

// New returns buckets for at most clients clients, about 300 bytes each. It returns errcode.Invalid for numbers below
// 1.
func New(l Limit, clients int, now clock.Clock) (*Buckets, error) {
	if err := l.check(clients); err != nil {
		return nil, err
	}
	byKey, err := simplelru.NewLRU[string, *rate.Limiter](clients, nil)
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "the number of clients must be greater than 0", err)
	}
	return &Buckets{limit: l, every: l.every(), now: now, byKey: byKey}, nil
}

// State is a bucket's state for response headers. The zero value sets no headers.
type State struct {
	Limit     int           // Limit.Burst
	Remaining int           // whole tokens left
	Reset     time.Duration // until the bucket is full
	Retry     time.Duration // until a rejected request may retry; 0 if allowed
}

// Tighter returns the state that rejects first.
func (s State) Tighter(t State) State {
	if s.Limit == 0 || t.Limit > 0 && cmp.Or(cmp.Compare(t.Retry, s.Retry), cmp.Compare(s.Remaining, t.Remaining), cmp.Compare(t.Reset, s.Reset)) > 0 {
		return t
	}
	return s
}

// Allow takes n tokens from key's bucket if they are available, and returns the resulting state. key names the
// client. If n exceeds the burst, the bucket must be full.
func (b *Buckets) Allow(key string, n int) (ok bool, s State) { return b.allow(key, n, true) }

// Check is like Allow, but takes no tokens.
func (b *Buckets) Check(key string, n int) (ok bool, s State) { return b.allow(key, n, false) }

// allow is Allow (take) or Check.
func (b *Buckets) allow(key string, n int, take bool) (ok bool, s State) {
	if b == nil {
		return true, State{}
	}
	n = min(n, b.limit.Burst)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	bucket, known := b.byKey.Get(key)
	if !known {
		bucket = rate.NewLimiter(rate.Limit(b.every), b.limit.Burst)
		b.byKey.Add(key, bucket)
	}
	if take {
		ok = bucket.AllowN(now, n)
	}
	tokens := bucket.TokensAt(now)
	if !take {
		ok = tokens >= float64(n)
	}
	s = State{Limit: b.limit.Burst, Remaining: int(max(tokens, 0)), Reset: until(float64(b.limit.Burst)-tokens, b.every)}
	if !ok {
		s.Retry = until(float64(n)-tokens, b.every)
	}
	return ok, s
}

// until returns how long gaining tokens takes, rounded up so that a retry after it succeeds.
func until(tokens, every float64) time.Duration {
	if tokens <= 0 {
		return 0
	}
	return time.Duration(tokens/every*1e6+1) * time.Microsecond
}

// SetHeaders sets RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset and, for a rejected request, Retry-After, in
// whole seconds, rounded up. It follows draft-ietf-httpapi-ratelimit-headers-06, which clients support; later drafts
// have fewer, structured fields.
func (s State) SetHeaders(h http.Header) {
	if s.Limit == 0 {
		return
	}
	h.Set("RateLimit-Limit", strconv.Itoa(s.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(s.Remaining))
	h.Set("RateLimit-Reset", seconds(s.Reset))
	if s.Retry > 0 {
		h.Set("Retry-After", seconds(s.Retry))
	}
}

// seconds rounds up unless the excess is a rounding error.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil((d - 10*time.Microsecond).Seconds())), 10)
}
