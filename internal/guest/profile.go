package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/ident"
)

// Profile describes a kind of site: names, formats and schemas of items, searches and handoffs. nil means Hotel.
type Profile struct {
	Name  string // in [guest.profiles]
	Types string // event type prefix, with a trailing dot

	Texts       bool   // item IDs are texts such as sku-4711, otherwise UUIDs
	MaxQuantity int    // per wishlist entry; 0: no quantities
	Tenant      string // default tenant (UUID); "": requests must name a tenant

	Payload  json.RawMessage // JSON Schema for handoff payloads; nil: no handoffs
	Criteria json.RawMessage // JSON Schema for searches; nil: no search

	Upstreams []Upstream // services that answer for the catalogue

	Site
}

// Hotel is the hotel search profile. Its items are properties and its handoffs are stays.
var Hotel = &Profile{Name: "hotel", Types: "melmastoon.bff.consumer."}

// IsHotel reports whether this is the built-in profile.
func (p *Profile) IsHotel() bool { return p == nil || p.Name == Hotel.Name }

// Member returns the JSON name of an item's ID.
func (p *Profile) Member() string {
	if p.IsHotel() {
		return "propertyId"
	}
	return "itemId"
}

// EventType returns the full type of an event.
func (p *Profile) EventType(kind string) string {
	if p == nil {
		p = Hotel
	}
	return p.Types + kind
}

// MaxItem is an item ID's maximum length, in UTF-8 bytes.
const MaxItem = 256

const expectedItem = "expected 1 to 256 bytes of printable UTF-8, without control characters, and not . or .., which URLs cannot contain"

// The joiners, which scripts such as Persian and composed emoji need. unicode.IsPrint refuses them.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// isItem reports whether text is a text item ID. IDs are compared byte by byte: a text's normalization forms are
// two IDs. "." and ".." are refused because browsers resolve these segments in a path, even if they are escaped
// (https://url.spec.whatwg.org/#double-dot-path-segment).
func isItem(text string) bool {
	if text == "" || len(text) > MaxItem || text == "." || text == ".." || !utf8.ValidString(text) {
		return false
	}
	return !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) && c != zeroWidthNonJoiner && c != zeroWidthJoiner })
}

// ParseItem returns an item ID as stored; ok is false if it is not valid.
func (p *Profile) ParseItem(text string) (string, bool) {
	if p.IsHotel() || !p.Texts {
		return ident.ParseUUID(text)
	}
	return text, isItem(text)
}

// ExpectedItem describes a valid item ID in errors.
func (p *Profile) ExpectedItem() string {
	if p.IsHotel() || !p.Texts {
		return ExpectedUUID
	}
	return expectedItem
}

// ParseTenant returns a tenant's UUID. An empty text means the default tenant, if configured.
func (p *Profile) ParseTenant(text string) (string, bool) {
	if text == "" && !p.IsHotel() && p.Tenant != "" {
		return p.Tenant, true
	}
	return ParseTenant(text)
}

// maxQuantity returns 0 if there are no quantities.
func (p *Profile) maxQuantity() int {
	if p.IsHotel() {
		return 0
	}
	return p.MaxQuantity
}

// checkQuantity returns FieldErrors for a member outside the profile's quantity range.
func (p *Profile) checkQuantity(n int, member string) error {
	maximum := p.maxQuantity()
	if n < min(maximum, 1) || n > maximum {
		return BadMember(fmt.Sprintf("expected 1 to %d", maximum), member)
	}
	return nil
}

// ItemKey returns the UUID that databases index an item by: its ID, or a version 8 UUID derived from it.
func ItemKey(item string) string {
	if id, ok := ident.ParseUUID(item); ok && id == item {
		return item
	}
	sum := sha256.Sum256([]byte("guest item\x00" + item))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	d := hex.EncodeToString(sum[:16])
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

// ItemText returns the item ID if it must be stored in addition to its ItemKey, else "".
func ItemText(item string) string {
	if ItemKey(item) == item {
		return ""
	}
	return item
}
