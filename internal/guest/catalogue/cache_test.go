package catalogue_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/catalogue/builtin"
	"holdfast/internal/guest/hotstatetest"
	"holdfast/internal/guest/memory"
	"holdfast/internal/suite"
)

type counted struct {
	catalogue.Source
	calls atomic.Int64
	fails atomic.Bool
	slow  chan struct{} // if set, calls send to it and wait until it is closed
}

func (c *counted) Facets(ctx context.Context, country, region string) (catalogue.Facets, error) {
	c.calls.Add(1)
	if c.slow != nil {
		c.slow <- struct{}{}
		<-c.slow
	}
	if c.fails.Load() {
		return catalogue.Facets{}, errors.New("down")
	}
	return c.Source.Facets(ctx, country, region)
}

// browsing is a process that shares its hot state with other processes.
type browsing struct {
	*catalogue.Service
	catalogue *counted
	away      atomic.Bool
	asked     atomic.Int64
}

func newBrowsing(hot backend.Hot, c *counted, now clock.Clock, local bool) *browsing {
	b := &browsing{catalogue: c}
	faulty := &hotstatetest.Faulty{Hot: hot, Fault: func(string) error {
		b.asked.Add(1)
		if b.away.Load() {
			return errcode.New(errcode.Unavailable, "away")
		}
		return nil
	}}
	o := catalogue.Options{Source: c, Hot: faulty, Clock: now}
	if local {
		o.Local = memory.New(now, 1<<20)
	}
	b.Service = catalogue.New(o)
	return b
}

func (b *browsing) facets(t *testing.T, region string) catalogue.CacheState {
	t.Helper()
	v, err := b.FacetsOf(t.Context(), "AT", region)
	if err != nil {
		t.Fatal(err)
	}
	return v.State
}

// TestCacheLives checks that an answer is fresh, then stale while the catalogue fails, and deleted ten minutes
// later.
func TestCacheLives(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(clock.System())
	c := &counted{Source: builtin.New()}
	b := newBrowsing(memory.New(now.Now, 1<<20), c, now.Now, false)
	v, err := b.FacetsOf(t.Context(), "AT", "vienna")
	suite.Must(t, "FacetsOf", err)
	suite.Equal(t, "at first", v.State, catalogue.CacheMiss)
	for _, s := range []struct {
		after time.Duration
		fails bool
		state catalogue.CacheState
	}{
		{v.Fresh - 10*time.Minute, true, catalogue.CacheHit}, {17 * time.Minute, true, catalogue.CacheStale}, {0, true, catalogue.CacheStale},
		{3 * time.Second, false, catalogue.CacheMiss}, {time.Minute, false, catalogue.CacheHit}, {2 * time.Hour, false, catalogue.CacheMiss},
	} {
		now.Advance(s.after)
		c.fails.Store(s.fails)
		if got := b.facets(t, "vienna"); got != s.state {
			t.Errorf("after %s, catalogue fails %v: %s, want %s", s.after, s.fails, got, s.state)
		}
	}
	suite.Equal(t, "calls", c.calls.Load(), 4)
	now.Advance(2 * time.Hour)
	c.fails.Store(true)
	for range 3 {
		if _, err := b.FacetsOf(t.Context(), "AT", "vienna"); !errors.Is(err, catalogue.ErrUpstream) {
			t.Errorf("too old: %v", err)
		}
	}
	suite.Equal(t, "calls", c.calls.Load(), 5)
}

// TestCacheMissing checks that "not found" is cached too.
func TestCacheMissing(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(clock.System())
	c := &counted{Source: builtin.New()}
	b := newBrowsing(memory.New(now.Now, 1<<20), c, now.Now, false)
	for calls := int64(1); calls <= 2; calls++ {
		for range 3 {
			if _, err := b.FacetsOf(t.Context(), "AT", "nowhere"); !errors.Is(err, catalogue.ErrNoRegion) {
				t.Errorf("%v", err)
			}
		}
		suite.Equal(t, "calls", c.calls.Load(), calls)
		now.Advance(3 * time.Second)
	}
}

func TestCacheShared(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(clock.System())
	hot, c := memory.New(now.Now, 1<<20), &counted{Source: builtin.New()}
	a, b := newBrowsing(hot, c, now.Now, true), newBrowsing(hot, c, now.Now, true)
	suite.Equal(t, "first", a.facets(t, "vienna"), catalogue.CacheMiss)
	suite.Equal(t, "at the other process", b.facets(t, "vienna"), catalogue.CacheHit)
	for _, p := range []*browsing{a, b} {
		before := p.asked.Load()
		suite.Equal(t, "its copy", p.facets(t, "vienna"), catalogue.CacheHit)
		suite.Equal(t, "operations", p.asked.Load(), before)
	}
	now.Advance(6 * time.Second)
	before := b.asked.Load()
	suite.Equal(t, "without a copy", b.facets(t, "vienna"), catalogue.CacheHit)
	if b.asked.Load() == before {
		t.Error("a copy is used for more than 5 seconds")
	}
	suite.Equal(t, "calls", c.calls.Load(), 1)
}

// TestCacheAlone checks that a process caches on its own while hot state is unavailable. Without a local cache, it
// calls the catalogue each time.
func TestCacheAlone(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(clock.System())
	for local, want := range map[bool]catalogue.CacheState{true: catalogue.CacheHit, false: catalogue.CacheBypass} {
		c := &counted{Source: builtin.New()}
		b := newBrowsing(memory.New(now.Now, 1<<20), c, now.Now, local)
		b.away.Store(true)
		b.facets(t, "vienna")
		suite.Equal(t, "again", b.facets(t, "vienna"), want)
		c.fails.Store(true)
		if _, err := b.FacetsOf(t.Context(), "AT", "tyrol"); !errors.Is(err, catalogue.ErrUpstream) {
			t.Errorf("local %v: %v", local, err)
		}
	}
}

// TestBreaker checks that consecutive failures stop the calls for all keys.
func TestBreaker(t *testing.T) {
	t.Parallel()
	c := &counted{Source: builtin.New()}
	c.fails.Store(true)
	b := newBrowsing(memory.New(clock.System, 1<<20), c, clock.System, false)
	start := time.Now()
	for range 40 {
		for _, region := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			if _, err := b.FacetsOf(t.Context(), "AT", region); !errors.Is(err, catalogue.ErrUpstream) {
				t.Fatal(err)
			}
		}
	}
	if n, most := c.calls.Load(), 5+int64(time.Since(start)/(4*time.Second)); n < 5 || n > most {
		t.Errorf("%d calls, at most %d expected", n, most)
	}
}

// TestLeaver checks that a canceled request does not cancel the call that other requests wait for.
func TestLeaver(t *testing.T) {
	t.Parallel()
	c := &counted{Source: builtin.New(), slow: make(chan struct{})}
	b := newBrowsing(memory.New(clock.System, 1<<20), c, clock.System, false)
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := b.FacetsOf(ctx, "AT", "vienna"); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("the guest who left: %v", err)
		}
	})
	<-c.slow
	leave()
	all.Wait()
	close(c.slow)
	b.facets(t, "vienna")
	suite.Equal(t, "calls", c.calls.Load(), 1)
}

func TestQueryHash(t *testing.T) {
	t.Parallel()
	query := rapid.Custom(func(t *rapid.T) catalogue.SearchQuery {
		pick := func(name string, texts ...string) string { return rapid.SampledFrom(texts).Draw(t, name) }
		q := catalogue.SearchQuery{
			Country: pick("country", "", "AT", "at", "DE"), Region: pick("region", "", "vienna", "Vienna"), Text: pick("text", "", "a b", "a  b", "ab", "a,b"),
			Adults: rapid.IntRange(0, 3).Draw(t, "adults"), Rooms: rapid.IntRange(0, 2).Draw(t, "rooms"), Page: rapid.IntRange(0, 2).Draw(t, "page"),
			Amenities: rapid.SliceOfN(rapid.SampledFrom([]string{"pool", "wifi", "spa"}), 0, 3).Draw(t, "amenities"),
			Sort:      pick("sort", "", "recommended", "price"), Locale: pick("locale", "de", "en"), Currency: pick("currency", "EUR", "USD"), Device: pick("device", "", "mobile"),
		}
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		return q
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := query.Draw(t, "a"), query.Draw(t, "b")
		hashA, err1 := a.Hash()
		hashB, err2 := b.Hash()
		if err1 != nil || err2 != nil || (hashA == hashB) != reflect.DeepEqual(a, b) {
			t.Errorf("%+v and %+v: %s and %s", a, b, hashA, hashB)
		}
	})
	long := catalogue.SearchQuery{Text: strings.Repeat("ä", 100), Locale: "de", Currency: "EUR"}
	if err := long.Normalize(); err != nil {
		t.Error(err)
	}
}
