package hotstatetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/suite"
)

func limitChecks() []check {
	return []check{
		{"Burst", burst}, {"Refill", refill}, {"SlowBucketIsKept", slowBucket}, {"SeveralBuckets", severalBuckets}, {"Bound", bound},
	}
}

func (c *client) take(b guest.Bucket) guest.Taken {
	c.t.Helper()
	all, err := c.Hot.Take(c.t.Context(), []guest.Bucket{b})
	return must(c, all, err)[0]
}

func burst(_ *testing.T, c *client) {
	b := guest.Bucket{Key: key(), Limit: guest.Limit{Events: 60, Per: time.Hour, Burst: 3}}
	for left := 2; left >= 0; left-- {
		taken := c.take(b)
		if !taken.Allowed || taken.Remaining != left || taken.Retry != 0 || taken.Reset > time.Duration(3-left)*time.Minute || taken.Reset < time.Duration(3-left)*time.Minute-30*time.Second {
			c.t.Errorf("with %d left: %+v", left, taken)
		}
	}
	for range 3 { // refusals cost nothing
		taken := c.take(b)
		if taken.Allowed || taken.Remaining != 0 || taken.Retry > time.Minute || taken.Retry < 30*time.Second {
			c.t.Errorf("empty: %+v", taken)
		}
	}
	if other := c.take(guest.Bucket{Key: key(), Limit: b.Limit}); !other.Allowed {
		c.t.Errorf("another bucket: %+v", other)
	}
}

func refill(_ *testing.T, c *client) {
	b := guest.Bucket{Key: key(), Limit: guest.Limit{Events: 20, Per: time.Second, Burst: 1}}
	c.take(b)
	c.Wait(60 * time.Millisecond)
	if taken := c.take(b); !taken.Allowed {
		c.t.Errorf("after 60 ms: %+v", taken)
	}
}

func slowBucket(_ *testing.T, c *client) {
	b := guest.Bucket{Key: key(), Limit: guest.Limit{Events: 1, Per: time.Hour, Burst: 2}}
	c.take(b)
	c.take(b)
	c.Pass(c.t, 2*time.Minute)
	if taken := c.take(b); taken.Allowed {
		c.t.Errorf("two minutes later: %+v", taken)
	}
}

func severalBuckets(_ *testing.T, c *client) {
	limit := guest.Limit{Events: 1, Per: time.Hour, Burst: 1}
	a, b := guest.Bucket{Key: key(), Limit: limit}, guest.Bucket{Key: key(), Limit: limit}
	c.take(b)
	all, err := c.Hot.Take(c.t.Context(), []guest.Bucket{a, b})
	c.ok(err)
	if len(all) != 2 || !all[0].Allowed || all[1].Allowed {
		c.t.Errorf("taken %+v", all)
	}
	suite.Equal(c.t, "the first has lost its token", c.take(a).Allowed, false)
}

func bound(_ *testing.T, c *client) {
	limit := guest.Limit{Events: 100, Per: time.Second, Burst: 10}
	b := guest.Bucket{Key: key(), Limit: limit}
	var admitted atomic.Int64
	start := time.Now()
	c.concurrently(8, func(int) {
		for range 40 {
			if c.take(b).Allowed {
				admitted.Add(1)
			}
		}
	})
	most := int64(limit.Burst) + int64(time.Since(start).Seconds()*100) + 1
	if n := admitted.Load(); n > most || n < int64(limit.Burst) {
		c.t.Errorf("%d admitted, at most %d expected", n, most)
	}
}

func suspensionChecks() []check {
	return []check{
		{"Lost", suspensionsLost}, {"Put", putSuspensions}, {"Set", setSuspension}, {"Version", suspensionVersion}, {"Late", lateSuspension},
		{"OneTime", suspensionsOfOneTime},
	}
}

const (
	tenantA = "11111111-2222-4333-8444-555555555555"
	tenantB = "22222222-2222-4333-8444-555555555555"
)

func suspension(tenant string, suspended bool, seconds int) tenants.Suspension {
	return tenants.Suspension{Tenant: tenant, Suspended: suspended, At: time.Unix(1_790_000_000+int64(seconds), 123_000).UTC()}
}

func (c *client) suspended() []string {
	c.t.Helper()
	all, known, err := c.Hot.Suspended(c.t.Context(), []string{tenantA, tenantB})
	c.ok(err)
	if !known {
		if len(all) > 0 {
			c.t.Errorf("%v of a copy that is not known", all)
		}
		return []string{"unknown"}
	}
	return all
}

func (c *client) version() int64 {
	c.t.Helper()
	v, _, err := c.Hot.SuspensionVersion(c.t.Context())
	return must(c, v, err)
}

func (c *client) putSuspensions(version int64, all ...tenants.Suspension) bool {
	c.t.Helper()
	put, err := c.Hot.PutSuspensions(c.t.Context(), version, all)
	return must(c, put, err)
}

// suspensionsLost checks that a missing copy is reported as unknown (invariant 27).
func suspensionsLost(_ *testing.T, c *client) {
	suite.Equal(c.t, "new", c.suspended(), []string{"unknown"})
	c.ok(c.Hot.SetSuspension(c.t.Context(), suspension(tenantA, true, 1)))
	suite.Equal(c.t, "after an event", c.suspended(), []string{"unknown"})
	suite.Equal(c.t, "put", c.putSuspensions(c.version()), true)
	suite.Equal(c.t, "nobody is suspended", c.suspended(), nil)
}

func putSuspensions(_ *testing.T, c *client) {
	c.putSuspensions(c.version(), suspension(tenantA, true, 1), suspension(tenantB, true, 1))
	suite.Equal(c.t, "both", c.suspended(), []string{tenantA, tenantB})
	c.putSuspensions(c.version(), suspension(tenantA, false, 2), suspension(tenantB, true, 1))
	suite.Equal(c.t, "one", c.suspended(), []string{tenantB})
	c.putSuspensions(c.version())
	suite.Equal(c.t, "none", c.suspended(), nil)
}

func setSuspension(_ *testing.T, c *client) {
	c.putSuspensions(c.version())
	for _, step := range []struct {
		s    tenants.Suspension
		want bool
	}{
		{suspension(tenantA, true, 5), true},
		{suspension(tenantA, false, 4), true},
		{suspension(tenantA, false, 6), false},
		{suspension(tenantA, true, 5), false},
		{suspension(tenantA, true, 7), true},
	} {
		c.ok(c.Hot.SetSuspension(c.t.Context(), step.s))
		suite.Equal(c.t, fmt.Sprint("after ", step.s), len(c.suspended()) == 1, step.want)
	}
	c.Pass(c.t, 1000*day)
	suite.Equal(c.t, "it does not expire", c.suspended(), []string{tenantA})
}

// lateSuspension checks that a late event changes nothing: the copy includes reinstated tenants.
func lateSuspension(_ *testing.T, c *client) {
	c.putSuspensions(c.version())
	c.ok(c.Hot.SetSuspension(c.t.Context(), suspension(tenantA, false, 9)))
	suite.Equal(c.t, "put", c.putSuspensions(c.version(), suspension(tenantA, false, 9), suspension(tenantB, false, 9)), true)
	for _, tenant := range []string{tenantA, tenantB} {
		c.ok(c.Hot.SetSuspension(c.t.Context(), suspension(tenant, true, 8)))
	}
	suite.Equal(c.t, "after older events", c.suspended(), nil)
	c.ok(c.Hot.SetSuspension(c.t.Context(), suspension(tenantB, true, 10)))
	suite.Equal(c.t, "after a newer one", c.suspended(), []string{tenantB})
}

// suspensionsOfOneTime checks that the greater ID wins between events at the same time, compared as bytes.
func suspensionsOfOneTime(_ *testing.T, c *client) {
	c.putSuspensions(c.version())
	for _, step := range []struct {
		event string
		want  bool
	}{{"b", true}, {"a", true}, {"b", true}, {"ba", false}, {"C", false}, {"\u00e4", true}, {"z", true}} {
		s := suspension(tenantA, step.event != "a" && step.event != "ba", 1)
		s.Event = step.event
		c.ok(c.Hot.SetSuspension(c.t.Context(), s))
		suite.Equal(c.t, "after "+step.event, len(c.suspended()) == 1, step.want)
	}
}

func suspensionVersion(_ *testing.T, c *client) {
	v := c.version()
	c.ok(c.Hot.SetSuspension(c.t.Context(), suspension(tenantA, true, 1)))
	suite.Equal(c.t, "lost, and changed", c.putSuspensions(v), false)
	suite.Equal(c.t, "unknown", c.suspended(), []string{"unknown"})
	c.putSuspensions(c.version())
	v = c.version()
	c.ok(c.Hot.SetSuspension(c.t.Context(), suspension(tenantA, true, 2)))
	suite.Equal(c.t, "changed", c.putSuspensions(v), false)
	suite.Equal(c.t, "the change stays", c.suspended(), []string{tenantA})
}
