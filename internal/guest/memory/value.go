package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/tenants"
)

type answer struct {
	owner string // "": done
	guest.AnswerClaim
}

func answerKey(key string) string { return "idem:" + key }

// ClaimAnswer implements guest.HotAnswers.
func (h *Hot) ClaimAnswer(_ context.Context, key, owner string) (guest.AnswerClaim, error) {
	key = answerKey(key)
	s, now := h.lock(key)
	defer s.mu.Unlock()
	if e := s.get(key, now); e != nil {
		return e.value.(answer).AnswerClaim, nil
	}
	h.put(s, now, item{key, copies, answer{owner: owner}, 120, guest.ClaimLife})
	return guest.AnswerClaim{Claimed: true}, nil
}

// PutAnswer implements guest.HotAnswers.
func (h *Hot) PutAnswer(_ context.Context, key string, digest [32]byte, a guest.StoredAnswer) error {
	key = answerKey(key)
	a.Body = slices.Clone(a.Body)
	s, now := h.lock(key)
	defer s.mu.Unlock()
	h.put(s, now, item{key, copies, answer{AnswerClaim: guest.AnswerClaim{Done: true, Digest: digest, Answer: a}}, 200 + len(a.Body), guest.MutationLife})
	return nil
}

// ReleaseAnswer implements guest.HotAnswers.
func (h *Hot) ReleaseAnswer(_ context.Context, key, owner string) error {
	key = answerKey(key)
	s, now := h.lock(key)
	defer s.mu.Unlock()
	if e := s.get(key, now); e != nil && e.value.(answer).owner == owner {
		s.drop(e)
	}
	return nil
}

// DropAnswers implements guest.HotAnswers.
func (h *Hot) DropAnswers(_ context.Context, keys []string) error {
	for _, key := range keys {
		h.remove(answerKey(key))
	}
	return nil
}

type cached struct {
	value   []byte
	expires int64
	owner   string
	until   int64
}

// failed is the lock owner after FailCached.
const failed = "\x00failed"

func (h *Hot) cached(key string) (s *shard, v cached, now int64) {
	s, now = h.lock("cache:" + key)
	if e := s.get("cache:"+key, now); e != nil {
		v = e.value.(cached)
	}
	if v.expires <= now {
		v.value = nil
	}
	if v.until <= now {
		v.owner = ""
	}
	return s, v, now
}

// cache stores a value. While locked, it is evicted with the counters, not with the caches.
func (h *Hot) cache(s *shard, key string, v cached, now int64) {
	c := caches
	if v.owner != "" {
		c = counters
	}
	end := max(v.expires, v.until)
	if e := s.byKey["cache:"+key]; e != nil && (e.class != c || end <= now) {
		s.drop(e)
	}
	if end > now {
		h.put(s, now, item{"cache:" + key, c, v, 80 + len(v.value), time.Duration(end-now) * time.Microsecond})
	}
}

// Cached returns a value that callers must not change.
func (h *Hot) Cached(_ context.Context, key string) (c catalogue.CachedValue, err error) {
	s, v, now := h.cached(key)
	defer s.mu.Unlock()
	if v.value != nil {
		c.Value, c.Found, c.Left = v.value, true, time.Duration(v.expires-now)*time.Microsecond
	}
	if v.owner != "" {
		c.Locked, c.Failed = time.Duration(v.until-now)*time.Microsecond, v.owner == failed
	}
	return c, nil
}

func (v *cached) set(value []byte, now int64, life time.Duration) {
	v.value, v.expires = append([]byte{}, value...), now+life.Microseconds()
}

// PutCached implements catalogue.Hot.
func (h *Hot) PutCached(_ context.Context, key string, value []byte, life time.Duration) error {
	s, v, now := h.cached(key)
	defer s.mu.Unlock()
	v.set(value, now, life)
	h.cache(s, key, v, now)
	return nil
}

// Lock implements catalogue.Hot.
func (h *Hot) Lock(_ context.Context, key, owner string, life time.Duration) (bool, error) {
	s, v, now := h.cached(key)
	defer s.mu.Unlock()
	if v.owner != "" && v.owner != owner {
		return false, nil
	}
	v.owner, v.until = owner, now+life.Microseconds()
	h.cache(s, key, v, now)
	return true, nil
}

// Unlock implements catalogue.Hot.
func (h *Hot) Unlock(_ context.Context, key, owner string) (bool, error) {
	s, v, now := h.cached(key)
	defer s.mu.Unlock()
	if owner == "" || v.owner != owner {
		return false, nil
	}
	v.owner, v.until = "", 0
	h.cache(s, key, v, now)
	return true, nil
}

// FillCached implements catalogue.Hot.
func (h *Hot) FillCached(_ context.Context, key, owner string, value []byte, life time.Duration) (bool, error) {
	s, v, now := h.cached(key)
	defer s.mu.Unlock()
	if owner == "" || v.owner != owner {
		return false, nil
	}
	v.owner, v.until = "", 0
	v.set(value, now, life)
	h.cache(s, key, v, now)
	return true, nil
}

// FailCached implements catalogue.Hot.
func (h *Hot) FailCached(_ context.Context, key, owner string, life time.Duration) (bool, error) {
	s, v, now := h.cached(key)
	defer s.mu.Unlock()
	if owner == "" || v.owner != owner {
		return false, nil
	}
	v.owner, v.until = failed, now+life.Microseconds()
	h.cache(s, key, v, now)
	return true, nil
}

// Take implements guest.HotLimits.
func (h *Hot) Take(_ context.Context, buckets []guest.Bucket) ([]guest.Taken, error) {
	all := make([]guest.Taken, len(buckets))
	for i, b := range buckets {
		all[i] = h.take(b)
	}
	return all, nil
}

func (h *Hot) take(b guest.Bucket) guest.Taken {
	key := "rl:" + b.Key
	s, now := h.lock(key)
	defer s.mu.Unlock()
	var full int64
	if e := s.get(key, now); e != nil {
		full = e.value.(int64)
	}
	full, t := b.Limit.Take(full, now)
	if t.Allowed {
		h.put(s, now, item{key, counters, full, 16, b.Life()})
	}
	return t
}

// suspensions is the copy of all tenant states. It is never evicted.
type suspensions struct {
	mu      sync.Mutex
	known   bool
	version int64
	all     map[string]tenants.Suspension
}

// Suspended implements tenants.Hot.
func (h *Hot) Suspended(_ context.Context, tenants []string) (suspended []string, known bool, err error) {
	c := &h.suspended
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil, false, nil
	}
	for _, t := range tenants {
		if c.all[t].Suspended {
			suspended = append(suspended, t)
		}
	}
	return suspended, true, nil
}

// SuspensionVersion implements tenants.Hot.
func (h *Hot) SuspensionVersion(context.Context) (int64, bool, error) {
	c := &h.suspended
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version, c.known, nil
}

// PutSuspensions implements tenants.Hot.
func (h *Hot) PutSuspensions(_ context.Context, version int64, all []tenants.Suspension) (bool, error) {
	c := &h.suspended
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		return false, nil
	}
	c.known, c.all = true, map[string]tenants.Suspension{}
	for _, s := range all {
		c.all[s.Tenant] = s
	}
	return true, nil
}

// SetSuspension implements tenants.Hot.
func (h *Hot) SetSuspension(_ context.Context, s tenants.Suspension) error {
	c := &h.suspended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	if c.known && s.NewerThan(c.all[s.Tenant]) {
		c.all[s.Tenant] = s
	}
	return nil
}
