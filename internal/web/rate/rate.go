// Package rate bounds how often each of many clients may do something.
//
// A client has a bucket of tokens that fills at a steady rate. It is kept in
// this process only: a client that reaches n of them may do n times as much. The
// number of buckets is bounded too; the one that has not been used for longest
// makes room, and is full when its client comes again.
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
	"holdfast/internal/fault"
)

// Limit is what each client may do: Events in the length of Per, and at once as
// many as Burst.
type Limit struct {
	Events int
	Per    time.Duration
	Burst  int
}

func (l Limit) check(clients int) error {
	if l.Events <= 0 || l.Per <= 0 || l.Burst <= 0 || clients <= 0 {
		return fault.New(fault.Invalid, "rate: events, interval, burst and number of clients must be greater than 0")
	}
	return nil
}

// every is how many tokens flow in within a second.
func (l Limit) every() float64 { return float64(l.Events) / l.Per.Seconds() }

// Buckets are the buckets of all clients. They are safe for concurrent use; nil
// lets everything pass.
type Buckets struct {
	limit Limit
	every float64 // tokens in a second
	now   clock.Clock

	mu    sync.Mutex
	byKey *simplelru.LRU[string, *rate.Limiter]
}

// New makes buckets for at most so many clients, some 300 bytes each. The error
// is fault.Invalid: a number that is not above 0.
func New(l Limit, clients int, now clock.Clock) (*Buckets, error) {
	if err := l.check(clients); err != nil {
		return nil, err
	}
	byKey, err := simplelru.NewLRU[string, *rate.Limiter](clients, nil)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "the number of clients must be greater than 0", err)
	}
	return &Buckets{limit: l, every: l.every(), now: now, byKey: byKey}, nil
}

// State is a client's bucket as its headers tell it. The zero value, of a
// request that no limit applies to, tells nothing.
type State struct {
	Limit     int           // how many tokens there may be
	Remaining int           // and are
	Reset     time.Duration // until the bucket is full
	Retry     time.Duration // until a refused request may be made again; 0 when it was let through
}

// Tighter returns the state that refuses next: of two that refuse, the one that does
// so for longer.
func (s State) Tighter(t State) State {
	if s.Limit == 0 || t.Limit > 0 && cmp.Or(cmp.Compare(t.Retry, s.Retry), cmp.Compare(s.Remaining, t.Remaining), cmp.Compare(t.Reset, s.Reset)) > 0 {
		return t
	}
	return s
}

// Allow takes n tokens of a client, if they are there, and says what it has
// then. More than the burst are never there, so such a request takes a full
// bucket.
func (b *Buckets) Allow(key string, n int) (ok bool, s State) { return b.allow(key, n, true) }

// Check is Allow that takes nothing.
func (b *Buckets) Check(key string, n int) (ok bool, s State) { return b.allow(key, n, false) }

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

// until is how long so many tokens take, and a microsecond: they are fractions,
// which may lack the last bit.
func until(tokens, every float64) time.Duration {
	if tokens <= 0 {
		return 0
	}
	return time.Duration(tokens/every*1e6+1) * time.Microsecond
}

// SetHeaders adds the fields RateLimit-Limit, RateLimit-Remaining and
// RateLimit-Reset, and Retry-After to a refusal, in whole seconds, rounded up.
// They are the fields of draft-ietf-httpapi-ratelimit-headers-06, which clients
// know; later drafts have fewer and structured ones.
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

// seconds rounds up what is more than a bit of a fraction.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil((d - 10*time.Microsecond).Seconds())), 10)
}
