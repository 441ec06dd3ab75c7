package guest_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/client/guest"
	"holdfast/test/binary"
)

const shopConfig = `
[guest]
profile = "shop"
handoff_url = "https://checkout.example/?token={token}"

[guest.profiles.shop]
event_prefix = "shop.guest."
items = "text"
max_quantity = 99
user_keys = ["` + userSecret + `"]
tenant = "` + tenant + `"
payload = '{"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "minItems": 1}}}'
criteria = '{"type": "object", "additionalProperties": false, "properties": {"category": {"type": "string"}}}'

[guest.profiles.shop.upstreams.search]
url = "CATALOGUE/search"

[guest.profiles.shop.upstreams.product]
url = "CATALOGUE/products"
path = ["itemId"]
parameters = ["locale"]
`

const userSecret = "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"

// cart is the shop's payload.
type cart struct {
	Items []string `json:"items"`
}

func TestSite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "holdfast.toml")
	catalogue := httptest.NewServer(http.HandlerFunc(products))
	t.Cleanup(catalogue.Close)
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(shopConfig, "CATALOGUE", catalogue.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := binary.Start(t, dir, "HOLDFAST_CONFIG="+config, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0")
	site, err := guest.NewSite[cart](s.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, eur := t.Context(), "EUR"
	if _, err := site.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := site.SetPreferences(ctx, guest.PreferencesPatch{Currency: &eur}); err != nil || *v.Preferences.Currency != eur {
		t.Errorf("preferences %+v: %v", v, err)
	}
	wish, err := site.AddWish(ctx, guest.ItemWishRequest{ItemID: "sku-4711", Quantity: 2})
	if err != nil || wish.ItemID != "sku-4711" || wish.Quantity != 2 || wish.TenantID != tenant || wish.Source != guest.SourceDetail {
		t.Fatalf("wish %+v: %v", wish, err)
	}
	note := "gift"
	if wish, err = site.ChangeWish(ctx, "sku-4711", guest.WishChange{Quantity: 3, Note: &note}); err != nil || wish.Quantity != 3 || *wish.Note != note {
		t.Errorf("changed %+v: %v", wish, err)
	}
	if _, err := site.ChangeWish(ctx, "sku-4711", guest.WishChange{Quantity: 100}); !errors.Is(err, guest.CodeInvalid) {
		t.Errorf("a quantity of 100: %v", err)
	}
	testLists(t, site)
	if _, err := site.AddViewed(ctx, "", "sku-1"); err != nil {
		t.Error(err)
	}
	if v, err := site.Viewed(ctx); err != nil || len(v) != 1 || v[0].ItemID != "sku-1" {
		t.Errorf("viewed %+v: %v", v, err)
	}
	if ids, err := site.RecordPageViews(ctx, []guest.ItemPageView{{Page: "detail", ItemID: "sku-1"}, {Page: "home"}}); err != nil || len(ids) != 2 {
		t.Errorf("page views %q: %v", ids, err)
	}
	if ids, err := site.RecordFunnelEvents(ctx, []guest.ItemFunnelEvent{{Step: guest.FunnelEventStepWishlist, ItemID: "sku-4711"}}); err != nil || len(ids) != 1 {
		t.Errorf("funnel events %q: %v", ids, err)
	}
	handOver(t, s, site)
	testAttributes(t, site)
	testUser(t, s)
	testApp(t, s)
	testSearch(t, site)
	if err := site.RemoveWish(ctx, "sku-4711"); err != nil {
		t.Error(err)
	}
	for wish, err := range site.Wishlist(ctx) {
		t.Errorf("the wishlist has %+v: %v", wish, err)
	}
	if err := site.Clear(ctx); err != nil {
		t.Error(err)
	}
	if v, err := site.Session(ctx); err != nil || v.Preferences.Currency != nil {
		t.Errorf("session %+v: %v", v, err)
	}
}

// testLists adds quantities, passes guards to every change, and uses IDs that need escaping.
func testLists(t *testing.T, site *guest.Site[cart]) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, item := range []string{"a/b", "%2F", "?q#x", "a b", "...", "😀", "e\u0301", strings.Repeat("ä", 128)} {
		one, err := site.Add(ctx, item, 1)
		must(item, err)
		three, err := site.Add(ctx, item, 2, guest.NoneMatch(`"stale"`))
		must(item, err)
		if three.ItemID != item || three.Quantity != 3 || three.ID != one.ID || three.ETag == one.ETag {
			t.Errorf("1 and 2 of %q are %+v", item, three)
		}
		_, err = site.AddWish(ctx, guest.ItemWishRequest{ItemID: item, Max: 3})
		if !errors.Is(err, guest.CodeQuantityLimit) || !strings.Contains(err.Error(), "the limit is 3") {
			t.Errorf("beyond the limit: %v", err)
		}
		_, err = site.ChangeWish(ctx, item, guest.WishChange{Quantity: 1}, guest.Match(one.ETag))
		if e, ok := errors.AsType[*guest.Error](err); !ok || e.Code != guest.CodeWishlistChanged || e.ETag != three.ETag {
			t.Errorf("change with a stale tag: %v", err)
		}
		set, err := site.ChangeWish(ctx, item, guest.WishChange{Quantity: 1}, guest.Match(three.ETag))
		must("change", err)
		if err := site.RemoveWish(ctx, item, guest.Match(three.ETag)); !errors.Is(err, guest.CodeWishlistChanged) {
			t.Errorf("remove with a stale tag: %v", err)
		}
		must("remove", site.RemoveWish(ctx, item, guest.Match(set.ETag)))
		_, err = site.ChangeWish(ctx, item, guest.WishChange{Quantity: 1}, guest.Match("*"))
		if e, ok := errors.AsType[*guest.Error](err); !ok || e.Code != guest.CodeWishlistChanged || e.ETag != "" {
			t.Errorf("change of a missing entry: %v", err)
		}
	}
	all, tag, err := site.List(ctx)
	if err != nil || len(all) != 1 || tag == "" {
		t.Errorf("list %+v %q: %v", all, tag, err)
	}
	added, err := site.Add(ctx, "guarded", 1, guest.Match(tag))
	must("add", err)
	if _, err := site.Add(ctx, "guarded", 1, guest.Match(tag)); !errors.Is(err, guest.CodeWishlistChanged) {
		t.Errorf("add with a stale tag: %v", err)
	}
	if err := site.Clear(ctx, guest.Match(tag)); !errors.Is(err, guest.CodeWishlistChanged) {
		t.Errorf("clear with a stale tag: %v", err)
	}
	if _, err := site.SignIn(ctx, "x", guest.Match(tag)); err == nil {
		t.Error("signed in")
	}
	must("remove", site.RemoveWish(ctx, "guarded", guest.Match(added.ETag)))
}

func handOver(t *testing.T, s *binary.Server, site *guest.Site[cart]) {
	t.Helper()
	ctx := t.Context()
	var items []string
	for wish, err := range site.Wishlist(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, wish.ItemID)
	}
	if _, err := site.Mint(ctx, tenant, "cart-1", "", guest.PayloadRequest[cart]{Payload: cart{Items: []string{}}}); !errors.Is(err, guest.CodeInvalid) {
		t.Errorf("an empty cart: %v", err)
	}
	var minted guest.Minted
	for i, c := range []struct {
		key    string
		open   guest.IfOpen
		before bool // the previous call's handoff is returned again
	}{{"form-1", "", false}, {"form-1", "", true}, {"", guest.Replace, false}, {"", guest.Keep, true}} {
		m, err := site.Mint(ctx, tenant, "cart-1", c.key, guest.PayloadRequest[cart]{Payload: cart{items}, IfOpen: c.open})
		if err != nil || (m == minted) != c.before {
			t.Fatalf("mint %d: %+v %v, before %+v", i, m, err, minted)
		}
		minted = m
	}
	checkout, err := guest.NewSiteReceiver[cart](s.Internal(), guest.StaticToken(strings.TrimSpace(s.Verb("guest", "tokens", "create", "--service", "checkout", "--ttl", "1h"))))
	if err != nil {
		t.Fatal(err)
	}
	request := guest.ConsumeRequest{Token: minted.Token}
	for range 2 { // the second call repeats the first
		if _, err := checkout.Verify(ctx, minted.HandoffID, request); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		got, err := checkout.Consume(ctx, minted.HandoffID, "order", request)
		if err != nil || !slices.Equal(got.Payload.Items, items) || got.ItemID != "cart-1" || got.SessionID == "" || got.ConsumedAt == nil {
			t.Errorf("received %+v: %v", got, err)
		}
	}
	for range 2 {
		n, err := checkout.RemoveItems(ctx, minted.HandoffID, []guest.Sold{{ItemID: items[0], Quantity: 1}})
		if err != nil || n.Removed+n.Reduced != 1 {
			t.Errorf("removed %+v: %v", n, err)
		}
	}
	if _, err := checkout.RemoveItems(ctx, minted.HandoffID, []guest.Sold{{ItemID: "other"}}); !errors.Is(err, guest.CodeItemsRemoved) {
		t.Errorf("removed other items: %v", err)
	}
	if _, err := checkout.Consume(ctx, minted.HandoffID, "other", request); !errors.Is(err, guest.CodeHandoffConsumed) {
		t.Errorf("consumed again: %v", err)
	}
	_, err = site.Mint(ctx, tenant, "cart-1", "", guest.PayloadRequest[cart]{Payload: cart{items}})
	if spent, ok := errors.AsType[*guest.Error](err); !ok || spent.Code != guest.CodeHandoffConsumed || spent.Handoff == nil || spent.Handoff.HandoffID != minted.HandoffID {
		t.Errorf("minted again: %v", err)
	}
	want := []guest.HandoffStatus{guest.StatusConsumed, guest.StatusVoided}
	for h, err := range site.Handoffs(ctx) {
		if err != nil || len(want) == 0 || h.Status != want[0] || (h.HandoffID == minted.HandoffID) != (h.Status == guest.StatusConsumed) || !slices.Equal(h.Payload.Items, items) {
			t.Fatalf("handoff %+v: %v", h, err)
		}
		want = want[1:]
	}
}

func testAttributes(t *testing.T, site *guest.Site[cart]) {
	t.Helper()
	ctx := t.Context()
	a, first, err := site.PatchAttributes(ctx, guest.AttributesPatch{"theme": "dark", "step": 1}, "")
	if err != nil || a["theme"] != "dark" || first == "" {
		t.Fatalf("attributes %v, tag %s: %v", a, first, err)
	}
	if a, tag, err := site.Attributes(ctx); err != nil || len(a) != 2 || tag != first {
		t.Errorf("attributes %v, tag %s, want %s: %v", a, tag, first, err)
	}
	a, tag, err := site.PatchAttributes(ctx, guest.AttributesPatch{"step": nil}, first)
	if err != nil || len(a) != 1 || tag == first {
		t.Errorf("patched %v, tag %s: %v", a, tag, err)
	}
	if _, _, err := site.PatchAttributes(ctx, guest.AttributesPatch{"theme": "light"}, first); !errors.Is(err, guest.CodeAttributesChanged) {
		t.Errorf("a patch of changed attributes: %v", err)
	}
	if v, err := site.Session(ctx); err != nil || v.Attributes == nil || (*v.Attributes)["theme"] != "dark" {
		t.Errorf("session %+v: %v", v, err)
	}
}

func userToken(user string) string {
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"sub":%q,"aud":"holdfast-guest","iat":%d,"exp":%d}`, user, now, now+60)
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	mac := hmac.New(sha256.New, []byte(userSecret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// testUser uses two browsers of the same user.
func testUser(t *testing.T, s *binary.Server) {
	t.Helper()
	ctx, user := t.Context(), "u-4711"
	var browsers [2]*guest.Site[cart]
	for i := range browsers {
		site, err := guest.NewSite[cart](s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := site.AddWish(ctx, guest.ItemWishRequest{ItemID: fmt.Sprint("sku-", i)}); err != nil {
			t.Fatal(err)
		}
		if l, err := site.SignIn(ctx, userToken(user)); err != nil || l.Added != 1 {
			t.Fatalf("signed in %+v: %v", l, err)
		}
		browsers[i] = site
	}
	one, two := browsers[0], browsers[1]
	if v, err := one.Session(ctx); err != nil || v.UserID == nil || *v.UserID != user {
		t.Errorf("session %+v: %v", v, err)
	}
	sessions, err := two.UserSessions(ctx)
	if err != nil || len(sessions) != 2 {
		t.Fatalf("sessions %+v: %v", sessions, err)
	}
	other := sessions[slices.IndexFunc(sessions, func(u guest.UserSession) bool { return !u.Current })]
	if err := two.EndUserSession(ctx, other.SessionID); err != nil {
		t.Error(err)
	}
	if _, err := one.UserSessions(ctx); !errors.Is(err, guest.CodeNotSignedIn) {
		t.Errorf("an ended session: %v", err)
	}
	if _, err := one.SignIn(ctx, userToken(user)); err != nil {
		t.Error(err)
	}
	if err := two.EndOtherSessions(ctx); err != nil {
		t.Error(err)
	}
	if left, err := two.UserSessions(ctx); err != nil || len(left) != 1 || !left[0].Current {
		t.Errorf("sessions %+v: %v", left, err)
	}
	if err := two.SignOut(ctx); err != nil {
		t.Error(err)
	}
	if v, err := two.Session(ctx); err != nil || v.UserID != nil {
		t.Errorf("after the sign-out %+v: %v", v, err)
	}
}

// testApp uses a token instead of a cookie.
func testApp(t *testing.T, s *binary.Server) {
	t.Helper()
	ctx, tokens := t.Context(), new(guest.MemoryTokens)
	app := func() *guest.Site[cart] {
		site, err := guest.NewSite[cart](s.URL)
		if err != nil {
			t.Fatal(err)
		}
		site.HTTP.Jar = noCookies{t}
		site.UseTokens(tokens)
		return site
	}
	one := app()
	if n := count(t, one); n != 0 {
		t.Errorf("a new app has %d wishes", n)
	}
	var all sync.WaitGroup
	for i := range 4 { // the first request starts the session
		all.Go(func() {
			if _, err := one.AddWish(ctx, guest.ItemWishRequest{ItemID: fmt.Sprint("app-", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := count(t, app()); n != 4 { // as after a restart
		t.Errorf("the app has %d wishes, want 4", n)
	}
	before, err := tokens.Load(ctx)
	if err != nil || before == "" {
		t.Errorf("token %q: %v", before, err)
	}
	if _, err := one.SignIn(ctx, userToken("u-app")); err != nil {
		t.Error(err)
	}
	if v, err := app().Session(ctx); err != nil || v.UserID == nil || *v.UserID != "u-app" {
		t.Errorf("session %+v: %v", v, err)
	}
	if err := one.SignOut(ctx); err != nil {
		t.Error(err)
	}
	if after, err := tokens.Load(ctx); err != nil || after == before || count(t, one) != 0 {
		t.Errorf("after the sign-out: token %q, before %q: %v", after, before, err)
	}
	if err := tokens.Save(ctx, "x"); err != nil { // unknown to the server
		t.Fatal(err)
	}
	if v, err := one.Session(ctx); err != nil || v.UserID != nil {
		t.Errorf("session %+v: %v", v, err)
	}
	failing := app()
	failing.UseTokens(failingTokens{})
	if _, err := failing.Session(ctx); !errors.Is(err, errTokens) {
		t.Errorf("a store that fails: %v", err)
	}
}

type noCookies struct{ t *testing.T }

func (n noCookies) SetCookies(_ *url.URL, cookies []*http.Cookie) {
	n.t.Errorf("an app got the cookies %v", cookies)
}
func (noCookies) Cookies(*url.URL) []*http.Cookie { return nil }

var errTokens = errors.New("the key chain is locked")

type failingTokens struct{}

func (failingTokens) Load(context.Context) (string, error) { return "", errTokens }
func (failingTokens) Save(context.Context, string) error   { return errTokens }

func count(t *testing.T, site *guest.Site[cart]) (n int) {
	t.Helper()
	for _, err := range site.Wishlist(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

type criteria struct {
	Category string `json:"category,omitempty"`
}

type product struct {
	ItemID string `json:"itemId"`
	Name   string `json:"name"`
}

// products is the shop's catalogue: two products in lists, and any requested product.
func products(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, `{"itemId":"sku-1","name":"%s %s"}`, r.URL.Path, r.FormValue("locale"))
		return
	}
	var q struct {
		Criteria criteria
		Page     int
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"total":2,"items":[{"itemId":"sku-%d","name":"%s %[1]d"}]}`, q.Page, q.Criteria.Category)
}

func testSearch(t *testing.T, site *guest.Site[cart]) {
	t.Helper()
	ctx, catalogue := t.Context(), guest.NewCatalogue[criteria, product](site)
	toys := guest.CriteriaQuery[criteria]{Criteria: criteria{"toys"}, PageSize: 1}
	found, err := catalogue.Search(ctx, toys)
	if err != nil || found.Total != 2 || len(found.Items) != 1 || found.Items[0] != (product{"sku-1", "toys 1"}) || found.Query.Criteria != toys.Criteria || found.NextPage == nil {
		t.Fatalf("results %+v: %v", found, err)
	}
	second, err := catalogue.Continue(ctx, found.SearchID, 2)
	if err != nil || second.Page != 2 || second.NextPage != nil || second.Items[0].Name != "toys 2" {
		t.Errorf("the second page %+v: %v", second, err)
	}
	if history, err := catalogue.History(ctx); err != nil || len(history) != 1 || history[0].SearchID != found.SearchID || history[0].Query.Criteria != toys.Criteria {
		t.Errorf("history %+v: %v", history, err)
	}
	wrong := guest.NewCatalogue[map[string]int, product](site)
	if _, err := wrong.Search(ctx, guest.CriteriaQuery[map[string]int]{Criteria: map[string]int{"color": 1}}); !errors.Is(err, guest.CodeInvalid) {
		t.Errorf("criteria that do not match: %v", err)
	}
	var p product
	if err := site.Answer(ctx, guest.Upstream{Name: "product", Path: []string{"sku-1"}, Parameters: url.Values{"locale": {"de"}}}, &p); err != nil || p.Name != "/products/sku-1 de" {
		t.Errorf("product %+v: %v", p, err)
	}
	if err := site.Answer(ctx, guest.Upstream{Name: "shelf", Path: []string{"a/b"}}, &p); !errors.Is(err, guest.CodeNotFound) {
		t.Errorf("an unknown upstream: %v", err)
	}
}
