package storetest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	ss "holdfast/internal/syncstorage"
)

func compareChecks() []check {
	return []check{
		{"NewIDs", compareNewIDs},
		{"LeftAlone", compareLeftAlone},
		{"UnderAFullQuota", compareFullQuota},
		{"BesideAWriter", compareBesideAWriter},
		{"OwnersInPages", compareOwners},
	}
}

const metaGlobal = ` {"syncID":"AAAAAAAAAAAA","storageVersion":5,"engines":{"tabs":{"version":1,"syncID":"BBBBBBBBBBBB"},"\u0061":{"syncID":"C"}},"declined":["forms"], "x":1.50}`

// compareService returns a service on the user's store, or on another store.
func (u *user) compareService(store ss.Store, config func(*ss.Config)) *ss.Service {
	u.t.Helper()
	c := ss.DefaultConfig()
	config(&c)
	s, err := ss.NewService(ss.Options{Store: store, Config: c, Clock: u.clock})
	must(u.t, "NewService", err)
	return s
}

func (u *user) clock() time.Time { return u.now.Time() }

func (u *user) compare(s *ss.Service) ss.Compared {
	u.t.Helper()
	c, err := s.Compare(u.t.Context(), u.owner, u.clock)
	must(u.t, "Compare", err)
	return c
}

var someID = regexp.MustCompile(`"[A-Za-z0-9_-]{12}"`)

// compareNewIDs checks that only the engines' IDs change, in a write that clients notice.
func compareNewIDs(t *testing.T, u *user) {
	first := ss.Update{ID: "global", Payload: text(metaGlobal), SortIndex: ss.Some[int64](7), TTL: ss.Some[int64](3600)}
	u.put("meta", first)
	u.put("meta", bso("other", metaGlobal))
	tabs := u.put("tabs", bso("a", metaGlobal))
	u.wait(time.Minute)
	equal(t, "compared", u.compare(u.compareService(u.store, func(*ss.Config) {})), ss.Compared{Changed: 1})

	after := u.get("meta", "global")
	rest := strings.Replace(metaGlobal, `"BBBBBBBBBBBB"`, "#", 1)
	rest = strings.Replace(rest, `"C"`, "#", 1)
	before, _, _ := strings.Cut(rest, "#")
	got := after.payload
	if !strings.HasPrefix(got, before) {
		t.Fatalf("the payload begins with %s", got)
	}
	ids := someID.FindAllString(got[len(before):], -1)
	equal(t, "the payload without new IDs", before+someID.ReplaceAllString(got[len(before):], "#"), rest)
	if len(ids) != 2 || ids[0] == ids[1] || ids[0] == `"BBBBBBBBBBBB"` {
		t.Errorf("the new IDs are %v", ids)
	}
	equal(t, "the sortindex", after.index, ss.Some[int64](7))
	equal(t, "the record's time", after.modified, u.now)
	equal(t, "the other record", u.get("meta", "other").payload, metaGlobal)
	cs := u.collections()
	equal(t, "the user's time", cs.Modified, u.now)
	for _, c := range cs.Stamps {
		equal(t, "the time of "+c.Name, c.Modified, map[string]ss.Timestamp{"meta": u.now, "tabs": tabs.Modified}[c.Name])
	}
	u.wait(time.Hour)
	equalIDs(t, "when the record has expired", u.list("meta"), "other")
}

func compareLeftAlone(t *testing.T, u *user) {
	s := u.compareService(u.store, func(*ss.Config) {})
	for _, c := range []struct {
		name string
		make func(u *user)
		want ss.Compared
	}{
		{"a user without data", func(*user) {}, ss.Compared{Missing: 1}},
		{"no record", func(u *user) { u.put("meta", bso("other", metaGlobal)) }, ss.Compared{Missing: 1}},
		{"deleted", func(u *user) { u.put("meta", bso("global", metaGlobal)); u.deleteBSO("meta", "global") }, ss.Compared{Missing: 1}},
		{"the collection deleted", func(u *user) { u.put("meta", bso("global", metaGlobal)); u.deleteCollection("meta") }, ss.Compared{Missing: 1}},
		{"everything deleted", func(u *user) { u.put("meta", bso("global", metaGlobal)); u.deleteAll() }, ss.Compared{Missing: 1}},
		{"expired", func(u *user) { u.put("meta", expiring("global", metaGlobal, 0)) }, ss.Compared{Missing: 1}},
		{"staged", func(u *user) { u.stage("meta", bso("global", metaGlobal)) }, ss.Compared{Missing: 1}},
		{"malformed", func(u *user) { u.put("meta", bso("global", metaGlobal+"}")) }, ss.Compared{Malformed: 1}},
		{"empty", func(u *user) { u.put("meta", bso("global", "")) }, ss.Compared{Malformed: 1}},
		{"without engines", func(u *user) { u.put("meta", bso("global", `{"syncID":"AAAAAAAAAAAA","engines":{}}`)) }, ss.Compared{Bare: 1}},
	} {
		u := u.other()
		c.make(u)
		before := u.state()
		equal(t, c.name, u.compare(s), c.want)
		u.wantState(c.name, before)
	}
}

// compareFullQuota checks that a quota that is full and enforced does not keep IDs, and that bytes are counted.
func compareFullQuota(t *testing.T, u *user) {
	s := u.compareService(u.store, func(c *ss.Config) { c.EnforceQuota, c.Limits.MaxUserQuota = true, int64(len(metaGlobal)) })
	u.put("meta", bso("global", metaGlobal))
	equal(t, "compared", u.compare(s), ss.Compared{Changed: 1})
	u.wantUsage("after the comparison", "meta", 1, int64(len(metaGlobal))+11) // "C" became 12 characters
}

// interposed calls before between a comparison's read and its write.
type interposed struct {
	ss.Store
	before func()
}

func (s interposed) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (ss.Written, error) {
	s.before()
	return s.Store.Put(ctx, o, w, u)
}

func compareBesideAWriter(t *testing.T, u *user) {
	u.put("meta", bso("global", metaGlobal))
	changed := strings.Replace(metaGlobal, `"declined":["forms"]`, `"declined":[]`, 1)
	writes := 0
	s := u.compareService(interposed{u.store, func() {
		if writes++; writes == 1 {
			u.put("meta", bso("global", changed))
		}
	}}, func(*ss.Config) {})
	equal(t, "compared", u.compare(s), ss.Compared{Changed: 1})
	equal(t, "attempts", writes, 2)
	if got := u.get("meta", "global").payload; !strings.Contains(got, `"declined":[]`) || strings.Contains(got, "BBBBBBBBBBBB") {
		t.Errorf("the record is %s: expected the client's change and other IDs", got)
	}
}

func compareOwners(t *testing.T, u *user) {
	a, b, quota, batch, gone := u.other(), u.other(), u.other(), u.other(), u.other()
	for _, v := range []*user{a, b, gone} {
		v.put("tabs", bso("a", "x"))
		v.put("meta", bso("global", metaGlobal))
	}
	must(t, "SetQuota", u.store.SetQuota(t.Context(), quota.owner, ss.Some[int64](1)))
	batch.stage("tabs", bso("a", "x"))
	gone.deleteAll()
	found := map[ss.Owner]int{}
	var after ss.Owner
	for {
		page, err := u.store.Owners(t.Context(), after, 3)
		must(t, "Owners", err)
		for _, o := range page {
			found[o]++
			after = o
		}
		if len(page) < 3 {
			break
		}
	}
	times := func(v *user) (n int) {
		for o, times := range found {
			if o.UID == v.owner.UID || o.UID == 0 && o.FxAUID == v.owner.FxAUID && o.FxAKID == v.owner.FxAKID {
				n += times
			}
		}
		return n
	}
	got := []int{times(a), times(b), times(quota), times(batch), times(gone)}
	if want := []int{1, 1, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("two users with data, one with a quota, one with a batch, and one deleted were listed %v times, want %v", got, want)
	}
}
