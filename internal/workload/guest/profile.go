package guest

import "fmt"

// Profile is how the requests of a site look. A server has one.
type Profile struct {
	Name   string
	Prefix string   // of the types of events
	Mint   string   // the route that mints a handoff
	Handed string   // ID of the item that a handoff names
	Cargo  string   // body that mints a handoff
	Vars   []string // settings of a server

	quantities bool
}

// The profiles.
var (
	HotelSearch = &Profile{Name: "hotel", Prefix: "melmastoon.bff.consumer.", Mint: Mint, Handed: Hotel, Cargo: Stay}

	Shop = &Profile{
		Name: "shop", Prefix: "shop.guest.", Mint: "/handoff/" + Tenant + "/cart-1", Handed: "cart-1", quantities: true,
		Cargo: `{"payload":{"items":[{"itemId":"sku-00000001","quantity":2}]},"currency":"EUR","locale":"de-AT"}`,
		Vars: []string{
			"HOLDFAST_GUEST__PROFILE=shop", "HOLDFAST_GUEST__PROFILES__SHOP__EVENT_PREFIX=shop.guest.", "HOLDFAST_GUEST__PROFILES__SHOP__MAX_QUANTITY=99",
			`HOLDFAST_GUEST__PROFILES__SHOP__PAYLOAD={"type":"object","required":["items"]}`, "HOLDFAST_GUEST__PROFILES__SHOP__TENANT=" + Tenant,
		},
	}
)

// Item returns the ID of an item.
func (p *Profile) Item(n int) string {
	if p.quantities {
		return fmt.Sprintf("sku-%08d", n)
	}
	return Property(n)
}

// Wish returns the body that adds an item to the wishlist.
func (p *Profile) Wish(n int) string {
	if p.quantities {
		return `{"itemId":"` + p.Item(n) + `"}`
	}
	return Wish(n)
}
