package handoffs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/handoff"
	"holdfast/internal/guest/handoffs"
)

// ring is a store of keys with a clock.
type ring struct {
	handoffs.Store
	now  time.Time
	keys []handoffs.Key
}

func (r *ring) HandoffKeys(_ context.Context, tenant string) (some []handoffs.Key, err error) {
	for _, k := range r.keys {
		if k.Tenant == tenant {
			some = append(some, k)
		}
	}
	return some, nil
}

func (r *ring) HandoffKey(_ context.Context, id string) (handoffs.Key, error) {
	if i := r.index(id); i >= 0 {
		return r.keys[i], nil
	}
	return handoffs.Key{}, handoffs.ErrNoSuchKey
}

func (r *ring) index(id string) int {
	return slices.IndexFunc(r.keys, func(k handoffs.Key) bool { return k.ID == id })
}

// ChangeHandoffKeys works like the databases, and checks that no tenant ever has two active keys.
func (r *ring) ChangeHandoffKeys(ctx context.Context, c handoffs.ChangeKeys) (handoffs.ChangedKeys, error) {
	every, key, tenant := c.Scope()
	of := handoffs.KeyRing{Now: r.now, All: slices.Clone(r.keys)}
	if i := r.index(key); key != "" {
		of.All = nil
		if i >= 0 {
			of.All, _ = r.HandoffKeys(ctx, r.keys[i].Tenant)
		}
	} else if !every {
		of.All, _ = r.HandoffKeys(ctx, tenant)
	}
	done, err := c.Decide(of)
	if err != nil {
		return handoffs.ChangedKeys{}, err
	}
	for _, k := range done.Put {
		if i := r.index(k.ID); i >= 0 {
			r.keys[i] = k
		} else {
			r.keys = append(r.keys, k)
		}
		active := map[string]bool{}
		for _, k := range r.keys {
			if k.State == handoffs.KeyActive && active[k.Tenant] {
				return done, errors.New("two keys are active")
			}
			active[k.Tenant] = active[k.Tenant] || k.State == handoffs.KeyActive
		}
	}
	return done, nil
}

func newRing(t rapid.TB) (*ring, *handoffs.Keys) {
	r := &ring{now: now}
	keys, err := handoffs.NewKeys(r, strings.Repeat("s", 32), nil, "holdfast")
	if err != nil {
		t.Fatal(err)
	}
	return r, keys
}

func published(t rapid.TB, r *ring, keys *handoffs.Keys, tenant string) (ids []string) {
	text, empty, err := keys.Published(context.Background(), tenant, r.now)
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	if err := errors.Join(err, json.Unmarshal(text, &set)); err != nil {
		t.Fatal(err)
	}
	for _, k := range set.Keys {
		if len(k) != 6 || k["kty"] != "OKP" || k["crv"] != "Ed25519" || k["alg"] != "EdDSA" || k["use"] != "sig" || len(k["x"]) != 43 {
			t.Fatalf("key %v", k)
		}
		ids = append(ids, k["kid"])
	}
	if empty != (len(ids) == 0) {
		t.Fatalf("empty %v with %d keys", empty, len(ids))
	}
	if _, err := handoff.ParseKeySet(text); err != nil {
		t.Fatal(err)
	}
	return ids
}

var tenantsOfModel = []string{"11111111-2222-4333-8444-555555555555", "33333333-2222-4333-8444-555555555555"}

// keyModel changes keys at random, and remembers which keys sites know.
type keyModel struct {
	*ring
	t              *rapid.T
	keyRing        *handoffs.Keys
	shared         handoffs.Key // the active HMAC key
	firstPublished map[string]time.Time
	revoked        map[string]bool

	// These fields describe the latest step.
	before []handoffs.Key
	tenant string
	byHand bool // whether the active key was revoked
}

// TestTenantKeyModel checks that a tenant with keys always has an active key and a next key. A key signs only
// after it was published long enough, or after the active key was revoked. A revoked key is never published again.
// No change affects another tenant's keys.
func TestTenantKeyModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &keyModel{t: rt, firstPublished: map[string]time.Time{}, revoked: map[string]bool{}}
		m.ring, m.keyRing = newRing(rt)
		m.shared = m.must(m.keyRing.Rotate(t.Context()))
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 10, 21, 40}).Draw(rt, "minutes")) * time.Minute)
			err := m.step(t.Context())
			if err != nil && fmt.Sprint(m.keys) != fmt.Sprint(m.before) {
				rt.Fatalf("a refused change has an effect: %v", err)
			}
			m.othersStay()
			for _, tenant := range tenantsOfModel {
				m.check(tenant)
			}
		}
		all, err := m.keyRing.List(t.Context())
		if err != nil || all[len(all)-1].ID != m.shared.ID || all[len(all)-1].State != handoffs.KeyActive {
			rt.Fatalf("HMAC keys %v %v", all, err)
		}
	})
}

func (m *keyModel) must(k handoffs.Key, err error) handoffs.Key {
	if err != nil {
		m.t.Fatal(err)
	}
	return k
}

func (m *keyModel) step(ctx context.Context) (err error) {
	m.before, m.byHand = slices.Clone(m.keys), false
	m.tenant = rapid.SampledFrom(tenantsOfModel).Draw(m.t, "tenant")
	switch rapid.SampledFrom([]string{"create", "rotate", "revoke", "revoke", "revoke all"}).Draw(m.t, "step") {
	case "create":
		m.must(m.keyRing.CreateOfTenant(ctx, m.tenant))
	case "rotate":
		if _, err = m.keyRing.RotateOfTenant(ctx, m.tenant); err != nil && !errors.Is(err, handoffs.ErrNoTenantKeys) && !errors.Is(err, handoffs.ErrNextKeyNew) {
			m.t.Fatal(err)
		}
	case "revoke":
		key := rapid.SampledFrom(m.keys).Draw(m.t, "key")
		m.tenant, m.byHand = key.Tenant, key.State == handoffs.KeyActive
		if _, err = m.keyRing.RevokeOfTenant(ctx, key.ID); err == nil {
			m.revoked[key.ID] = true
		} else if key.Tenant != "" && key.State != handoffs.KeyRetired {
			m.t.Fatal(err)
		}
	default:
		for _, k := range m.keys {
			m.revoked[k.ID] = true
		}
		m.shared = m.must(m.keyRing.RevokeAll(ctx))
		m.before, m.byHand = nil, true
	}
	return err
}

func (m *keyModel) othersStay() {
	for _, old := range m.before {
		if k := m.keys[m.index(old.ID)]; old.Tenant != m.tenant && fmt.Sprint(k) != fmt.Sprint(old) {
			m.t.Fatalf("the key of another tenant changes: %v, before %v", k, old)
		}
	}
}

func (m *keyModel) check(tenant string) {
	ids := published(m.t, m.ring, m.keyRing, tenant)
	active, next := 0, 0
	own, _ := m.HandoffKeys(m.t.Context(), tenant)
	for _, k := range own {
		switch {
		case k.State == handoffs.KeyActive:
			active++
			m.checkActive(k)
		case k.IsNext():
			next++
		}
		usable := k.State != handoffs.KeyRetired && (k.NotAfter.IsZero() || m.now.Before(k.NotAfter.Add(31*time.Minute)))
		isPublished := slices.Contains(ids, k.ID)
		if usable && !isPublished || k.State == handoffs.KeyRetired && (isPublished || len(k.Secret) > 0) || m.revoked[k.ID] && usable {
			m.t.Fatalf("key %+v, published %v", k, ids)
		}
	}
	if active != next || active > 1 {
		m.t.Fatalf("tenant %s has %d active keys and %d next keys", tenant, active, next)
	}
	for _, id := range ids {
		if _, known := m.firstPublished[id]; !known {
			m.firstPublished[id] = m.now
		}
	}
}

// checkActive checks that sites know a key that a rotation activated.
func (m *keyModel) checkActive(k handoffs.Key) {
	was := slices.IndexFunc(m.before, func(old handoffs.Key) bool { return old.ID == k.ID })
	if was < 0 || m.before[was].State == handoffs.KeyActive || m.byHand {
		return
	}
	if since := m.now.Sub(m.firstPublished[k.ID]); since < 20*time.Minute {
		m.t.Fatalf("key %s signs %v after it was published", k.ID, since)
	}
}

func TestCompareClaims(t *testing.T) {
	t.Parallel()
	h := handoffs.Handoff{
		ID: "bhd_a", Session: "gms_a", Tenant: "t", Item: "p", Key: "k", Minted: now, Expires: now.Add(time.Minute), Campaign: json.RawMessage(`{"a":1}`),
		Stay:        handoffs.Stay{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 2, Children: 1, Rooms: 1, Currency: "EUR", Locale: "de-AT"},
		Fingerprint: []byte("f"), IP: []byte("i"),
	}
	try := func(change func(*handoff.Claims)) error {
		c := handoffs.ClaimsOf(h)
		change(&c)
		_, err := h.CheckConsume(handoffs.Consumption{Claims: c, SignedBy: "k", By: "a", Key: "1"}, handoffs.State{Now: now, KeyValid: true})
		return err
	}
	if err := try(func(*handoff.Claims) {}); err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(*handoff.Claims){
		"handoff ID": func(c *handoff.Claims) { c.ID += "x" }, "session": func(c *handoff.Claims) { c.Session += "x" }, "tenant": func(c *handoff.Claims) { c.Tenant += "x" },
		"property": func(c *handoff.Claims) { c.Property += "x" }, "check-in": func(c *handoff.Claims) { c.CheckIn = "2036-12-29" },
		"check-out": func(c *handoff.Claims) { c.CheckOut = "2037-01-03" }, "adults": func(c *handoff.Claims) { c.Adults++ }, "children": func(c *handoff.Claims) { c.Children++ },
		"rooms": func(c *handoff.Claims) { c.Rooms++ }, "currency": func(c *handoff.Claims) { c.Currency = "CHF" }, "locale": func(c *handoff.Claims) { c.Locale = "de" },
		"campaign": func(c *handoff.Claims) { c.Campaign = nil }, "fingerprint": func(c *handoff.Claims) { c.Fingerprint = []byte("g") },
		"IP": func(c *handoff.Claims) { c.IP = nil }, "minted": func(c *handoff.Claims) { c.Minted = c.Minted.Add(time.Millisecond) },
		"payload": func(c *handoff.Claims) { c.Payload = []byte("p") },
		"expires": func(c *handoff.Claims) { c.Expires = c.Expires.Add(time.Hour) },
	}
	if fields := reflect.TypeFor[handoff.Claims]().NumField(); fields != len(changes) {
		t.Errorf("%d claims, %d tried", fields, len(changes))
	}
	for claim, change := range changes {
		err := try(change)
		wrong, ok := errors.AsType[*handoffs.ClaimError](err)
		if !ok || wrong.Claim != claim || !errors.Is(err, handoffs.ErrToken) {
			t.Errorf("%s: %v", claim, err)
		}
	}
}
