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
