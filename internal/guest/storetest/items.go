package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

func itemChecks() []check {
	return []check{
		{"List", itemList},
		{"Quantity", itemQuantity},
		{"Bytes", itemBytes},
		{"Increase", increase},
		{"IncreaseConcurrently", increaseConcurrently},
		{"LinkQuantities", linkQuantities},
		{"Handoff", itemHandoff},
		{"StayOrPayload", stayOrPayload},
	}
}

var shop = &guest.Profile{Name: "shop", Types: "shop.guest.", Texts: true, MaxQuantity: 99, Payload: json.RawMessage(`{}`)}

var profiles = []*guest.Profile{nil, shop}

func (u *user) in(p *guest.Profile) *user {
	o := u.other()
	o.profile = p
	return o
}

func (u *user) quantity(n int) int {
	if u.profile == shop {
		return n
	}
	return 0
}

func (u *user) wish(n int) guest.Wish {
	return guest.Wish{ID: guest.NewID(guest.WishPrefix, clock.System()), Tenant: tenant, Item: u.item(n), Quantity: u.quantity(1), Source: "list"}
}

func (u *user) item(n int) string {
	if u.profile == shop {
		return fmt.Sprint("sku-", n)
	}
	return property(n)
}

func (u *user) number(item string) string {
	if u.profile == shop {
		return strings.TrimPrefix(item, "sku-")
	}
	return strings.TrimLeft(item[:8], "0")
}

func shopItem(item string, quantity int) guest.Wish {
	return guest.Wish{ID: guest.NewID(guest.WishPrefix, clock.System()), Tenant: tenant, Item: item, Quantity: quantity, Source: "list"}
}

func itemList(_ *testing.T, u *user) {
	u = u.in(shop)
	add := func(item string, quantity int) guest.AddedWish {
		u.t.Helper()
		r, err := u.tryAdd(shopItem(item, quantity))
		suite.Must(u.t, "AddWish", err)
		return r
	}
	a, b, c := add("sku-4711", 2).Wish, add("SKU-4711", 1).Wish, add(property(1), 3).Wish
	a.Quantity = 7
	suite.Equal(u.t, "again", add("sku-4711", 5), guest.AddedWish{Outcome: guest.WishIncreased, Wish: a})
	all := u.wishes(2)
	suite.Equal(u.t, "entries", len(all), 3)
	for _, w := range all {
		want := map[string]guest.Wish{"sku-4711": a, "SKU-4711": b, property(1): c}[w.Item]
		suite.Equal(u.t, w.Item, w, want)
	}
	remove := func(item string) bool {
		o, err := u.h.Store.RemoveWish(u.t.Context(), guest.RemoveWish{Mutation: u.mutation(), Item: item, Event: newEvent()})
		suite.Must(u.t, "RemoveWish", err)
		return o.Result.Removed
	}
	suite.Equal(u.t, "removed", []bool{remove("sku-4711"), remove("sku-4711"), remove("sku")}, []bool{true, false, false})
	again := add("sku-4711", 7).Wish
	suite.Equal(u.t, "revived", []any{again.ID, again.Item, again.Quantity}, []any{a.ID, "sku-4711", 7})
}

// itemBytes checks that item IDs are stored and compared byte by byte.
func itemBytes(_ *testing.T, u *user) {
	u = u.in(shop)
	u.ring()
	ids := []string{
		"é", "e\u0301", "É", "a/b", "%2F", " ", " a", "a ", "'; --", `\`, `"`, "%s_%", "שלום", "👩\u200d🚀", "می\u200cخواهم", "\u0301",
		strings.Repeat("a", guest.MaxItem), strings.Repeat("a", guest.MaxItem-1), strings.Repeat("😀", guest.MaxItem/4), property(1),
	}
	for _, id := range ids {
		suite.Equal(u.t, id, u.add(shopItem(id, 1)).Item, id)
		m := u.newMint(time.Minute)
		m.Handoff.Item, m.Site = id, "https://book.example/{itemId}?i={itemId}#{token}"
		again := m
		h, err := u.tryMint(m)
		suite.Must(u.t, "Mint", err)
		o, err := u.h.Store.Mint(u.t.Context(), again)
		suite.Must(u.t, "Mint again", err)
		site, err := url.Parse(o.Result.URL)
		suite.Must(u.t, "Parse", err)
		suite.Equal(u.t, "in the redirect", []string{site.Path, site.Query().Get("i")}, []string{"/" + id, id})
		consumed, _ := u.consume(attempt(h, "checkout", "a"))
		suite.Equal(u.t, "handed over", consumed.Item, id)
	}
	var got []string
	for _, w := range u.wishes(7) {
		got = append(got, w.Item)
	}
	slices.Reverse(got)
	suite.Equal(u.t, "listed", got, ids)
	for _, e := range u.h.Events(u.t, u.session) {
		var payload struct {
			ItemID string `json:"itemId"`
		}
		suite.Must(u.t, "Unmarshal", json.Unmarshal(e.Payload, &payload))
		if !slices.Contains(ids, payload.ItemID) {
			u.t.Errorf("an event has the item %q", payload.ItemID)
		}
	}
	if _, err := u.tryAdd(shopItem(strings.Repeat("a", guest.MaxItem+1), 1)); err == nil {
		u.t.Error("the database stores an ID of 257 bytes")
	}
}

func itemQuantity(_ *testing.T, u *user) {
	u = u.in(shop)
	u.add(shopItem("sku-4711", 2))
	change := func(c guest.ChangeWish) guest.Wish {
		u.t.Helper()
		c.Mutation, c.Item, c.Event = u.mutation(), "sku-4711", newEvent()
		o, err := u.h.Store.ChangeWish(u.t.Context(), c)
		suite.Must(u.t, "ChangeWish", err)
		suite.Equal(u.t, "stored", u.wishes(10), []guest.Wish{o.Result.Wish})
		return o.Result.Wish
	}
	suite.Equal(u.t, "quantity", change(guest.ChangeWish{Quantity: 9}).Quantity, 9)
	noted := change(guest.ChangeWish{Note: new("gift")})
	suite.Equal(u.t, "noted", []any{noted.Quantity, noted.Note}, []any{9, "gift"})
	both := change(guest.ChangeWish{Note: new(""), Quantity: 1})
	suite.Equal(u.t, "both", []any{both.Quantity, both.Note}, []any{1, ""})
	change(guest.ChangeWish{Quantity: 1})
	var kinds []string
	for _, e := range u.h.Events(u.t, u.session) {
		kinds = append(kinds, e.Type)
	}
	suite.Equal(u.t, "events", kinds, []string{"shop.guest.wishlist.added.v1", "shop.guest.wishlist.changed.v1", "shop.guest.wishlist.changed.v1"})
}

// itemHandoff checks that a payload is stored byte for byte, and that a token with another payload is refused.
func itemHandoff(_ *testing.T, u *user) {
	u = u.in(shop)
	u.ring()
	h := u.newHandoff(time.Minute)
	suite.Equal(u.t, "listed", u.handoffs(10), []handoffs.Handoff{h})
	for name, claims := range otherClaims(h) {
		other := attempt(h, "checkout", "a")
		other.Claims = claims
		u.refused(name, other, handoffs.ErrToken)
	}
	consumed, _ := u.consume(attempt(h, "checkout", "a"))
	suite.Equal(u.t, "payload", string(consumed.Payload), string(h.Payload))
	suite.Equal(u.t, "item", consumed.Item, u.item(1))
	u.refused("again", attempt(h, "checkout", "b"), handoffs.ErrConsumed)
}

func stayOrPayload(_ *testing.T, u *user) {
	u = u.in(shop)
	u.ring()
	m := u.newMint(time.Minute)
	m.Handoff.Payload = nil
	if _, err := u.h.Store.Mint(u.t.Context(), m); err == nil || errors.Is(err, handoffs.ErrNoKey) {
		u.t.Errorf("a handoff without a stay and a payload: %v", err)
	}
}

// increase checks that adding an item again adds to its quantity, up to a limit, once per key.
func increase(_ *testing.T, u *user) {
	u = u.in(shop)
	first := u.add(shopItem("sku-4711", 1))
	m := u.mutation()
	add := func(m guest.Mutation, quantity, most int) guest.Once[guest.AddedWish] {
		u.t.Helper()
		w := shopItem("sku-4711", quantity)
		w.Note, w.Source = "other", "map"
		o, err := u.h.Store.AddWish(u.t.Context(), guest.AddWish{Mutation: m, Wish: w, Most: most, Event: newEvent()})
		suite.Must(u.t, "AddWish", err)
		return o
	}
	want := first
	want.Quantity = 3
	for i := range 3 {
		suite.Equal(u.t, "1 and 2", add(m, 2, 99), guest.Once[guest.AddedWish]{Result: guest.AddedWish{Outcome: guest.WishIncreased, Wish: want}, Replayed: i > 0})
	}
	m = u.mutation()
	for i := range 2 {
		refused := guest.AddedWish{Outcome: guest.TooManyWishes, Quantity: 6, Most: 5}
		suite.Equal(u.t, "beyond the limit", add(m, 3, 5), guest.Once[guest.AddedWish]{Result: refused, Replayed: i > 0})
	}
	suite.Equal(u.t, "stored", u.wishes(10), []guest.Wish{want})
	want.Quantity = 5
	suite.Equal(u.t, "up to the limit", add(u.mutation(), 2, 5).Result.Wish, want)
	_, err := u.h.Store.RemoveWish(u.t.Context(), guest.RemoveWish{Mutation: u.mutation(), Item: "sku-4711", Event: newEvent()})
	suite.Must(u.t, "RemoveWish", err)
	suite.Equal(u.t, "a removed quantity does not count", add(u.mutation(), 2, 2).Result.Wish.Quantity, 2)
	var kinds []string
	for _, e := range u.h.Events(u.t, u.session) {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "shop.guest.wishlist."))
	}
	suite.Equal(u.t, "events", kinds, []string{"added.v1", "changed.v1", "changed.v1", "removed.v1", "added.v1"})
}

// increaseConcurrently checks that all concurrent additions count, and none exceeds the limit.
func increaseConcurrently(_ *testing.T, u *user) {
	u = u.in(shop)
	const racers, each, most = 4, 5, 17
	var added, refused atomic.Int64
	var all sync.WaitGroup
	for r := range racers {
		racer := u.racer(r)
		all.Go(func() {
			for range each {
				o, err := racer.h.Store.AddWish(u.t.Context(), guest.AddWish{Mutation: racer.mutation(), Wish: shopItem("sku-4711", 1), Most: most, Event: newEvent()})
				suite.Must(u.t, "AddWish", err)
				if o.Result.Err() == nil {
					added.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	suite.Equal(u.t, "added and refused", []int64{added.Load(), refused.Load()}, []int64{most, racers*each - most})
	suite.Equal(u.t, "quantity", u.wishes(10)[0].Quantity, most)
}

// linkQuantities checks an item's quantities in both lists, by merge rule.
func linkQuantities(_ *testing.T, u *user) {
	for _, c := range []struct {
		rule             guest.MergeRule
		user, guest, sum int
	}{
		{guest.MergeUnion, 2, 3, 2}, {guest.MergeNewest, 2, 3, 3}, {guest.MergeSum, 2, 3, 5}, {guest.MergeSum, 60, 60, 99}, {guest.MergeSum, 99, 1, 99}, {guest.MergeKeep, 2, 3, 2},
		{guest.MergeUnion, 0, 3, 3}, {guest.MergeNewest, 0, 3, 3}, {guest.MergeSum, 0, 3, 3}, {guest.MergeKeep, 0, 3, 3},
		{guest.MergeUnion, 2, 0, 2}, {guest.MergeNewest, 2, 0, 2}, {guest.MergeSum, 2, 0, 2}, {guest.MergeKeep, 2, 0, 2},
	} {
		name := "user-" + ident.New()
		var list guest.ID
		for _, quantity := range []int{c.user, c.guest} {
			one := u.in(shop)
			if quantity > 0 {
				one.add(shopItem("sku-4711", quantity))
			}
			l := newLink(one, name)
			l.Profile = merging(shop, c.rule)
			list = one.link(l).List
		}
		all := u.in(shop).of(list).wishes(10)
		suite.Equal(u.t, "entries", len(all), 1)
		suite.Equal(u.t, fmt.Sprintf("%s of %d and %d", c.rule, c.user, c.guest), all[0].Quantity, c.sum)
	}
}
