package hotstatetest

import (
	"crypto/sha256"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

func mirrorChecks() []check {
	return []check{
		{"Fill", fillMirror}, {"OneLease", oneLease}, {"LeaseExpires", leaseExpires}, {"Drop", dropMirror}, {"Block", blockMirror}, {"TwoWriters", twoWriters}, {"EmptyList", emptyMirror},
	}
}

func (c *client) mirror() guest.Mirror {
	c.t.Helper()
	m, err := c.Hot.Mirror(c.t.Context(), c.id)
	return must(c, m, err)
}

func (c *client) fill(wishes string) {
	c.t.Helper()
	m := c.mirror()
	if m.Lease == "" || m.Wishes != nil {
		c.t.Errorf("no lease: %+v", m)
	}
	c.ok(c.Hot.FillMirror(c.t.Context(), c.id, m.Lease, json.RawMessage(wishes)))
}

func (c *client) want(what, wishes string) {
	c.t.Helper()
	suite.Equal(c.t, what, string(c.mirror().Wishes), wishes)
}

func fillMirror(_ *testing.T, c *client) {
	c.fill(`["a b"]`)
	m := c.mirror()
	suite.Equal(c.t, "copy", string(m.Wishes), `["a b"]`)
	suite.Equal(c.t, "lease", m.Lease, "")
	if m.Filled.IsZero() {
		c.t.Error("the copy has no time")
	}
}

func emptyMirror(_ *testing.T, c *client) {
	c.fill(`[]`)
	c.want("an empty list is a copy", `[]`)
}

func oneLease(_ *testing.T, c *client) {
	var leases atomic.Int64
	c.concurrently(10, func(int) {
		if c.mirror().Lease != "" {
			leases.Add(1)
		}
	})
	suite.Equal(c.t, "leases", leases.Load(), 1)
}

func leaseExpires(_ *testing.T, c *client) {
	old := c.mirror().Lease
	c.Pass(c.t, guest.LeaseLife+time.Second)
	c.ok(c.Hot.FillMirror(c.t.Context(), c.id, old, json.RawMessage(`["old"]`)))
	next := c.mirror()
	if next.Lease == "" || next.Wishes != nil {
		c.t.Errorf("after the lease: %+v", next)
	}
	c.ok(c.Hot.FillMirror(c.t.Context(), c.id, old, json.RawMessage(`["old"]`)))
	c.ok(c.Hot.FillMirror(c.t.Context(), c.id, next.Lease, json.RawMessage(`["new"]`)))
	c.want("the new one", `["new"]`)
	c.ok(c.Hot.FillMirror(c.t.Context(), c.id, next.Lease, json.RawMessage(`["twice"]`)))
	c.want("a lease is for once", `["new"]`)
}

func dropMirror(_ *testing.T, c *client) {
	lease := c.mirror().Lease
	c.ok(c.Hot.DropMirror(c.t.Context(), c.id))
	c.ok(c.Hot.FillMirror(c.t.Context(), c.id, lease, json.RawMessage(`["old"]`)))
	c.fill(`["new"]`)
	c.ok(c.Hot.DropMirror(c.t.Context(), c.id))
	c.want("dropped", "")
}

func blockMirror(_ *testing.T, c *client) {
	c.fill(`["old"]`)
	lease := c.mirror().Lease
	c.ok(c.Hot.BlockMirror(c.t.Context(), c.id))
	m := c.mirror()
	suite.Equal(c.t, "blocked", m, guest.Mirror{})
	for _, lease := range []string{lease, ""} {
		c.ok(c.Hot.FillMirror(c.t.Context(), c.id, lease, json.RawMessage(`["old"]`)))
	}
	c.want("blocked", "")
	c.session(guest.Change{}) // using the session does not extend blocks
	c.Pass(c.t, guest.BlockLife+time.Second)
	c.fill(`["new"]`)
	c.ok(c.Hot.BlockMirror(c.t.Context(), c.id))
	c.ok(c.Hot.UnblockMirror(c.t.Context(), c.id))
	c.fill(`["newer"]`)
	c.want("after the change", `["newer"]`)
	c.ok(c.Hot.UnblockMirror(c.t.Context(), c.id)) // this block was lost
	c.fill(`["newest"]`)
	c.want("without a block", `["newest"]`)
}

// twoWriters checks that no copy exists while two tabs change a wishlist, in whatever order they finish. A writer
// that is killed after its change leaves no copy either, and blocks for a minute.
func twoWriters(_ *testing.T, c *client) {
	block, unblock := func() { c.ok(c.Hot.BlockMirror(c.t.Context(), c.id)) }, func() { c.ok(c.Hot.UnblockMirror(c.t.Context(), c.id)) }
	c.fill(`["old"]`)
	block()
	block()
	unblock()
	suite.Equal(c.t, "one has ended", c.mirror(), guest.Mirror{})
	c.ok(c.Hot.DropMirror(c.t.Context(), c.id))
	suite.Equal(c.t, "dropped while it is blocked", c.mirror(), guest.Mirror{})
	c.ok(c.Hot.DropSession(c.t.Context(), c.id, nil))
	suite.Equal(c.t, "cleared while it is blocked", c.mirror(), guest.Mirror{})
	block()
	unblock()
	suite.Equal(c.t, "another one has ended", c.mirror(), guest.Mirror{})
	c.Pass(c.t, guest.BlockLife+time.Second)
	c.fill(`["new"]`)
	block()
	block()
	unblock()
	unblock()
	c.fill(`["newer"]`)
	c.want("both have ended", `["newer"]`)
}

func answerChecks() []check {
	return []check{{"Claim", claim}, {"ClaimOnce", claimOnce}, {"Release", release}, {"Put", putAnswer}, {"Drop", dropAnswers}}
}

func (c *client) claim(key, owner string) guest.AnswerClaim {
	c.t.Helper()
	a, err := c.Hot.ClaimAnswer(c.t.Context(), key, owner)
	return must(c, a, err)
}

func claim(_ *testing.T, c *client) {
	k := key()
	suite.Equal(c.t, "first", c.claim(k, "a").Claimed, true)
	suite.Equal(c.t, "second", c.claim(k, "b"), guest.AnswerClaim{})
	suite.Equal(c.t, "the owner again", c.claim(k, "a"), guest.AnswerClaim{})
	c.Pass(c.t, guest.ClaimLife+time.Second)
	suite.Equal(c.t, "expired", c.claim(k, "b").Claimed, true)
}

func claimOnce(_ *testing.T, c *client) {
	var won atomic.Int64
	k := key()
	c.concurrently(20, func(int) {
		if c.claim(k, ident.New()).Claimed {
			won.Add(1)
		}
	})
	suite.Equal(c.t, "winners", won.Load(), 1)
}

func release(_ *testing.T, c *client) {
	k := key()
	c.claim(k, "a")
	c.ok(c.Hot.ReleaseAnswer(c.t.Context(), k, "b"))
	suite.Equal(c.t, "released by another", c.claim(k, "b").Claimed, false)
	c.ok(c.Hot.ReleaseAnswer(c.t.Context(), k, "a"))
	suite.Equal(c.t, "released", c.claim(k, "b").Claimed, true)
	c.ok(c.Hot.ReleaseAnswer(c.t.Context(), key(), "a"))
}

func putAnswer(_ *testing.T, c *client) {
	for _, a := range []guest.StoredAnswer{
		{Version: 201, Body: []byte("{\"a\": 1.00}\n\x00\xff")},
		{Version: 204},
		{Version: 1, Body: []byte(`{"a":1}`)},
	} {
		k, digest := key(), sha256.Sum256([]byte("request"))
		c.claim(k, "a")
		c.ok(c.Hot.PutAnswer(c.t.Context(), k, digest, a))
		got := c.claim(k, "b")
		if string(got.Answer.Body) != string(a.Body) {
			c.t.Errorf("body %q, want %q", got.Answer.Body, a.Body)
		}
		got.Answer.Body, a.Body = nil, nil
		suite.Equal(c.t, "answer", got, guest.AnswerClaim{Done: true, Digest: digest, Answer: a})
		c.ok(c.Hot.ReleaseAnswer(c.t.Context(), k, "a"))
		suite.Equal(c.t, "an answer is not released", c.claim(k, "b").Done, true)
		c.Pass(c.t, 23*time.Hour)
		suite.Equal(c.t, "after 23 hours", c.claim(k, "b").Done, true)
		c.Pass(c.t, 2*time.Hour)
		suite.Equal(c.t, "after 25 hours", c.claim(k, "b").Claimed, true)
	}
}

func dropAnswers(_ *testing.T, c *client) {
	a, b, other := key(), key(), key()
	for _, k := range []string{a, b, other} {
		c.ok(c.Hot.PutAnswer(c.t.Context(), k, [32]byte{1}, guest.StoredAnswer{Version: 204}))
	}
	c.ok(c.Hot.DropAnswers(c.t.Context(), []string{a, b, key()}))
	suite.Equal(c.t, "dropped", c.claim(a, "x").Claimed && c.claim(b, "x").Claimed, true)
	suite.Equal(c.t, "another", c.claim(other, "x").Done, true)
	c.ok(c.Hot.DropAnswers(c.t.Context(), nil))
}

func cacheChecks() []check {
	return []check{{"Values", cachedValues}, {"Lock", lock}, {"LockOnce", lockOnce}, {"Fill", fillCached}, {"Fail", failCached}, {"Lives", cachedLives}}
}

func (c *client) cached(key string) string {
	c.t.Helper()
	v := c.cachedValue(key)
	if !v.Found {
		return "missing"
	}
	return string(v.Value)
}

func cachedValues(_ *testing.T, c *client) {
	k := "cache:" + key() + ":{de}:%"
	suite.Equal(c.t, "new", c.cached(k), "missing")
	c.ok(c.Hot.PutCached(c.t.Context(), k, []byte("a\x00\xff"), time.Minute))
	suite.Equal(c.t, "put", c.cached(k), "a\x00\xff")
	c.ok(c.Hot.PutCached(c.t.Context(), k, nil, time.Minute))
	suite.Equal(c.t, "empty", c.cached(k), "")
	suite.Equal(c.t, "another key", c.cached(k+"x"), "missing")
	c.Pass(c.t, 2*time.Minute)
	suite.Equal(c.t, "expired", c.cached(k), "missing")
}

func lock(_ *testing.T, c *client) {
	ctx, k := c.t.Context(), key()
	try := func(owner string) bool {
		c.t.Helper()
		locked, err := c.Hot.Lock(ctx, k, owner, 5*time.Second)
		return must(c, locked, err)
	}
	unlock := func(owner string) bool {
		c.t.Helper()
		had, err := c.Hot.Unlock(ctx, k, owner)
		return must(c, had, err)
	}
	suite.Equal(c.t, "unlock what is not locked", unlock("a"), false)
	suite.Equal(c.t, "first", try("a"), true)
	suite.Equal(c.t, "second", try("b"), false)
	c.Pass(c.t, 3*time.Second)
	suite.Equal(c.t, "extended", try("a"), true)
	c.Pass(c.t, 3*time.Second)
	suite.Equal(c.t, "still locked", try("b"), false)
	suite.Equal(c.t, "unlock by another", unlock("b"), false)
	suite.Equal(c.t, "still locked", try("b"), false)
	suite.Equal(c.t, "unlock", unlock("a"), true)
	suite.Equal(c.t, "unlock twice", unlock("a"), false)
	suite.Equal(c.t, "locked by another", try("b"), true)
	c.Pass(c.t, 6*time.Second)
	suite.Equal(c.t, "unlock after the end", unlock("b"), false)
	suite.Equal(c.t, "locked after the end", try("a"), true)
	suite.Equal(c.t, "a lock is not a value", c.cached(k), "missing")
}

func lockOnce(_ *testing.T, c *client) {
	var won atomic.Int64
	k := key()
	c.concurrently(20, func(int) {
		locked, err := c.Hot.Lock(c.t.Context(), k, ident.New(), time.Minute)
		if must(c, locked, err) {
			won.Add(1)
		}
	})
	suite.Equal(c.t, "winners", won.Load(), 1)
}

func fillCached(_ *testing.T, c *client) {
	ctx, k := c.t.Context(), key()
	fill := func(owner, value string) bool {
		c.t.Helper()
		stored, err := c.Hot.FillCached(ctx, k, owner, []byte(value), time.Minute)
		return must(c, stored, err)
	}
	lock := func(owner string) bool {
		c.t.Helper()
		locked, err := c.Hot.Lock(ctx, k, owner, 5*time.Second)
		return must(c, locked, err)
	}
	suite.Equal(c.t, "without a lock", fill("a", "1"), false)
	lock("a")
	suite.Equal(c.t, "by another", fill("b", "1"), false)
	suite.Equal(c.t, "not stored", c.cached(k), "missing")
	suite.Equal(c.t, "by the owner", fill("a", "2"), true)
	suite.Equal(c.t, "stored", c.cached(k), "2")
	suite.Equal(c.t, "unlocked", lock("b"), true)
	suite.Equal(c.t, "locking keeps the value", c.cached(k), "2")
	c.Pass(c.t, 6*time.Second)
	suite.Equal(c.t, "too late", fill("b", "3"), false)
	suite.Equal(c.t, "kept", c.cached(k), "2")
}

func (c *client) cachedValue(key string) catalogue.CachedValue {
	c.t.Helper()
	v, err := c.Hot.Cached(c.t.Context(), key)
	return must(c, v, err)
}

func failCached(_ *testing.T, c *client) {
	ctx, k := c.t.Context(), key()
	lock := func(owner string) bool {
		c.t.Helper()
		locked, err := c.Hot.Lock(ctx, k, owner, 5*time.Second)
		return must(c, locked, err)
	}
	fail := func(owner string) bool {
		c.t.Helper()
		marked, err := c.Hot.FailCached(ctx, k, owner, time.Minute)
		return must(c, marked, err)
	}
	suite.Equal(c.t, "without a lock", fail("a"), false)
	c.ok(c.Hot.PutCached(ctx, k, []byte("old"), time.Hour))
	lock("a")
	suite.Equal(c.t, "by another", fail("b"), false)
	suite.Equal(c.t, "not failed", c.cachedValue(k).Failed, false)
	suite.Equal(c.t, "by the owner", fail("a"), true)
	for _, owner := range []string{"a", "b"} {
		suite.Equal(c.t, "lock", lock(owner), false)
		suite.Equal(c.t, "fail again", fail(owner), false)
		had, err := c.Hot.Unlock(ctx, k, owner)
		suite.Equal(c.t, "unlock", must(c, had, err), false)
		stored, err := c.Hot.FillCached(ctx, k, owner, []byte("new"), time.Minute)
		suite.Equal(c.t, "fill", must(c, stored, err), false)
	}
	v := c.cachedValue(k)
	if string(v.Value) != "old" || !v.Failed || v.Locked <= 0 || v.Locked > time.Minute {
		c.t.Errorf("after a failure: %+v", v)
	}
	c.Pass(c.t, 2*time.Minute)
	suite.Equal(c.t, "the mark expires", c.cachedValue(k).Failed, false)
	suite.Equal(c.t, "lock after it", lock("b"), true)
}

func cachedLives(_ *testing.T, c *client) {
	ctx, k := c.t.Context(), key()
	suite.Equal(c.t, "new", c.cachedValue(k).Locked, time.Duration(0))
	c.ok(c.Hot.PutCached(ctx, k, []byte("v"), time.Hour))
	locked, err := c.Hot.Lock(ctx, k, "a", 30*time.Minute)
	suite.Equal(c.t, "locked", must(c, locked, err), true)
	c.Pass(c.t, 10*time.Minute)
	v := c.cachedValue(k)
	if v.Left > 50*time.Minute || v.Left < 40*time.Minute || v.Locked > 20*time.Minute || v.Locked < 10*time.Minute || v.Failed {
		c.t.Errorf("ten minutes later: %+v", v)
	}
	c.Pass(c.t, 25*time.Minute)
	v = c.cachedValue(k)
	if v.Left > 25*time.Minute || v.Left < 15*time.Minute || v.Locked != 0 {
		c.t.Errorf("after the lock: %+v", v)
	}
}
