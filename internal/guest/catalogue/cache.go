package catalogue

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/ident"
)

// Search results stay fresh for this long while Options.Campaign is set.
const campaignLife = 5 * time.Minute

const (
	// StaleLife is the default time to keep a stale answer.
	StaleLife = 10 * time.Minute

	// FillLife is how long an upstream caller holds the lock; after a crash, another takes over.
	FillLife = 5 * time.Second

	// MaxUpstreamTimeout ensures that an upstream's caller still holds the lock when it stores the answer.
	MaxUpstreamTimeout = 4 * time.Second

	// nearLife is how long a process keeps a copy of a cached answer.
	nearLife = 5 * time.Second

	// failLife is the minimum interval between calls after an upstream fails or answers "not found". The interval is
	// random, and at most twice as long.
	failLife = time.Second
)

// CacheState is an answer's origin, as in X-Cache.
type CacheState string

// Cache states.
const (
	CacheHit    CacheState = "HIT"
	CacheMiss   CacheState = "MISS"
	CacheStale  CacheState = "STALE"
	CacheBypass CacheState = "BYPASS" // from the catalogue, not stored
	cacheError  CacheState = "ERROR"
)

// CacheStates are the arguments of Options.Cached.
var CacheStates = []CacheState{CacheHit, CacheMiss, CacheStale, CacheBypass, cacheError}

// View is an answer with its age, for the cache headers.
type View struct {
	// JSON; read-only, since requests share it; nil if the object is not in the catalogue
	Body      []byte
	State     CacheState
	Fresh     time.Duration // remaining time; negative: stale since
	Stale     time.Duration // how much longer it may be used after failures
	Collapsed bool          // another request called the catalogue
}

// Hot caches upstream answers, and locks keys for callers that fill them. Keys, e.g. cache:facets:at:vienna, do not
// name the environment. Unlike other hot state, the cache may be evicted when memory is short. It keeps to the rules of
// guest.Hot: values in results may be shared.
type Hot interface {
	// Cached returns an answer with its key's lock. A missing key is no error.
	Cached(ctx context.Context, key string) (CachedValue, error)

	// PutCached stores a value for life, which is above 0, even if another caller holds the lock.
	PutCached(ctx context.Context, key string, value []byte, life time.Duration) error

	// Lock locks a key or extends the owner's lock, unless another owner holds it.
	Lock(ctx context.Context, key, owner string, life time.Duration) (bool, error)

	// Unlock returns false if the owner does not hold the lock.
	Unlock(ctx context.Context, key, owner string) (bool, error)

	// FillCached atomically stores a value and unlocks, unless the owner lost the lock.
	FillCached(ctx context.Context, key, owner string, value []byte, life time.Duration) (bool, error)

	// FailCached replaces the owner's lock with a failure mark, which blocks the lock for life and keeps the value,
	// unless the owner lost the lock.
	FailCached(ctx context.Context, key, owner string, life time.Duration) (bool, error)
}

// CachedValue is a cached answer with its key's lock.
type CachedValue struct {
	Value []byte
	// distinguishes an empty value from none
	Found bool
	// until the value expires
	Left   time.Duration
	Locked time.Duration // until the lock expires; 0: unlocked
	Failed bool          // locked by FailCached
}

// view returns the cached answer or calls ask. Concurrent requests for a key, in all processes, cause one call.
func (s *Service) view(ctx context.Context, u guest.Upstream, key string, ask func(context.Context) ([]byte, error)) (v View, err error) {
	if s.opts.Cached != nil {
		defer func() {
			switch {
			case errors.Is(err, ErrMissing):
				s.opts.Cached(u.Name, v.State)
			case err != nil:
				s.opts.Cached(u.Name, cacheError)
			default:
				s.opts.Cached(u.Name, v.State)
			}
		}()
	}
	if v, ok := s.near(ctx, &u, key); ok {
		v.Stale = u.Stale
		return v, v.missing()
	}
	asked := false
	result := s.flights.DoChan(key, func() (any, error) {
		asked = true
		// Other requests wait for the answer too, so it must outlive this request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FillLife+MaxUpstreamTimeout)
		defer cancel()
		ctx = guest.WithHotTime(ctx, time.Minute)
		l := loader{s, u, key, ident.New(), ask}
		v, err := l.load(ctx, s.opts.Hot, true)
		if !errors.Is(err, ErrUpstream) && s.opts.Degraded.Without("cache", err) {
			if s.opts.Local == nil {
				return l.askFor(ctx, CacheBypass)
			}
			v, err = l.load(ctx, s.opts.Local, false)
		}
		return v, err
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return View{State: CacheMiss}, r.Err
		}
		v = r.Val.(View)
		v.Stale, v.Collapsed = u.Stale, !asked && v.State == CacheMiss
		return v, v.missing()
	case <-ctx.Done():
		return View{}, errcode.Wrap(errcode.Unavailable, "the request ended before the catalogue answered", ctx.Err())
	}
}

// First byte of a stored answer.
const (
	storedBody    = 'v'
	storedMissing = 'n' // not in the catalogue; no body
)

// ErrMissing means that the object is not in the catalogue.
var ErrMissing = errcode.New(errcode.NotFound, "not in the catalogue")

// missing returns ErrMissing if the catalogue does not know the object.
func (v *View) missing() error {
	if v.Body == nil {
		return ErrMissing
	}
	return nil
}

// decode reads a stored answer, or returns false if it is missing or an unknown version wrote it.
func decode(u *guest.Upstream, c CachedValue) (v View, ok bool) {
	if !c.Found || len(c.Value) == 0 {
		return v, false
	}
	switch c.Value[0] {
	case storedBody:
		v = View{Body: c.Value[1:], State: CacheHit, Fresh: min(c.Left-u.Stale, longest(u.Fresh))} // u.Stale was longer when it was stored
		if v.Fresh <= 0 {
			v.State = CacheStale
		}
		return v, true
	case storedMissing:
		return View{State: CacheHit, Fresh: c.Left}, true
	}
	return v, false
}

// near returns this process's copy. The copy's first bytes are the time until which the answer is fresh.
func (s *Service) near(ctx context.Context, u *guest.Upstream, key string) (View, bool) {
	if s.opts.Local == nil {
		return View{}, false
	}
	c, err := s.opts.Local.Cached(ctx, "near:"+key)
	if err != nil || len(c.Value) < 8 {
		return View{}, false
	}
	fresh := time.UnixMicro(int64(binary.BigEndian.Uint64(c.Value))).Sub(s.opts.Clock())
	c.Value, c.Left = c.Value[8:], fresh+u.Stale
	if v, ok := decode(u, c); ok && fresh > 0 {
		v.Fresh = fresh
		return v, true
	}
	return View{}, false
}

// putNear keeps a copy in this process until the answer is stale, and at most for nearLife: other processes may store a
// newer answer. An error does not matter, since it only costs a call to the cache.
func (s *Service) putNear(ctx context.Context, key string, stored []byte, fresh time.Duration) {
	if s.opts.Local == nil || fresh <= 0 {
		return
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(stored)), uint64(s.opts.Clock().Add(fresh).UnixMicro()))
	_ = s.opts.Local.PutCached(ctx, "near:"+key, append(value, stored...), min(fresh, nearLife))
}

// loader gets an answer for concurrent requests in this process.
type loader struct {
	*Service
	// its freshness and, by its name, its circuit breaker
	from guest.Upstream
	key  string
	// random; names this loader in the key's lock
	owner string
	// calls the upstream; returns ErrMissing for unknown objects
	ask func(context.Context) ([]byte, error)
}

const (
	firstPause = 5 * time.Millisecond   // pause before the second look at a key that another loader fills; grows by half each time
	lastPause  = 100 * time.Millisecond // longest pause
)

// load reads a key, or fills it if no other loader does. It waits at most one lock lifetime for another loader; then
// it uses an old answer or calls the catalogue itself. near enables copies in this process.
func (l *loader) load(ctx context.Context, hot Hot, near bool) (View, error) {
	deadline, pause := time.Now().Add(FillLife), firstPause
	for {
		c, err := hot.Cached(ctx, l.key)
		if err != nil {
			return View{}, err
		}
		v, found := decode(&l.from, c)
		switch {
		case found && v.Fresh > 0:
			if near {
				l.putNear(ctx, l.key, c.Value, v.Fresh)
			}
			return v, nil
		case c.Failed && found:
			return v, nil
		case c.Failed:
			return View{}, ErrUpstream
		}
		wait := time.Until(deadline)
		switch {
		case c.Locked == 0:
			locked, err := hot.Lock(ctx, l.key, l.owner, FillLife)
			if err != nil {
				return View{}, err
			}
			if locked {
				return l.fill(ctx, hot, near)
			}
		case wait <= 0 && found:
			return v, nil
		case wait <= 0:
			return l.askFor(ctx, CacheBypass)
		default:
			pause = min(pause+pause/2, lastPause)
			if !clock.Sleep(ctx, min(pause/2+rand.N(pause), c.Locked, wait)) {
				return View{}, ErrUpstream
			}
		}
	}
}

// fill calls the upstream while this loader holds the key's lock, and unlocks. It looks at the cache again first, since
// another loader may have filled the key just before. After an upstream's error, a stale answer is used and the key is
// blocked for a moment. A loader that lost its lock in the meantime does not store its answer: a newer answer may be
// there.
func (l *loader) fill(ctx context.Context, hot Hot, near bool) (View, error) {
	c, err := hot.Cached(ctx, l.key)
	if err != nil {
		return View{}, err
	}
	old, found := decode(&l.from, c)
	if found && old.Fresh > 0 {
		_, err := hot.Unlock(ctx, l.key, l.owner)
		return old, err
	}
	v, err := l.askFor(ctx, CacheMiss)
	switch {
	case err != nil:
		_, failed := hot.FailCached(ctx, l.key, l.owner, failLife+rand.N(failLife))
		l.opts.Degraded.Without("cache", failed)
		if found {
			return old, nil
		}
		return View{}, err
	case v.Body == nil:
		_, err = hot.FillCached(ctx, l.key, l.owner, []byte{storedMissing}, failLife+rand.N(failLife))
	default:
		v.Fresh = jitter(l.from.Fresh)
		stored := append([]byte{storedBody}, v.Body...)
		if near {
			l.putNear(ctx, l.key, stored, v.Fresh)
		}
		var kept bool
		if kept, err = hot.FillCached(ctx, l.key, l.owner, stored, v.Fresh+l.from.Stale); err == nil && !kept {
			v.State, v.Fresh = CacheBypass, 0
		}
	}
	if l.opts.Degraded.Without("cache", err) {
		v.State, err = CacheBypass, nil
	}
	return v, err
}

// jitter varies d by up to 10%, so that keys filled together do not expire together.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(max(d/5, 1)) }

func longest(d time.Duration) time.Duration { return d + d/10 }

// askFor calls the upstream unless its circuit breaker is open. "Not found" counts as a success for the breaker, and
// returns a View without a body.
func (l *loader) askFor(ctx context.Context, state CacheState) (View, error) {
	stored, _ := l.breakers.LoadOrStore(l.from.Name, &breaker{})
	b := stored.(*breaker)
	if !b.allow(time.Now()) {
		return View{}, ErrUpstream
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, MaxUpstreamTimeout)
	defer cancel()
	body, err := l.ask(ctx)
	missing := errors.Is(err, ErrMissing) || errors.Is(err, ErrNoProperty) || errors.Is(err, ErrNoTenant) || errors.Is(err, ErrNoRegion)
	if missing {
		body, err = nil, nil
	}
	b.report(time.Now(), err == nil)
	if l.opts.Called != nil {
		l.opts.Called(l.from.Name, time.Since(start), err)
	}
	switch {
	case err != nil:
		return View{}, errcode.Wrap(errcode.Unavailable, ErrUpstream.Message, errors.Join(ErrUpstream, err))
	case missing:
		return View{State: state}, nil
	}
	return View{Body: body, State: state}, nil
}

// breaker stops calls to an upstream after failures, and then lets a single call through from time to time.
type breaker struct {
	mu       sync.Mutex
	failures int
	next     time.Time
}

const (
	breakAfter = 5
	// probeAfter is the delay before a trial call after a failure.
	probeAfter = 4 * time.Second
)

// allow reports whether to call now. In the open state, it lets a call through each probeAfter.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakAfter {
		return true
	}
	if now.Before(b.next) {
		return false
	}
	b.next = now.Add(probeAfter)
	return true
}

// report records a call's result. A success closes the breaker.
func (b *breaker) report(now time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok {
		b.failures = 0
		return
	}
	b.failures++
	b.next = now.Add(probeAfter)
}
