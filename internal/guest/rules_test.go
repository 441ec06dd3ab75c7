package guest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/tenants"
)

var now = time.UnixMilli(1_790_000_000_123).UTC()

func TestIDs(t *testing.T) {
	t.Parallel()
	seen := map[guest.ID]bool{}
	var suffixes []string
	for range 1000 {
		id := guest.NewID(guest.SessionPrefix, now)
		if got, ok := guest.ParseID(guest.SessionPrefix, string(id)); !ok || got != id || seen[id] {
			t.Fatalf("%s: %v", id, ok)
		}
		seen[id] = true
		suffixes = append(suffixes, string(id)[14:])
	}
	// Random IDs in one millisecond are not sorted; sorted IDs could be guessed.
	if slices.IsSorted(suffixes) {
		t.Error("the random parts are in order")
	}
	if a, b := guest.NewID("x_", now), guest.NewID("x_", now.Add(time.Millisecond)); a >= b {
		t.Errorf("%s is not before %s", a, b)
	}
	valid := string(guest.NewID(guest.SessionPrefix, now))
	for _, text := range []string{
		"", "gms_", valid[4:], "wsh_" + valid[4:], strings.ToLower(valid), "gms_" + strings.ToLower(valid[4:]), valid + "0", valid[:29], valid + "\n",
		"gms_8" + valid[5:], "gms_" + strings.Repeat("U", 26), "gms_" + strings.Repeat("I", 26), " " + valid,
	} {
		if _, ok := guest.ParseID(guest.SessionPrefix, text); ok {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestCookies(t *testing.T) {
	t.Parallel()
	const first, second = "the first secret of this test, 32 bytes", "the second secret of this test, 32 bytes"
	old, current := guest.NewCookies(first, nil), guest.NewCookies(second, []string{first})
	session := guest.NewID(guest.SessionPrefix, now)
	for name, c := range map[string]struct {
		by, signed *guest.Cookies
		old, ok    bool
	}{
		"own":            {old, old, false, true},
		"current":        {current, current, false, true},
		"an older key":   {current, old, true, true},
		"an unknown key": {old, current, false, false},
	} {
		cookie := c.signed.Sign(session)
		got, isOld, ok := c.by.Verify(cookie)
		if ok != c.ok || isOld != c.old || ok && got != session || len(cookie) > guest.MaxCookie {
			t.Errorf("%s: %s, %v, %v", name, got, isOld, ok)
		}
	}
	cookie := old.Sign(session)
	for i := range cookie {
		for b := range 256 {
			if byte(b) == cookie[i] {
				continue
			}
			if _, _, ok := old.Verify(cookie[:i] + string([]byte{byte(b)}) + cookie[i+1:]); ok {
				t.Fatalf("byte %d as %#x is accepted", i, b)
			}
		}
	}
	for _, text := range []string{"", ".", "..", string(session), cookie + ".", cookie + "A", "." + cookie, cookie[:len(cookie)-1], strings.Repeat("a", 10_000)} {
		if _, _, ok := old.Verify(text); ok {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestAddWish(t *testing.T) {
	t.Parallel()
	w := guest.Wish{ID: "new", Tenant: "t", Item: "p"}
	live := guest.Wish{ID: "old", Tenant: "t", Item: "p", Added: now.Add(-1)}
	removed := live
	removed.Removed = now.Add(-1)
	added := w
	added.Added = now
	revived := added
	revived.ID = "old"
	other := w
	other.Tenant = "other"
	for name, c := range map[string]struct {
		wish, existing guest.Wish
		live           int
		want           guest.AddedWish
		err            error
	}{
		"new":                  {w, guest.Wish{}, 0, guest.AddedWish{Outcome: guest.WishAdded, Wish: added}, nil},
		"the 100th":            {w, guest.Wish{}, 99, guest.AddedWish{Outcome: guest.WishAdded, Wish: added}, nil},
		"the 101st":            {w, guest.Wish{}, 100, guest.AddedWish{Outcome: guest.WishlistFull}, guest.ErrWishlistFull},
		"live":                 {w, live, 1, guest.AddedWish{Outcome: guest.WishKept, Wish: live}, nil},
		"live in a full list":  {w, live, 100, guest.AddedWish{Outcome: guest.WishKept, Wish: live}, nil},
		"removed":              {w, removed, 0, guest.AddedWish{Outcome: guest.WishAdded, Wish: revived}, nil},
		"removed, full":        {w, removed, 100, guest.AddedWish{Outcome: guest.WishlistFull}, guest.ErrWishlistFull},
		"live, other tenant":   {other, live, 1, guest.AddedWish{Outcome: guest.WishOfOtherTenant}, guest.ErrOtherTenant},
		"removed, oth. tenant": {other, removed, 0, guest.AddedWish{Outcome: guest.WishOfOtherTenant}, guest.ErrOtherTenant},
	} {
		a := guest.AddWish{Wish: c.wish, Event: "event"}
		got, e, err := a.Decide(c.existing, c.live, now)
		if got != c.want || !errors.Is(got.Err(), c.err) || (got.Err() == nil) != (c.err == nil) || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if (e.ID == "event") != (got.Outcome == guest.WishAdded) {
			t.Errorf("%s: the event %+v", name, e)
		}
	}
}

func TestMintCheck(t *testing.T) {
	t.Parallel()
	missing := errors.New("missing")
	today, yesterday := now.Format(time.DateOnly), now.AddDate(0, 0, -1).Format(time.DateOnly)
	for name, c := range map[string]struct {
		checkIn   string
		suspended bool
		missing   error
		want      error
	}{
		"today":                 {today, false, nil, nil},
		"missing":               {today, false, missing, missing},
		"suspended":             {today, true, nil, tenants.ErrSuspended},
		"suspended and missing": {today, true, missing, tenants.ErrSuspended},
		"missing and past":      {yesterday, false, missing, missing},
	} {
		m := handoffs.Mint{Handoff: handoffs.Handoff{Stay: handoffs.Stay{CheckIn: c.checkIn}}, TimeZone: "UTC", Missing: c.missing}
		if err := m.Check(c.suspended, now); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	past := handoffs.Mint{Handoff: handoffs.Handoff{Stay: handoffs.Stay{CheckIn: yesterday}}, TimeZone: "UTC"}
	if err := past.Check(false, now); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("past: %v", err)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": true, strings.Repeat("😀", 280): true, strings.Repeat("a", 281): false, "\xff": false, "a\x00": false, "a\nb": true,
	} {
		if err := guest.CheckNote(text); (err == nil) != ok {
			t.Errorf("note %.20q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{
		"": false, "a": true, strings.Repeat("a", 255): true, strings.Repeat("a", 256): false, "ä": false, "a\x7f": false, "~": true, "\n": false,
	} {
		if err := guest.CheckKey(text); (err == nil) != ok {
			t.Errorf("key %.20q: %v", text, err)
		}
	}
}

func TestCompositeKey(t *testing.T) {
	t.Parallel()
	m := guest.Mutation{Session: "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B", Route: "POST /wishlist", Key: "a|b"}
	if got := m.CompositeKey(); len(got) != 64 || got != (&guest.Mutation{Session: m.Session, Route: m.Route, Key: m.Key, Digest: [32]byte{1}}).CompositeKey() {
		t.Errorf("%s", got)
	}
	for _, other := range []guest.Mutation{
		{Session: "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7C", Route: m.Route, Key: m.Key},
		{Session: m.Session, Route: "POST /wishlists", Key: m.Key},
		{Session: m.Session, Route: m.Route, Key: "a|c"},
	} {
		if other.CompositeKey() == m.CompositeKey() {
			t.Errorf("%+v has the same key", other)
		}
	}
}

func TestAddQuantity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has, adds, most int // has: the live entry's quantity, or 0
		want            int // 0: refused
	}{
		"new": {0, 2, 99, 2}, "new, at the limit": {0, 5, 5, 5}, "new, beyond the limit": {0, 6, 5, 0}, "more": {1, 2, 99, 3}, "to the limit": {3, 2, 5, 5},
		"beyond the limit": {4, 2, 5, 0}, "above a lower limit": {7, 1, 5, 0},
	} {
		w := guest.Wish{ID: "old", Tenant: "t", Item: "p", Quantity: c.has, Note: "mine", Source: "list", Added: now.Add(-1)}
		if c.has == 0 {
			w = guest.Wish{}
		}
		a := guest.AddWish{Wish: guest.Wish{ID: "new", Tenant: "t", Item: "p", Quantity: c.adds, Note: "other", Source: "map"}, Most: c.most, Event: "event"}
		r, e, err := a.Decide(w, 1, now)
		if err != nil || r.Wish.Quantity != c.want || (e.ID != "") != (c.want > 0) || c.has > 0 && c.want > 0 && (r.Wish.Note != "mine" || r.Wish.Source != "list" || r.Wish.ID != "old") {
			t.Errorf("%s: %+v, %+v, %v", name, r, e, err)
		}
		tooMany, refused := errors.AsType[*guest.QuantityError](r.Err())
		if refused != (c.want == 0) || refused && *tooMany != (guest.QuantityError{Quantity: c.has + c.adds, Most: c.most}) {
			t.Errorf("%s: the error is %v", name, r.Err())
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	tags := func(tags ...string) *guest.Tags { return &guest.Tags{Tags: tags} }
	anyTag := &guest.Tags{Any: true}
	for name, c := range map[string]struct {
		guard         guest.Guard
		a, b, missing bool // whether it holds for these tags
	}{
		"no guard":        {guest.Guard{}, true, true, true},
		"a":               {guest.Guard{Match: tags("a")}, true, false, false},
		"a or b":          {guest.Guard{Match: tags("a", "b")}, true, true, false},
		"only weak tags":  {guest.Guard{Match: tags()}, false, false, false},
		"an empty tag":    {guest.Guard{Match: tags("")}, false, false, false},
		"any":             {guest.Guard{Match: anyTag}, true, true, false},
		"not a":           {guest.Guard{NoneMatch: tags("a")}, false, true, true},
		"none":            {guest.Guard{NoneMatch: anyTag}, false, false, true},
		"a, but not any":  {guest.Guard{Match: tags("a"), NoneMatch: anyTag}, false, false, false},
		"any except a":    {guest.Guard{Match: anyTag, NoneMatch: tags("a")}, false, true, false},
		"a quoted * is a": {guest.Guard{Match: tags("*")}, false, false, false},
	} {
		for tag, holds := range map[string]bool{"a": c.a, "b": c.b, "": c.missing} {
			err := c.guard.Check(tag)
			changed, refused := errors.AsType[*guest.ChangedError](err)
			if refused == holds || refused && (changed.Tag != tag || !errors.Is(err, guest.ErrChanged)) {
				t.Errorf("%s for %q: %v", name, tag, err)
			}
		}
	}
	if guest.ListTag(nil) != guest.ListTag([]guest.Wish{}) || guest.ListTag(nil) == "" {
		t.Error("the tag of an empty list")
	}
}
