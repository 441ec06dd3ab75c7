package httpapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
)

func TestRates(t *testing.T) {
	t.Parallel()
	s := start(t, setup{rates: &ext.Rates{Reads: 60, ReadBurst: 3, Writes: 60, WriteBurst: 2, Tenant: 1000, TenantBurst: 1000}})
	c := s.install(t)
	limits := func(a *answer, limit, remaining, reset string) *answer {
		t.Helper()
		return a.has("RateLimit-Limit", limit).has("RateLimit-Remaining", remaining).has("RateLimit-Reset", reset)
	}
	// Only requests with a valid token count.
	c.with("").get(records).is(http.StatusUnauthorized).has("RateLimit-Limit", "")
	c.get("/ext/v1/installs/33333333-3333-4333-8333-333333333333/usage").is(http.StatusForbidden).has("RateLimit-Limit", "")
	c.get("/nothing").is(http.StatusNotFound).has("RateLimit-Limit", "")

	limits(c.put("k", `{"value":1}`).is(http.StatusCreated), "2", "1", "1")
	limits(c.put("k", `{}`).is(http.StatusBadRequest), "2", "0", "2") // invalid requests count too
	limits(c.put("k", `{"value":2}`).fails(429, "RATE_LIMITED"), "2", "0", "2").has("Retry-After", "1")
	c.delete("k").fails(429, "RATE_LIMITED")
	c.put("a%2Fb", `x`, "Content-Type: text/plain").fails(429, "RATE_LIMITED") // refused before validation
	limits(c.get(records+"/k").is(http.StatusOK).says(`{"value":1}`), "3", "2", "1")
	c.do(http.MethodHead, records+"/k", "").is(http.StatusOK)
	c.post("/namespaces/a/schemas/check", `{"schema":true}`).is(http.StatusOK) // counts as a read
	limits(c.get(records).fails(429, "RATE_LIMITED"), "3", "0", "3").has("Retry-After", "1")
	limits(s.installOf(t, c.tenant).get(records).is(http.StatusOK), "3", "2", "1")

	s.clock.Advance(time.Second)
	c.put("k", `{"value":2}`).is(http.StatusOK)
	c.get(records).is(http.StatusOK)
	c.get(records).fails(429, "RATE_LIMITED")
}

// TestTenantsRate checks that a tenant's installs share a rate, that a request over its install's rate does not count
// for the tenant, and that the headers show the closer limit.
func TestTenantsRate(t *testing.T) {
	t.Parallel()
	s := start(t, setup{rates: &ext.Rates{Reads: 60, ReadBurst: 3, Writes: 60, WriteBurst: 3, Tenant: 2, TenantBurst: 5}})
	one := s.install(t)
	two, three := s.installOf(t, one.tenant), s.installOf(t, one.tenant)
	for left := range 3 {
		one.get("/usage").is(http.StatusOK).has("RateLimit-Limit", "3").has("RateLimit-Remaining", strconv.Itoa(2-left))
	}
	for range 5 {
		one.get("/usage").fails(429, "RATE_LIMITED").has("RateLimit-Limit", "3")
	}
	two.get("/usage").is(http.StatusOK).has("RateLimit-Limit", "5").has("RateLimit-Remaining", "0").has("RateLimit-Reset", "2")
	two.put("k", `{"value":1}`).fails(429, "RATE_LIMITED").has("RateLimit-Limit", "5").has("RateLimit-Remaining", "0") // the rest is reserved for new installs
	three.get("/usage").is(http.StatusOK).has("RateLimit-Limit", "5").has("RateLimit-Remaining", "0")
	four := s.installOf(t, one.tenant)
	four.get("/usage").fails(429, "RATE_LIMITED").has("RateLimit-Limit", "5").has("RateLimit-Remaining", "0").has("RateLimit-Reset", "3").has("Retry-After", "1")
	s.install(t).get("/usage").is(http.StatusOK)
	s.clock.Advance(500 * time.Millisecond)
	four.get("/usage").is(http.StatusOK).has("RateLimit-Limit", "5").has("RateLimit-Remaining", "0") // refused requests do not count
	s.clock.Advance(time.Hour)
	three.get("/usage").is(http.StatusOK).has("RateLimit-Limit", "3").has("RateLimit-Remaining", "2")
}

// TestDefaultRates checks that by default an install may use its full bursts, while other installs of its tenant still
// get most of theirs.
func TestDefaultRates(t *testing.T) {
	t.Parallel()
	rates := ext.DefaultConfig().Rates
	s := start(t, setup{rates: &rates})
	one := s.install(t)
	use := func(c *client) (reads, writes int) {
		for c.get("/namespaces").status == http.StatusOK {
			reads++
		}
		for c.delete("k").status == http.StatusNoContent {
			writes++
		}
		return reads, writes
	}
	if reads, writes := use(one); reads != rates.ReadBurst || writes != rates.WriteBurst {
		t.Errorf("it may read %d and write %d times at once", reads, writes)
	}
	one.get("/namespaces").fails(429, "RATE_LIMITED").has("RateLimit-Limit", strconv.Itoa(rates.ReadBurst))
	two := s.installOf(t, one.tenant)
	if reads, writes := use(two); reads+writes < 300 {
		t.Errorf("another may read %d and write %d times at once", reads, writes)
	}
	// For a minute, two installs send requests continuously, and a third install sends a few.
	three, refused := s.installOf(t, one.tenant), 0
	for range 60 {
		s.clock.Advance(time.Second)
		use(one)
		use(two)
		for range 3 {
			if three.get("/namespaces").status != http.StatusOK {
				refused++
			}
		}
	}
	if refused > 0 {
		t.Errorf("the third was refused %d times", refused)
	}
}

func TestNoRates(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for range 500 {
		if a := c.get("/usage").is(http.StatusOK); a.header.Get("RateLimit-Limit") != "" {
			t.Fatalf("there is a limit: %v", a.header)
		}
	}
}
