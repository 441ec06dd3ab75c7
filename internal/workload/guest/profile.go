package guest

import (
	"fmt"
	"strings"
)

// Profile describes a site's requests.
type Profile struct {
	Name   string   // as in the configuration
	Prefix string   // of event types
	Member string   // member with an item's ID
	Cargo  string   // body that mints a handoff
	Other  string   // another item ID
	Page   string   // item path in the catalogue, without the ID
	Cache  string   // name of the cache for item pages
	Vars   []string // environment variables that configure the profile

	quantities bool
}

// The profiles.
var (
	HotelSearch = &Profile{
		Name: "hotel", Prefix: "melmastoon.bff.consumer.", Cargo: Stay, Member: "propertyId",
		Other: strings.Replace(Stay, `"adults":2`, `"adults":3`, 1), Page: "/hotels/", Cache: "detail",
	}

	Shop = &Profile{
		Name: "shop", Prefix: "shop.guest.", Member: "itemId", Page: "/catalogue/product/", Cache: "product", quantities: true,
		Cargo: `{"payload":{"items":[{"itemId":"sku-00000001","quantity":2}]},"currency":"EUR","locale":"de-AT"}`,
		Other: `{"payload":{"items":[]},"currency":"EUR","locale":"de-AT"}`,
		Vars: []string{
			"HOLDFAST_GUEST__PROFILE=shop", "HOLDFAST_GUEST__PROFILES__SHOP__EVENT_PREFIX=shop.guest.", "HOLDFAST_GUEST__PROFILES__SHOP__MAX_QUANTITY=99",
			`HOLDFAST_GUEST__PROFILES__SHOP__PAYLOAD={"type":"object","required":["items"]}`, "HOLDFAST_GUEST__PROFILES__SHOP__TENANT=" + Tenant,
			`HOLDFAST_GUEST__PROFILES__SHOP__CRITERIA={"type":"object"}`, "HOLDFAST_GUEST__PROFILES__SHOP__UPSTREAMS__SEARCH__URL=http://127.0.0.1:1/", // unused
		},
	}
)

// Upstream returns the settings for fetching item pages from a URL.
func (p *Profile) Upstream(url string) []string {
	if p.quantities {
		const at = "HOLDFAST_GUEST__PROFILES__SHOP__UPSTREAMS__PRODUCT__"
		return []string{at + "URL=" + url, at + "PATH=itemId", at + "PARAMETERS=locale,currency", at + "FRESH=5m"}
	}
	return []string{"HOLDFAST_GUEST__UPSTREAMS__DETAIL=" + url}
}

// Item returns an item ID.
func (p *Profile) Item(n int) string {
	if p.quantities {
		return fmt.Sprintf("sku-%08d", n)
	}
	return Property(n)
}

// Mint returns the route that mints a handoff. In a shop, name is new for each cart.
func (p *Profile) Mint(name string) string { return "/handoff/" + Tenant + "/" + p.Handed(name) }

// Handed returns the item ID in a handoff.
func (p *Profile) Handed(name string) string {
	if p.quantities {
		return "cart-" + name
	}
	return Hotel
}

// Wish returns the body that adds an item to the wishlist.
func (p *Profile) Wish(n int) string {
	if p.quantities {
		return `{"itemId":"` + p.Item(n) + `"}`
	}
	return Wish(n)
}
