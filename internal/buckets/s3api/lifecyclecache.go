package s3api

import (
	"sync"
	"time"

	"holdfast/internal/buckets"
)

// lifecycleCache holds lifecycle rules for writes by name, which do not read the bucket's settings. The expiration
// headers in their responses may be a few seconds out of date.
type lifecycleCache struct {
	mu    sync.Mutex
	rules map[lifecycleKey]seenLifecycle
	size  int // memory in bytes
}

type lifecycleKey struct {
	owner  buckets.AccountID
	bucket string
}

type seenLifecycle struct {
	lifecycle buckets.Lifecycle
	until     time.Time
	size      int
}

// lifecycleAge is how long rules are cached.
const lifecycleAge = 10 * time.Second

// get returns the bucket's rules, or none while the database is unavailable.
func (c *lifecycleCache) get(x *request) *buckets.Lifecycle {
	key, now := lifecycleKey{x.owner, x.route.bucket}, time.Now()
	c.mu.Lock()
	seen, ok := c.rules[key]
	c.mu.Unlock()
	if ok && now.Before(seen.until) {
		return &seen.lifecycle
	}
	b, err := x.Service.Bucket(x.in.Context(), x.owner, x.route.bucket)
	if err != nil {
		return &buckets.Lifecycle{}
	}
	seen = seenLifecycle{b.Settings.Lifecycle, now.Add(lifecycleAge), b.Memory()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size -= c.rules[key].size
	delete(c.rules, key)
	if c.rules == nil || len(c.rules) >= cachedRules || c.size+seen.size > cachedRuleBytes {
		c.rules, c.size = map[lifecycleKey]seenLifecycle{}, 0
	}
	c.rules[key] = seen
	c.size += seen.size
	return &seen.lifecycle
}

// forget makes this process see its own changes at once.
func (c *lifecycleCache) forget(owner buckets.AccountID, bucket string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := lifecycleKey{owner, bucket}
	c.size -= c.rules[key].size
	delete(c.rules, key)
}
