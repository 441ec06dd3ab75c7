package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// itemIDs are item IDs that paths, JSON or databases could change.
var itemIDs = []string{
	"a/b", "/", "%", "%2F", "a%2Fb", "...", "..a", "a b", " ", "+", "?q=1", "#top", `"`, `\`, "'; --", "<&>", ";", ",", "😀", "👩\u200d🚀", "é", "e\u0301", "שלום", "می\u200cخواهم",
	strings.Repeat("a", 256), strings.Repeat("&", 256), strings.Repeat(`"`, 256), strings.Repeat("😀", 64),
}

// wrongItemIDs are refused. badItemBytes are refused as JSON already.
var wrongItemIDs = []string{"", ".", "..", strings.Repeat("a", 257), strings.Repeat("😀", 65), "a\nb", "\x1b", "\x7f", "\u0085", "\u2028", "\u202e"}

var badItemBytes = []string{"a\x00", "\xff", "a\xc3", "\xed\xa0\x80"}

// TestItemIDs walks item IDs through every request with an item: they come back byte for byte.
func TestItemIDs(t *testing.T) {
	t.Parallel()
	inShelves(t, func(t *testing.T, s *server, _ *shelf) {
		r := newReceiver(t, s)
		b := s.begin()
		quote := func(item string) string {
			text, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		view := func(a answer) string {
			t.Helper()
			return parse[struct{ ItemID string }](t, a.body).ItemID
		}
		same := func(what, got, item string) {
			t.Helper()
			if got != item {
				t.Errorf("%s: %q, want %q", what, got, item)
			}
		}
		for _, item := range itemIDs {
			added := b.want(201, http.MethodPost, "/wishlist", `{"itemId":`+quote(item)+`}`)
			same("added", view(added), item)
			at := strings.TrimPrefix(added.header.Get("Location"), api)
			same("Location", at, "/wishlist/"+url.PathEscape(item))
			same("changed", view(b.want(200, http.MethodPatch, at, `{"note":"x"}`)), item)
			same("changed by another escape", view(b.want(200, http.MethodPatch, "/wishlist/"+strings.ReplaceAll(url.QueryEscape(item), "+", "%20"), `{"note":"y"}`)), item)
			same("viewed", view(b.want(201, http.MethodPost, "/session/recently-viewed", `{"itemId":`+quote(item)+`}`)), item)
			b.want(202, http.MethodPost, "/telemetry/page-view", `{"items":[{"page":"detail","itemId":`+quote(item)+`}]}`)
			asked := parse[struct{ Asked string }](t, b.send(http.MethodGet, "/catalogue/product/"+url.PathEscape(item), "").body).Asked
			same("upstream", strings.TrimPrefix(asked, "GET "), "/products/"+url.PathEscape(item)+"?currency=EUR&locale=en")
			m := parse[minted](t, b.want(201, http.MethodPost, "/handoff/"+tenant+"/"+url.PathEscape(item), `{"payload":{"items":[{"itemId":"a","quantity":1}]}}`).body)
			consumed := r.want(200, "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`, "")
			same("consumed", parse[struct{ ItemID string }](t, consumed).ItemID, item)
		}
		type listed struct{ Items []struct{ ItemID string } }
		var got []string
		for _, w := range parse[listed](t, b.want(200, http.MethodGet, "/wishlist", "").body).Items {
			got = append(got, w.ItemID)
		}
		if slices.Reverse(got); !slices.Equal(got, itemIDs) {
			t.Errorf("the list has %q, want %q", got, itemIDs)
		}
		same("the last viewed", parse[listed](t, b.want(200, http.MethodGet, "/session/recently-viewed", "").body).Items[0].ItemID, itemIDs[len(itemIDs)-1])
		for _, item := range itemIDs {
			b.want(204, http.MethodDelete, "/wishlist/"+url.PathEscape(item), "")
		}
		b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
		events := map[string]int{}
		if err := s.telemetry.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, e := range s.waiting() {
			kind := strings.TrimPrefix(e.Topic, "shop.guest.")
			if i := slices.Index(itemIDs, parse[struct{ ItemID string }](t, string(e.Payload)).ItemID); i >= 0 {
				events[kind]++
			}
		}
		for _, kind := range []string{"wishlist.added.v1", "wishlist.removed.v1", "page_view.recorded.v1", "detail.viewed.v1", "handoff.initiated.v1"} {
			if events[kind] != len(itemIDs) {
				t.Errorf("%d events %s name an item, want %d", events[kind], kind, len(itemIDs))
			}
		}
	})
}

func TestWrongItemIDs(t *testing.T) {
	t.Parallel()
	b := newShop(t).begin()
	for _, item := range append(slices.Clone(wrongItemIDs), badItemBytes...) {
		status, text, part := 400, `"`+strings.ReplaceAll(item, "\x00", `\u0000`)+`"`, `"code":"invalid"`
		if !slices.Contains(badItemBytes, item) {
			quoted, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			status, text, part = 422, string(quoted), `"pointer":"/itemId"`
		}
		b.want(status, http.MethodPost, "/wishlist", `{"itemId":`+text+`}`, part)
		b.want(status, http.MethodPost, "/session/recently-viewed", `{"itemId":`+text+`}`, part)
		if item == "" {
			continue // telemetry may name no item; in paths, the segment is missing
		}
		b.want(status, http.MethodPost, "/telemetry/page-view", `{"items":[{"page":"detail","itemId":`+text+`}]}`, strings.ReplaceAll(part, "/itemId", "/items/0/itemId"))
		b.want(422, http.MethodPost, "/handoff/"+tenant+"/"+url.PathEscape(item), `{"payload":{"items":[{"itemId":"a","quantity":1}]}}`, `"parameter":"itemId"`, "printable UTF-8")
		b.want(404, http.MethodPatch, "/wishlist/"+url.PathEscape(item), `{"note":"x"}`, `"code":"not-found"`)
		b.want(204, http.MethodDelete, "/wishlist/"+url.PathEscape(item), "")
	}
	b.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
}
