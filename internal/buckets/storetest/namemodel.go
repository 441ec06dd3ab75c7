package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
	"holdfast/internal/suite"
)

// nameMachine takes random steps with the buckets of three accounts under the same names, and compares all claims
// with a model after each step.
type nameMachine struct {
	*user
	users  []*user
	prefix string // names of this walk, because the store keeps those of earlier walks
	made   map[nameKey]buckets.Bucket
	claims map[string]buckets.NameClaim
}

type nameKey struct {
	user int
	name string
}

func randomNames(t *testing.T, u *user) {
	walk := 0
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		walk++
		m := &nameMachine{user: u, prefix: fmt.Sprintf("w%d-", walk), made: map[nameKey]buckets.Bucket{}, claims: map[string]buckets.NameClaim{}}
		for range 3 {
			m.users = append(m.users, u.other())
		}
		return map[string]func(*rapid.T){
			"create": m.stepCreate, "change": m.stepChange, "change more": m.stepChange, "delete": m.stepDelete, "free": m.stepFree, "wait": m.stepWait,
			"forget": m.stepForget, "": m.compare,
		}
	})
}

func (m *nameMachine) draw(rt *rapid.T) nameKey {
	return nameKey{rapid.IntRange(0, len(m.users)-1).Draw(rt, "account"), m.prefix + rapid.SampledFrom([]string{"aaa", "bbb"}).Draw(rt, "name")}
}

func (m *nameMachine) stepCreate(rt *rapid.T) {
	k := m.draw(rt)
	if _, ok := m.made[k]; ok {
		rt.Skip("exists")
	}
	o := m.users[k.user]
	b, err := m.h.Store.CreateBucket(rt.Context(), o.owner, newRef(k.name), m.now)
	must(rt, "CreateBucket", err)
	m.made[k] = b
}

// settle repeats the rule that the stores implement in SQL.
func (m *nameMachine) settle(k nameKey, shared bool) {
	owner := m.users[k.user].owner
	old, claimed := m.claims[k.name]
	switch mine := old.Owner == owner; {
	case shared && (!claimed || old.Freed != 0 && (mine || old.RestsUntil() <= m.now)):
		m.claims[k.name] = buckets.NameClaim{Name: k.name, Owner: owner, Claimed: m.now}
	case !shared && claimed && mine && old.Freed == 0:
		old.Freed = m.now
		m.claims[k.name] = old
	}
}

func (m *nameMachine) stepChange(rt *rapid.T) {
	k := m.draw(rt)
	b, ok := m.made[k]
	if !ok {
		rt.Skip("no bucket")
	}
	c := buckets.SettingsChange{Now: m.now}
	yes := rapid.Bool().Draw(rt, "yes")
	switch rapid.IntRange(0, 3).Draw(rt, "setting") {
	case 0:
		c.PublicRead = &yes
	case 1:
		c.Policy = &buckets.Policy{}
		if yes {
			c.Policy = &buckets.Policy{Document: "{}", Shared: rapid.Bool().Draw(rt, "shared"), Public: rapid.Bool().Draw(rt, "public")}
		}
	case 2:
		c.PublicAccessBlock = &buckets.PublicAccessBlock{IgnoreACLs: yes, RestrictPolicy: rapid.Bool().Draw(rt, "restrict")}
	case 3:
		c.Tags = &map[string]string{"a": "b"} // claims nothing
	}
	must(rt, "SetBucket", m.h.Store.SetBucket(rt.Context(), b.Owner, b.BucketRef, c))
	b.Settings = c.Apply(b.Settings)
	m.made[k] = b
	if c.ChangesAccess() {
		m.settle(k, b.Settings.IsShared())
	}
}

func (m *nameMachine) stepDelete(rt *rapid.T) {
	k := m.draw(rt)
	b, ok := m.made[k]
	if !ok {
		rt.Skip("no bucket")
	}
	must(rt, "DeleteBucket", m.h.Store.DeleteBucket(rt.Context(), b.Owner, b.BucketRef, m.now))
	delete(m.made, k)
	m.settle(k, false)
}

func (m *nameMachine) stepFree(rt *rapid.T) {
	name := m.draw(rt).name
	got, err := m.h.Store.FreeName(rt.Context(), name)
	want, ok := m.claims[name]
	if !ok {
		wantError(rt, "FreeName", err, buckets.ErrNoName)
		return
	}
	must(rt, "FreeName", err)
	equal(rt, "freed", got, want)
	delete(m.claims, name)
}

func (m *nameMachine) stepWait(rt *rapid.T) {
	m.now += rapid.SampledFrom([]buckets.Moment{second, rest - second, rest, 2 * rest}).Draw(rt, "time")
}

func (m *nameMachine) stepForget(rt *rapid.T) {
	_, err := m.h.Store.ForgetNames(rt.Context(), buckets.RestedBefore(m.now), 1000)
	must(rt, "ForgetNames", err)
	maps.DeleteFunc(m.claims, func(_ string, c buckets.NameClaim) bool { return c.Freed != 0 && c.RestsUntil() <= m.now })
}

func (m *nameMachine) compare(rt *rapid.T) {
	all, err := m.h.Store.NameClaims(rt.Context(), m.prefix, 10)
	must(rt, "NameClaims", err)
	all = slices.DeleteFunc(all, func(c buckets.NameClaim) bool {
		return len(c.Name) < len(m.prefix) || c.Name[:len(m.prefix)] != m.prefix
	})
	var want []buckets.NameClaim
	for _, name := range slices.Sorted(maps.Keys(m.claims)) {
		c := m.claims[name]
		want = append(want, c)
		holder, err := m.h.Store.NameHolder(rt.Context(), name)
		must(rt, "NameHolder", err)
		if c.Freed != 0 {
			c.Owner = ""
		}
		equal(rt, "holder", holder, c.Owner)
	}
	equal(rt, "claims", all, want)
	hidden, err := m.h.Store.HiddenBuckets(rt.Context(), 10_000)
	must(rt, "HiddenBuckets", err)
	got := map[buckets.BucketID]bool{}
	for i := range hidden {
		got[hidden[i].ID] = true
	}
	for k, b := range m.made {
		c, claimed := m.claims[k.name]
		equal(rt, "hidden "+k.name, got[b.ID], claimed && c.Owner != b.Owner && b.Settings.IsShared())
	}
}
