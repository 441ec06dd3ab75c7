package hotstatetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/suite"
)

func sessionChecks() []check {
	return []check{
		{"Begin", begin}, {"Preferences", preferences}, {"Life", life}, {"TouchExtendsAll", touchExtendsAll},
		{"List", lists}, {"ListIsCapped", listIsCapped}, {"PushConcurrently", pushConcurrently},
		{"Attributes", attributes}, {"AttributesConcurrently", attributesConcurrently}, {"AttributesWhileChanged", attributesWhileChanged}, {"Search", search}, {"Drop", drop}, {"Ping", ping},
	}
}

func (c *client) session(change guest.Change) guest.Session {
	c.t.Helper()
	s, err := c.Hot.Session(c.t.Context(), c.id, change)
	return must(c, s, err)
}

func (c *client) items(list guest.List) (keys []string) {
	c.t.Helper()
	items, err := c.Hot.Items(c.t.Context(), c.id, list)
	c.ok(err)
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	return keys
}

func (c *client) push(list guest.List, key, value string) {
	c.t.Helper()
	c.ok(c.Hot.Push(c.t.Context(), c.id, list, guest.Item{Key: key, Value: json.RawMessage(value)}))
}

func begin(_ *testing.T, c *client) {
	s := c.session(guest.Change{})
	suite.Equal(c.t, "ID", s.ID, c.id)
	suite.Equal(c.t, "Created", s.Created, c.id.Time())
	suite.Equal(c.t, "Preferences", s.Preferences, guest.Preferences{})
	first := s.LastSeen
	c.Wait(3 * time.Millisecond)
	suite.Equal(c.t, "LastSeen is that of the request before", c.session(guest.Change{}).LastSeen, first)
	if again := c.session(guest.Change{}); !again.LastSeen.After(first) {
		c.t.Errorf("LastSeen %v did not advance from %v", again.LastSeen, first)
	}
}

func preferences(_ *testing.T, c *client) {
	suite.Equal(c.t, "set", c.session(guest.Change{Locale: new("de-AT")}).Preferences, guest.Preferences{Locale: "de-AT"})
	suite.Equal(c.t, "the other", c.session(guest.Change{Currency: new("EUR")}).Preferences, guest.Preferences{Locale: "de-AT", Currency: "EUR"})
	suite.Equal(c.t, "both", c.session(guest.Change{Locale: new(""), Currency: new("USD")}).Preferences, guest.Preferences{Currency: "USD"})
	suite.Equal(c.t, "read", c.session(guest.Change{}).Preferences, guest.Preferences{Currency: "USD"})
	for _, campaign := range []string{`{"source":"a"}`, `{"name":"ä \"b"}`} {
		suite.Equal(c.t, "campaign", c.session(guest.Change{Campaign: &campaign}).Preferences, guest.Preferences{Currency: "USD", Campaign: campaign})
		suite.Equal(c.t, "read", c.session(guest.Change{}).Preferences, guest.Preferences{Currency: "USD", Campaign: campaign})
	}
	other := newClient(c.t, c.Harness)
	suite.Equal(c.t, "of another session", other.session(guest.Change{}).Preferences, guest.Preferences{})
}

const day = 24 * time.Hour

func life(_ *testing.T, c *client) {
	c.session(guest.Change{Locale: new("de")})
	for range 3 {
		c.Pass(c.t, 29*day)
		suite.Equal(c.t, "used", c.session(guest.Change{}).Locale, "de")
	}
	c.Pass(c.t, 31*day)
	suite.Equal(c.t, "expired", c.session(guest.Change{}).Locale, "")
}

// touchExtendsAll checks that every use of a session extends the lives of all its data (invariant 3).
func touchExtendsAll(_ *testing.T, c *client) {
	uses := []func(){
		func() { c.session(guest.Change{}) },
		func() { c.put("0", `{}`) },
		func() { c.push(guest.RecentlyViewed, "a", `1`) },
		func() { c.push(guest.SearchHistory, "a", `1`) },
		func() { c.items(guest.RecentlyViewed) },
		func() { c.want("mirror", `[1]`) },
		func() {
			c.ok(c.Hot.BlockMirror(c.t.Context(), c.id))
			c.ok(c.Hot.UnblockMirror(c.t.Context(), c.id))
			c.fill(`[1]`)
		},
	}
	c.session(guest.Change{Locale: new("de")})
	c.push(guest.RecentlyViewed, "a", `1`)
	c.push(guest.SearchHistory, "a", `1`)
	suite.Equal(c.t, "put", c.put("", `{"a":1}`), true)
	c.fill(`[1]`)
	for _, use := range uses {
		c.Pass(c.t, 29*day)
		use()
	}
	c.Pass(c.t, 29*day)
	suite.Equal(c.t, "recent", c.items(guest.RecentlyViewed), []string{"a"})
	suite.Equal(c.t, "history", c.items(guest.SearchHistory), []string{"a"})
	suite.Equal(c.t, "mirror", string(c.mirror().Wishes), `[1]`)
	suite.Equal(c.t, "session", c.session(guest.Change{}).Locale, "de")
	suite.Equal(c.t, "attributes", string(c.attributes().Value), `{"a":1}`)
	c.Pass(c.t, 31*day)
	suite.Equal(c.t, "expired: attributes", c.attributes(), guest.Attributes{})
	suite.Equal(c.t, "expired: recent", c.items(guest.RecentlyViewed), nil)
	suite.Equal(c.t, "expired: history", c.items(guest.SearchHistory), nil)
	suite.Equal(c.t, "expired: mirror", string(c.mirror().Wishes), "")
}

func lists(_ *testing.T, c *client) {
	suite.Equal(c.t, "empty", c.items(guest.RecentlyViewed), nil)
	for i, k := range []string{"a", "b", "c", "a"} {
		c.push(guest.RecentlyViewed, k, fmt.Sprintf(`{"n":%d,"text":"x y"}`, i))
	}
	suite.Equal(c.t, "newest first, each once", c.items(guest.RecentlyViewed), []string{"a", "c", "b"})
	items, err := c.Hot.Items(c.t.Context(), c.id, guest.RecentlyViewed)
	c.ok(err)
	suite.Equal(c.t, "the newer value", string(items[0].Value), `{"n":3,"text":"x y"}`)
	c.push(guest.RecentlyViewed, "aa", `1`) // another key is a prefix of this key
	c.push(guest.RecentlyViewed, "a", `2`)
	suite.Equal(c.t, "keys are compared whole", c.items(guest.RecentlyViewed), []string{"a", "aa", "c", "b"})
	suite.Equal(c.t, "the other list", c.items(guest.SearchHistory), nil)
	suite.Equal(c.t, "of another session", newClient(c.t, c.Harness).items(guest.RecentlyViewed), nil)
}

func listIsCapped(_ *testing.T, c *client) {
	for list, most := range map[guest.List]int{guest.RecentlyViewed: 50, guest.SearchHistory: 25} {
		var want []string
		for i := range most + 7 {
			k := fmt.Sprint("k", i)
			c.push(list, k, `1`)
			want = slices.Insert(want, 0, k)
		}
		suite.Equal(c.t, string(list), c.items(list), want[:most])
	}
}

func pushConcurrently(_ *testing.T, c *client) {
	c.concurrently(8, func(i int) {
		for n := range 20 {
			c.push(guest.RecentlyViewed, fmt.Sprint("k", (i+n)%60), `1`)
		}
	})
	keys := c.items(guest.RecentlyViewed)
	slices.Sort(keys)
	if once := slices.Compact(slices.Clone(keys)); len(once) != len(keys) || len(keys) > 50 {
		c.t.Errorf("%d items, %d of them different", len(keys), len(once))
	}
}

func search(_ *testing.T, c *client) {
	now := time.UnixMilli(clock.System().UnixMilli()).UTC()
	s := guest.Search{ID: guest.NewID(guest.SearchPrefix, now), Session: c.id, Query: json.RawMessage(`{"q":"vienna"}`), Created: now}
	c.ok(c.Hot.PutSearch(c.t.Context(), s))
	for range 2 { // reading does not extend its life
		got, found, err := c.Hot.Search(c.t.Context(), s.ID)
		c.ok(err)
		suite.Equal(c.t, "found", found, true)
		suite.Equal(c.t, "search", got, s)
		c.Pass(c.t, 25*time.Minute)
	}
	c.Pass(c.t, 11*time.Minute)
	_, found, err := c.Hot.Search(c.t.Context(), s.ID)
	c.ok(err)
	suite.Equal(c.t, "found after an hour", found, false)
}

func drop(_ *testing.T, c *client) {
	other := newClient(c.t, c.Harness)
	now := clock.System()
	ids := []guest.ID{guest.NewID(guest.SearchPrefix, now), guest.NewID(guest.SearchPrefix, now)}
	for _, one := range []*client{c, other} {
		one.session(guest.Change{Locale: new("de")})
		one.push(guest.RecentlyViewed, "a", `1`)
		one.push(guest.SearchHistory, "a", `1`)
		one.put("", `{"a":1}`)
		one.fill(`[1]`)
	}
	for _, id := range ids {
		c.ok(c.Hot.PutSearch(c.t.Context(), guest.Search{ID: id, Session: c.id, Query: json.RawMessage(`1`), Created: now}))
	}
	c.ok(c.Hot.DropSession(c.t.Context(), c.id, ids))
	for _, id := range ids {
		_, found, err := c.Hot.Search(c.t.Context(), id)
		c.ok(err)
		suite.Equal(c.t, "a search", found, false)
	}
	suite.Equal(c.t, "recent", c.items(guest.RecentlyViewed), nil)
	suite.Equal(c.t, "history", c.items(guest.SearchHistory), nil)
	suite.Equal(c.t, "mirror", string(c.mirror().Wishes), "")
	suite.Equal(c.t, "session", c.session(guest.Change{}).Locale, "")
	suite.Equal(c.t, "attributes", c.attributes(), guest.Attributes{})
	suite.Equal(c.t, "attributes of another", string(other.attributes().Value), `{"a":1}`)
	suite.Equal(c.t, "recent of another", other.items(guest.RecentlyViewed), []string{"a"})
	suite.Equal(c.t, "another", other.session(guest.Change{}).Locale, "de")
	suite.Equal(c.t, "mirror of another", string(other.mirror().Wishes), `[1]`)
	c.ok(c.Hot.DropSession(c.t.Context(), c.id, nil))
}

func ping(_ *testing.T, c *client) { c.ok(c.Hot.Ping(c.t.Context())) }
