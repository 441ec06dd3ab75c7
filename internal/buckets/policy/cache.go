package policy

import (
	"maps"
	"sync"

	"holdfast/internal/buckets"
)

// Cache holds parsed policies. The zero value is empty and safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	all   map[buckets.BucketID]cached
	bytes int // total size of the documents
}

// cached is a parsed policy with the stored form that it came from.
type cached struct {
	stored buckets.Policy
	policy *Policy
}

const (
	// Limits; a full cache is emptied.
	cachedPolicies    = 1000
	cachedPolicyBytes = 1 << 20 // total size of the documents
)

// Of returns the bucket's parsed policy, or nil without a policy. A changed document or account is parsed again, so
// entries are never stale.
func (c *Cache) Of(b *buckets.Bucket) *Policy {
	stored := b.Settings.Policy
	if stored.IsZero() {
		return nil
	}
	c.mu.Lock()
	entry, ok := c.all[b.ID]
	c.mu.Unlock()
	if ok && entry.stored.Document == stored.Document && maps.Equal(entry.stored.Accounts, stored.Accounts) {
		return entry.policy
	}
	p := Load(stored, b.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += len(stored.Document) - len(c.all[b.ID].stored.Document)
	if c.all == nil || len(c.all) == cachedPolicies || c.bytes > cachedPolicyBytes {
		c.all, c.bytes = map[buckets.BucketID]cached{}, len(stored.Document)
	}
	c.all[b.ID] = cached{stored, p}
	return p
}

// Len returns how many policies are cached, for tests and metrics.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}
