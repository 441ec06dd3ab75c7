package handoffs_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/tenants"
)

var now = time.UnixMilli(1_790_000_000_123).UTC()

func TestCheckConsume(t *testing.T) {
	t.Parallel()
	open := handoffs.Handoff{Key: "k", Minted: now, Expires: now.Add(time.Minute)}
	consumed := open
	consumed.Consumed, consumed.ConsumedBy, consumed.ConsumeKey = now.Add(time.Second), "a", "1"
	by := func(signedBy, service, key string) handoffs.Consumption {
		return handoffs.Consumption{Claims: handoffs.ClaimsOf(open), SignedBy: signedBy, By: service, Key: key}
	}
	mine := by("k", "a", "1")
	valid := handoffs.State{Now: now, KeyValid: true}
	with := func(change func(*handoffs.State)) handoffs.State {
		s := valid
		change(&s)
		return s
	}
	late := with(func(s *handoffs.State) { s.Now = open.Expires })
	suspended := with(func(s *handoffs.State) { s.Suspended = true })
	retired := with(func(s *handoffs.State) { s.KeyValid = false })
	restored := with(func(s *handoffs.State) { s.Restored = true })
	for name, c := range map[string]struct {
		h        handoffs.Handoff
		by       handoffs.Consumption
		s        handoffs.State
		repeated bool
		err      error
	}{
		"open":                  {open, mine, valid, false, nil},
		"at the last moment":    {open, mine, with(func(s *handoffs.State) { s.Now = open.Expires.Add(-1) }), false, nil},
		"expired":               {open, mine, late, false, handoffs.ErrExpired},
		"suspended":             {open, mine, suspended, false, tenants.ErrSuspended},
		"suspended, expired":    {open, mine, with(func(s *handoffs.State) { s.Now, s.Suspended = open.Expires, true }), false, handoffs.ErrExpired},
		"retired key":           {open, mine, retired, false, handoffs.ErrToken},
		"another key":           {open, by("l", "a", "1"), valid, false, handoffs.ErrToken},
		"restored":              {open, mine, restored, false, handoffs.ErrRestored},
		"again":                 {consumed, mine, valid, true, nil},
		"again, late":           {consumed, mine, late, true, nil},
		"again, suspended":      {consumed, mine, suspended, true, nil},
		"again, retired key":    {consumed, mine, retired, false, handoffs.ErrToken},
		"again, restored":       {consumed, mine, restored, false, handoffs.ErrRestored},
		"another service":       {consumed, by("k", "b", "1"), valid, false, handoffs.ErrConsumed},
		"another attempt":       {consumed, by("k", "a", "2"), valid, false, handoffs.ErrConsumed},
		"another attempt, late": {consumed, by("k", "a", "2"), late, false, handoffs.ErrConsumed},
	} {
		repeated, err := c.h.CheckConsume(c.by, c.s)
		if repeated != c.repeated || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, %v", name, repeated, err)
		}
	}
}

func hasher(t *testing.T, secret string, old ...string) *guest.Hasher {
	t.Helper()
	h, err := guest.NewHasher(secret, old)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHasher(t *testing.T) {
	t.Parallel()
	first, other := hasher(t, strings.Repeat("a", 32)), hasher(t, strings.Repeat("b", 32), strings.Repeat("a", 32))
	v := guest.Visitor{UserAgent: "browser", AcceptLanguage: "de", IP: "192.0.2.1"}
	if bytes.Equal(first.Fingerprint(v), other.Fingerprint(v)) || bytes.Equal(first.IP(v), other.IP(v)) || bytes.Equal(first.UserAgent(v), other.UserAgent(v)) {
		t.Error("the hash does not depend on the secret")
	}
	if !other.IsFingerprint(first.Fingerprint(v), v) || !other.IsIP(first.IP(v), v) || first.IsFingerprint(other.Fingerprint(v), v) {
		t.Error("a former secret")
	}
	if first.IsFingerprint(first.Fingerprint(guest.Visitor{UserAgent: "browserd", AcceptLanguage: "e"}), v) {
		t.Error("parts run together")
	}
	for ip, same := range map[string]bool{
		"2001:db8::1": true, "2001:DB8:0::ffff": true, "2001:db8:0:1::1": false, "192.0.2.1": false, "": false, "x": false,
	} {
		if got := first.IsIP(first.IP(guest.Visitor{IP: "2001:db8::2"}), guest.Visitor{IP: ip}); got != same {
			t.Errorf("%q: %v", ip, got)
		}
	}
	if !first.IsIP(first.IP(v), guest.Visitor{IP: "::ffff:192.0.2.1"}) {
		t.Error("an IPv4 address in IPv6")
	}
}

func TestHandoffConfig(t *testing.T) {
	t.Parallel()
	const tenant = "11111111-2222-4333-8444-555555555555"
	for want, change := range map[string]func(*handoffs.Config){
		"handoff_secret":      func(c *handoffs.Config) { c.HandoffSecret = "short" },
		"old_handoff_secrets": func(c *handoffs.Config) { c.OldHandoffSecrets = []string{"short"} },
		"handoff_life":        func(c *handoffs.Config) { c.HandoffLife = 31 * time.Minute },
		"handoff_url":         func(c *handoffs.Config) { c.HandoffURL = "https://x.example/{other}" },
		"handoff_fingerprint": func(c *handoffs.Config) { c.HandoffFingerprint = "other" },
		"handoff_ip":          func(c *handoffs.Config) { c.HandoffIP = "other" },
		"handoff_tenants.x":   func(c *handoffs.Config) { c.HandoffTenants = map[string]handoffs.TenantConfig{"x": {}} },
		"handoff_tenants." + tenant + ".url": func(c *handoffs.Config) {
			c.HandoffTenants = map[string]handoffs.TenantConfig{tenant: {URL: "javascript:1"}}
		},
		"handoff_tenants." + tenant + ".ip": func(c *handoffs.Config) { c.HandoffTenants = map[string]handoffs.TenantConfig{tenant: {IP: "no"}} },
	} {
		c := handoffs.DefaultConfig()
		change(&c)
		if problems := c.Check(); len(problems) != 1 || problems[0].Key != want {
			t.Errorf("%v, want %s", problems, want)
		}
	}
	c := handoffs.DefaultConfig()
	c.HandoffURL = "https://x.example/{tenantId}/{propertyId}#{token}"
	c.HandoffTenants = map[string]handoffs.TenantConfig{tenant: {URL: "http://y.example/{token}", IP: handoffs.MismatchRefuse}}
	if problems := c.Check(); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
	if s := c.Site("other"); s != (handoffs.BookingSite{URL: c.HandoffURL, Fingerprint: handoffs.MismatchRefuse, IP: handoffs.MismatchMark, Algorithm: handoffs.HMAC}) {
		t.Errorf("%v", s)
	}
	if s := c.Site(tenant); s != (handoffs.BookingSite{URL: "http://y.example/{token}", Fingerprint: handoffs.MismatchRefuse, IP: handoffs.MismatchRefuse, Algorithm: handoffs.HMAC}) {
		t.Errorf("%v", s)
	}
}
