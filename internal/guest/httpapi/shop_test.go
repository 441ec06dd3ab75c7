package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/guest"
)

// shop is a profile whose items are texts with quantities.
func shop() *guest.Profile {
	return &guest.Profile{Name: "shop", Types: "shop.guest.", Texts: true, MaxQuantity: 99, Tenant: tenant}
}

func newShop(t testing.TB) *server {
	t.Helper()
	p := newParts(t)
	p.profile = shop()
	return serve(t, p)
}

// TestShopList: the list of a shop has items with texts as IDs, and quantities.
func TestShopList(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := s.begin()
	added := b.want(201, http.MethodPost, "/wishlist", `{"itemId":"sku-4711"}`, `"tenantId":"`+tenant+`","itemId":"sku-4711","quantity":1,"source":"detail","addedAt":`)
	if at := added.header.Get("Location"); at != api+"/wishlist/sku-4711" {
		t.Errorf("Location: %s", at)
	}
	b.want(200, http.MethodPost, "/wishlist", `{"itemId":"sku-4711","quantity":5}`, `"quantity":1`)
	b.want(200, http.MethodPatch, "/wishlist/sku-4711", `{"quantity":3}`, `"quantity":3`)
	b.want(200, http.MethodPatch, "/wishlist/sku-4711", `{"quantity":3,"note":"gift"}`, `"quantity":3`, `"note":"gift"`)
	b.want(201, http.MethodPost, "/wishlist", `{"itemId":"SKU-4711","quantity":99}`) // the case counts
	b.want(200, http.MethodGet, "/wishlist?limit=1", "", `"itemId":"SKU-4711","quantity":99`)
	b.want(200, http.MethodGet, "/wishlist", "", `"itemId":"sku-4711","quantity":3`)
	b.want(204, http.MethodDelete, "/wishlist/sku-4711", "")
	b.want(404, http.MethodPatch, "/wishlist/sku-4711", `{"quantity":1}`, `"code":"not-found"`)
	b.want(201, http.MethodPost, "/session/recently-viewed", `{"itemId":"sku-4711"}`, `"itemId":"sku-4711"`)
	b.want(200, http.MethodGet, "/session/recently-viewed", "", `"itemId":"sku-4711"`)

	for body, part := range map[string]string{
		`{"itemId":"a/b"}`: "itemId: expected 1 to 64 letters",
		`{"itemId":"-a"}`:  `"pointer":"/itemId"`,
		`{"itemId":"` + strings.Repeat("a", 65) + `"}`: `"pointer":"/itemId"`,
		`{}`:                              `"pointer":"/itemId"`,
		`{"itemId":"a","quantity":0}`:     "quantity: expected 1 to 99",
		`{"itemId":"a","quantity":100}`:   `"pointer":"/quantity"`,
		`{"itemId":"a","quantity":1.5}`:   `"pointer":"/quantity"`,
		`{"propertyId":"a"}`:              "expected tenantId, itemId, quantity, source, note",
		`{"itemId":"a","tenantId":"sku"}`: `"pointer":"/tenantId"`,
		`{"itemId":"a","source":"mail"}`:  `"pointer":"/source"`,
	} {
		b.want(422, http.MethodPost, "/wishlist", body, part)
	}
	for body, part := range map[string]string{`{}`: "note, quantity: expected", `{"quantity":0}`: "remove the entry instead", `{"quantity":-1}`: "expected 1 to 99"} {
		b.want(422, http.MethodPatch, "/wishlist/SKU-4711", body, part)
	}
	var got []string
	for _, e := range s.waiting() {
		payload := e.Payload[strings.Index(string(e.Payload), `"tenantId"`):]
		got = append(got, e.Topic+" "+strings.TrimPrefix(string(payload), `"tenantId":"`+tenant+`",`))
	}
	want := []string{
		`shop.guest.wishlist.added.v1 "itemId":"sku-4711","quantity":1,"source":"detail"}`,
		`shop.guest.wishlist.changed.v1 "itemId":"sku-4711","quantity":3,"source":"detail"}`,
		`shop.guest.wishlist.added.v1 "itemId":"SKU-4711","quantity":99,"source":"detail"}`,
		`shop.guest.wishlist.removed.v1 "itemId":"sku-4711","quantity":3,"source":"detail"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
