package storetest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/suite"
)

func (u *user) verifyOffline(s *handoffs.Service, tenant, token string, now time.Time) (handoff.Claims, error) {
	u.t.Helper()
	text, _, err := s.KeySet(u.t.Context(), tenant)
	suite.Must(u.t, "KeySet", err)
	set, err := handoff.ParseKeySet(text)
	suite.Must(u.t, "ParseKeySet", err)
	c, _, err := set.Verify(token, handoff.Expected{Issuer: issuer, Tenant: tenant, Now: now})
	return c, err
}

// tenantKeys checks that tokens verify only with the keys published for their tenant. A revoked key is neither
// published nor accepted; its successor was published before.
func tenantKeys(_ *testing.T, u *user) {
	a, b := newTenant(), newTenant()
	mint := func(tenant string) (*handoffs.Service, handoffs.Minted) {
		s := u.minterWith(tenant, handoffs.Ed25519)
		o, err := u.mintFor(s, u.mutation(), tenant, u.item(1))
		suite.Must(u.t, "Mint", err)
		return s, o.Result
	}
	s, first := mint(a)
	_, other := mint(b)
	c, err := u.verifyOffline(s, a, first.Token, first.Expires.Add(-time.Minute))
	suite.Must(u.t, "verify offline", err)
	suite.Equal(u.t, "claims", c, handoffs.ClaimsOf(u.handoff(first.ID)))
	for what, token := range map[string]string{"of another tenant": other.Token, "cut": first.Token[:len(first.Token)-4]} {
		if _, err := u.verifyOffline(s, a, token, first.Expires.Add(-time.Minute)); err == nil {
			u.t.Errorf("a token %s is accepted offline", what)
		}
		r := handoffs.ConsumeRequest{ID: string(first.ID), Token: token, By: "booking", Key: "a"}
		if _, err := s.Consume(u.t.Context(), r); !errors.Is(err, handoffs.ErrToken) {
			u.t.Errorf("a token %s: %v", what, err)
		}
	}
	keys := u.newKeys()
	known, err := u.h.Store.HandoffKeys(u.t.Context(), a)
	suite.Must(u.t, "HandoffKeys", err)
	suite.Equal(u.t, "keys", len(known), 2)
	if _, err := keys.RotateOfTenant(u.t.Context(), a); !errors.Is(err, handoffs.ErrNextKeyNew) {
		u.t.Errorf("a rotation to a key that sites do not know: %v", err)
	}
	if _, err := keys.RotateOfTenant(u.t.Context(), newTenant()); !errors.Is(err, handoffs.ErrNoTenantKeys) {
		u.t.Errorf("a tenant without keys: %v", err)
	}
	consumed := handoffs.ConsumeRequest{ID: string(first.ID), Token: first.Token, By: "booking", Key: "a"}
	_, err = s.Consume(u.t.Context(), consumed)
	suite.Must(u.t, "Consume", err)
	if _, err := s.Consume(u.t.Context(), handoffs.ConsumeRequest{ID: consumed.ID, Token: consumed.Token, By: "booking", Key: "b"}); !errors.Is(err, handoffs.ErrConsumed) {
		u.t.Errorf("a replay: %v", err)
	}
	_, leaked := mint(a)
	id, _ := handoff.KeyID(leaked.Token)
	_, err = keys.RevokeOfTenant(u.t.Context(), id)
	suite.Must(u.t, "RevokeOfTenant", err)
	r := handoffs.ConsumeRequest{ID: string(leaked.ID), Token: leaked.Token, By: "booking", Key: "a"}
	if _, err := s.Consume(u.t.Context(), r); !errors.Is(err, handoffs.ErrToken) {
		u.t.Errorf("a revoked key: %v", err)
	}
	if _, err := u.verifyOffline(s, a, leaked.Token, first.Expires.Add(-time.Minute)); !errors.Is(err, handoff.ErrUnknownKey) {
		u.t.Errorf("a revoked key, offline: %v", err)
	}
	_, err = keys.RevokeOfTenant(u.t.Context(), id)
	suite.Equal(u.t, "revoked twice", errors.Is(err, handoffs.ErrKeyRetired), true)
	_, err = keys.Revoke(u.t.Context(), known[1].ID)
	suite.Equal(u.t, "revoked as an HMAC key", errors.Is(err, handoffs.ErrNoSuchKey), true)
	_, again := mint(a)
	id, _ = handoff.KeyID(again.Token)
	suite.Equal(u.t, "the successor was published before", slices.ContainsFunc(known, func(k handoffs.Key) bool { return k.ID == id }), true)
	_, err = u.verifyOffline(s, a, again.Token, again.Expires.Add(-time.Minute))
	suite.Must(u.t, "verify offline", err)
	u.listTenantKeys(a, 3, b, 2)
}

func (u *user) listTenantKeys(a string, ofA int, b string, ofB int) {
	u.t.Helper()
	count := map[string]int{}
	var last handoffs.Key
	for {
		page, err := u.h.Store.TenantKeys(u.t.Context(), last, 2)
		suite.Must(u.t, "TenantKeys", err)
		for _, k := range page {
			if k.Tenant == "" || strings.Compare(k.Tenant+k.ID, last.Tenant+last.ID) <= 0 {
				u.t.Errorf("key %s/%s after %s/%s", k.Tenant, k.ID, last.Tenant, last.ID)
			}
			count[k.Tenant]++
			last = k
		}
		if len(page) < 2 {
			break
		}
	}
	suite.Equal(u.t, "keys", []int{count[a], count[b]}, []int{ofA, ofB})
}

// tenantKeysRestored checks that voiding all tokens includes Ed25519 tokens. The next handoff creates new keys.
func tenantKeysRestored(_ *testing.T, u *user) {
	tenant := newTenant()
	s := u.minterWith(tenant, handoffs.Ed25519)
	o, err := u.mintFor(s, u.mutation(), tenant, u.item(1))
	suite.Must(u.t, "Mint", err)
	_, err = u.newKeys().RevokeAll(u.t.Context())
	suite.Must(u.t, "RevokeAll", err)
	r := handoffs.ConsumeRequest{ID: string(o.Result.ID), Token: o.Result.Token, By: "booking", Key: "a"}
	if _, err := s.Consume(u.t.Context(), r); !errors.Is(err, handoffs.ErrToken) {
		u.t.Errorf("a void token: %v", err)
	}
	set, life, err := s.KeySet(u.t.Context(), tenant)
	suite.Must(u.t, "KeySet", err)
	suite.Equal(u.t, "published", string(set), `{"keys":[]}`)
	suite.Equal(u.t, "cached", life, 0)
	o, err = u.mintFor(s, u.mutation(), tenant, u.item(1))
	suite.Must(u.t, "Mint", err)
	_, err = u.verifyOffline(s, tenant, o.Result.Token, o.Result.Expires.Add(-time.Minute))
	suite.Must(u.t, "verify offline", err)
}

func tenantKeysAtOnce(t *testing.T, u *user) {
	tenant := newTenant()
	var all sync.WaitGroup
	for i := range 8 {
		one := u.other()
		if i%2 == 1 && u.h.Again != nil {
			one.h.Store = u.h.Again(t)
		}
		s := one.minterWith(tenant, handoffs.Ed25519)
		all.Go(func() {
			o, err := one.mintFor(s, one.mutation(), tenant, one.item(1))
			if err != nil {
				u.t.Errorf("Mint: %v", err)
				return
			}
			r := handoffs.ConsumeRequest{ID: string(o.Result.ID), Token: o.Result.Token, By: "booking", Key: "a"}
			if _, err := s.Consume(t.Context(), r); err != nil {
				u.t.Errorf("Consume: %v", err)
			}
		})
	}
	all.Wait()
	keys, err := u.h.Store.HandoffKeys(t.Context(), tenant)
	suite.Must(t, "HandoffKeys", err)
	suite.Equal(t, "keys", len(keys), 2)
}
