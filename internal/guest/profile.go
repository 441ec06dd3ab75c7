package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"holdfast/internal/ident"
)

// Profile has what differs between sites: the names, forms and schemas of what their guests keep,
// look for and hand over. A server has one profile. nil is Hotel.
type Profile struct {
	Name  string
	Types string // beginning of the types of events, with a dot at the end

	Texts       bool   // IDs of items are texts such as sku-4711; otherwise they are UUIDs
	MaxQuantity int    // of an entry of the wishlist; 0: entries have no quantity
	Tenant      string // UUID of the tenant of requests that name none; "": they must name one

	Payload  json.RawMessage // JSON Schema of what a handoff hands over; nil: guests cannot be handed over
	Criteria json.RawMessage // JSON Schema of what guests search by; nil: they cannot search

	Upstreams []Upstream // of the catalogue

	Site
}

// Hotel is the profile of a hotel search. Its items are properties, and its handoffs are stays.
var Hotel = &Profile{Name: "hotel", Types: "melmastoon.bff.consumer."}

// IsHotel reports whether items are properties and handoffs are stays.
func (p *Profile) IsHotel() bool { return p == nil || p.Name == Hotel.Name }

// Member returns the name of the member that has the ID of an item.
func (p *Profile) Member() string {
	if p.IsHotel() {
		return "propertyId"
	}
	return "itemId"
}

// EventType returns the type of a kind of event, such as wishlist.added.v1.
func (p *Profile) EventType(kind string) string {
	if p == nil {
		p = Hotel
	}
	return p.Types + kind
}

// ItemPattern is the form of a text that is the ID of an item. It needs no escapes in a path.
const ItemPattern = `^[A-Za-z0-9][A-Za-z0-9._~:-]{0,63}$`

var itemForm = regexp.MustCompile(ItemPattern)

// expectedItem is the detail of an error of an item that may be a text.
const expectedItem = "expected 1 to 64 letters, digits and . _ ~ : - that begin with a letter or a digit"

// ParseItem returns the only spelling of the ID of an item.
func (p *Profile) ParseItem(text string) (string, bool) {
	if p.IsHotel() || !p.Texts {
		return ident.ParseUUID(text)
	}
	return text, itemForm.MatchString(text)
}

// ExpectedItem is the detail of an error of an ID that ParseItem refuses.
func (p *Profile) ExpectedItem() string {
	if p.IsHotel() || !p.Texts {
		return ExpectedUUID
	}
	return expectedItem
}

// ParseTenant is the function ParseTenant, with the tenant of requests that name none.
func (p *Profile) ParseTenant(text string) (string, bool) {
	if text == "" && !p.IsHotel() && p.Tenant != "" {
		return p.Tenant, true
	}
	return ParseTenant(text)
}

// maxQuantity returns the largest quantity of an entry; 0: entries have none.
func (p *Profile) maxQuantity() int {
	if p.IsHotel() {
		return 0
	}
	return p.MaxQuantity
}

// checkQuantity returns an error unless an entry may have a quantity.
func (p *Profile) checkQuantity(n int) error {
	most := p.maxQuantity()
	if n < min(most, 1) || n > most {
		return BadMember(fmt.Sprintf("expected 1 to %d", most), "quantity")
	}
	return nil
}

// ItemKey returns the UUID by which databases find an item: the ID itself, or one (version 8) that
// follows from it. With a text, databases have both.
func ItemKey(item string) string {
	if id, ok := ident.ParseUUID(item); ok && id == item {
		return item
	}
	sum := sha256.Sum256([]byte("guest item\x00" + item))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	d := hex.EncodeToString(sum[:16])
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

// ItemText returns the ID of an item if databases must keep it beside its ItemKey, or else "".
func ItemText(item string) string {
	if ItemKey(item) == item {
		return ""
	}
	return item
}
