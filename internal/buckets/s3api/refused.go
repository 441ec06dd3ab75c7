package s3api

import (
	"errors"
	"net/http"
	"sync"

	"holdfast/internal/auth/sigv4"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
	"holdfast/internal/web"
)

// allowRefused adds CORS headers to errors that occur before the bucket lookup, e.g. for an expired signature.
// Otherwise browsers hide the cause from the page.
func (x *request) allowRefused(cause error) {
	if x.originDecided || x.in.Header.Get("Origin") == "" || x.in.Method == http.MethodOptions || x.route.bucket == "" {
		return
	}
	x.allowBy(x.rulesOfRefused(cause))
}

// rulesOfRefused uses a slot at lower priority. If it gets no slot or the database is unavailable, it returns the
// rules last seen.
func (x *request) rulesOfRefused(cause error) (rules []buckets.CORSRule) {
	if !errors.Is(cause, fairshare.ErrFull) && !errcode.Is(cause, errcode.Unavailable) && web.AcquireSlot(x.in) == nil {
		named, err := x.possibleBuckets()
		if err == nil {
			for i := range named {
				rules = append(rules, named[i].Settings.CORS...)
			}
			return rules
		}
		if errors.Is(err, buckets.ErrNoBucket) {
			return nil
		}
	}
	id := x.keyID()
	if rules, ok := x.rules.get(x.ruleKey(id)); ok || id == "" {
		return rules
	}
	rules, _ = x.rules.get(x.ruleKey(""))
	return rules
}

// maxNamesakes limits how many buckets with the same name a preflight reads.
const maxNamesakes = 20

// possibleBuckets returns the buckets that a preflight or a refused request may mean. If it has an access key, even in
// the query of a presigned URL and with a wrong signature, the key's account decides. Otherwise the request that
// follows a preflight may be signed by any account, so a plain name means all buckets with this name. No bucket can
// prevent requests to another one by rules that allow less: that request is decided by the rules of its own bucket.
func (x *request) possibleBuckets() ([]buckets.Bucket, error) {
	other := *x
	other.object = found{}
	if x.signed == nil {
		if id := x.keyID(); id != "" && x.account.ID == "" {
			c, _, _ := x.Keys.Find(x.in.Context(), id)
			other.account = c.Account
		}
		if other.account.ID != "" {
			other.signed = &sigv4.Signed{}
		}
	}
	if other.signed != nil || x.route.account != "" {
		err := other.findBucket()
		if !errors.Is(err, buckets.ErrNoBucket) || x.signed != nil || x.route.account != "" {
			return []buckets.Bucket{other.bucket}, err
		}
	}
	if known, err := other.bucketOfLabels(); known || !errors.Is(err, buckets.ErrNoBucket) {
		return []buckets.Bucket{other.bucket}, err
	}
	if buckets.CheckBucketName(x.route.bucket) != nil {
		return nil, buckets.ErrNoBucket
	}
	return x.Service.BucketsWithCORS(x.in.Context(), x.route.bucket, maxNamesakes)
}

// keyID returns the claimed access key, even if the signature is wrong.
func (x *request) keyID() string {
	if x.signed != nil {
		return x.signed.AccessKeyID
	}
	return sigv4.FromHTTP(x.in).ClaimedKeyID()
}

// ruleKey identifies a bucket as a request addresses it. Which bucket a path means depends on the signer.
type ruleKey struct {
	keyID, account, bucket string
	hosted                 bool
}

// ruleKey returns the cache key for this request.
func (x *request) ruleKey(keyID string) ruleKey {
	return ruleKey{keyID, x.route.account, x.route.bucket, x.hosted}
}

// ruleCache holds the CORS rules last seen. Entries do not expire, because only rejections use them, while the database
// is unavailable.
type ruleCache struct {
	mu    sync.Mutex
	rules map[ruleKey]seenRules
	size  int // memory in bytes
}

type seenRules struct {
	bucket buckets.BucketID
	rules  []buckets.CORSRule
	size   int
}

const (
	cachedRules     = 1000 // buckets
	cachedRuleBytes = 4 << 20
)

// get returns the rules last seen.
func (c *ruleCache) get(k ruleKey) ([]buckets.CORSRule, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, ok := c.rules[k]
	return seen.rules, ok
}

// set replaces the rules. A full cache is emptied.
func (c *ruleCache) set(k ruleKey, b buckets.Bucket) {
	seen := seenRules{b.ID, b.Settings.CORS, sizeOfRules(b.Settings.CORS)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size -= c.rules[k].size
	delete(c.rules, k)
	if len(seen.rules) == 0 || seen.size > cachedRuleBytes {
		return
	}
	if c.rules == nil || len(c.rules) == cachedRules || c.size+seen.size > cachedRuleBytes {
		c.rules, c.size = map[ruleKey]seenRules{}, 0
	}
	c.rules[k] = seen
	c.size += seen.size
}

// forget drops a bucket under all its addresses.
func (c *ruleCache) forget(id buckets.BucketID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, seen := range c.rules {
		if seen.bucket == id {
			c.size -= seen.size
			delete(c.rules, k)
		}
	}
}

// sizeOfRules estimates memory in bytes.
func sizeOfRules(rules []buckets.CORSRule) (n int) {
	const header = 16
	for i := range rules {
		r := &rules[i]
		n += 8*header + len(r.ID)
		for _, list := range [][]string{r.AllowedOrigins, r.AllowedMethods, r.AllowedHeaders, r.ExposeHeaders} {
			for _, s := range list {
				n += header + len(s)
			}
		}
	}
	return n
}
