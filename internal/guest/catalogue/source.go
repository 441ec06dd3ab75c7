package catalogue

import (
	"context"
	"slices"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// Source provides properties and tenants: package builtin contains them, package upstream calls HTTP services.
//
// IDs are lower-case UUIDs. Methods return ErrNoProperty, ErrNoTenant or ErrNoRegion for missing objects, and any
// other error if the source cannot tell. They are safe for concurrent use. Results may be shared: callers must not change
// them.
type Source interface {
	// Search returns a page of properties and the total on all pages. q is normalized.
	Search(ctx context.Context, q SearchQuery) (Results, error)

	// Map returns properties within q.Bounds, as many as the source likes.
	Map(ctx context.Context, q SearchQuery) (Pins, error)

	// Hotel returns a property page. The language is the closest to locale.
	Hotel(ctx context.Context, property, locale, currency string) (Hotel, error)

	// Availability returns the offers for a stay; without any, Available is false and the error nil. Prices are in the
	// property's currency.
	Availability(ctx context.Context, q AvailabilityQuery) (Availability, error)

	// Facets counts a region's properties by filter value.
	Facets(ctx context.Context, country, region string) (Facets, error)

	// Brand returns a tenant's public details.
	Brand(ctx context.Context, tenant string) (Brand, error)

	// Property returns a property's tenant and place.
	Property(ctx context.Context, property string) (Property, error)
}

// Catalogue errors.
var (
	ErrNoProperty = errcode.New(errcode.NotFound, "there is no such property")
	ErrNoTenant   = errcode.New(errcode.NotFound, "there is no such tenant")
	ErrNoRegion   = errcode.New(errcode.NotFound, "there is no such region")
	ErrUpstream   = errcode.New(errcode.Unavailable, "the catalogue is unavailable: retry")
)

// Hotel is a property page. Prices are as in Listing.
type Hotel struct {
	PropertyID  string `json:"propertyId"`
	TenantID    string `json:"tenantId"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Country     string `json:"country"`
	Region      string `json:"region"`
	City        string `json:"city"`
	Address     string `json:"address"`
	// degrees
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
	// 0 to 5
	Stars int `json:"stars"`
	// 0 to 10
	Rating float64 `json:"rating"`
	// number
	Reviews int `json:"reviews"`
	// names, as in SearchQuery.Amenities
	Amenities []string `json:"amenities"`
	// URLs
	Images        []string   `json:"images"`
	RoomTypes     []RoomType `json:"roomTypes"`
	CheckInFrom   string     `json:"checkInFrom"` // HH:MM
	CheckOutUntil string     `json:"checkOutUntil"`
	// the language of Description, which may differ from the requested locale
	Locale               string `json:"locale"`
	Currency             string `json:"currency"`
	CheapestNightlyMinor string `json:"cheapestNightlyMinor,omitempty"`
}

// RoomType is a kind of room that a property offers.
type RoomType struct {
	// names it in Offer.RoomType
	Code string `json:"code"`
	Name string `json:"name"`
	// guests
	Sleeps int `json:"sleeps"`
}

// AvailabilityQuery asks for rooms during a stay.
type AvailabilityQuery struct {
	// a UUID
	Property string
	// YYYY-MM-DD; To is the day of departure
	From, To string
	// limits as in SearchQuery; no defaults
	Adults, Children, Rooms int
}

// Availability lists a property's offers for a stay. Prices are as in Listing, in the property's currency.
type Availability struct {
	PropertyID string `json:"propertyId"`
	From       string `json:"from"`
	To         string `json:"to"`
	Adults     int    `json:"adults"`
	Children   int    `json:"children"`
	Rooms      int    `json:"rooms"`
	// whether any offer fits all guests
	Available bool   `json:"available"`
	Currency  string `json:"currency"`
	// "" if unavailable
	CheapestNightlyMinor string  `json:"cheapestNightlyMinor,omitempty"`
	TotalForStayMinor    string  `json:"totalForStayMinor,omitempty"`
	Offers               []Offer `json:"offers"`
}

// Offer is a room type that is free during the whole stay.
type Offer struct {
	// a RoomType's code
	RoomType string `json:"roomType"`
	// per room, in the cheapest night
	NightlyMinor string `json:"nightlyMinor"`
	// all rooms and nights
	TotalForStayMinor string `json:"totalForStayMinor"`
	Left              int    `json:"left"` // rooms
}

// Facets counts a region's properties, for filters.
type Facets struct {
	Country string `json:"country"`
	Region  string `json:"region"`
	Total   int    `json:"total"`
	// values "0" to "5"
	Stars     []Facet `json:"stars"`
	Amenities []Facet `json:"amenities"`
}

// Facet counts a filter value's properties.
type Facet struct {
	// a number of stars, or an amenity
	Value string `json:"value"`
	Count int    `json:"count"`
}

// Brand is a tenant's public profile.
type Brand struct {
	TenantID string `json:"tenantId"`
	Name     string `json:"name"`
	Tagline  string `json:"tagline"`
	Color    string `json:"color,omitempty"` // such as #1f6f8b
	Website  string `json:"website,omitempty"`
	// number
	Properties int `json:"properties"`
}

// Property is the part of a property that other answers need.
type Property struct {
	PropertyID string `json:"propertyId"`
	TenantID   string `json:"tenantId"`
	Name       string `json:"name"`
	Country    string `json:"country"`
	Region     string `json:"region"`
	City       string `json:"city"`
	Currency   string `json:"currency"`
	TimeZone   string `json:"timeZone,omitempty"` // IANA, e.g. Europe/Vienna; "" if unknown
}

// normalize returns errcode.Invalid for a bad date or number. Despite its name it changes nothing.
func (q *AvailabilityQuery) check() error {
	if q.From == "" || q.To == "" {
		return guest.BadParameter("expected the dates of the stay", "from", "to")
	}
	if err := checkDates(guest.BadParameter, "from", q.From, "to", q.To); err != nil {
		return err
	}
	return checkOccupancy(guest.BadParameter, q.Adults, q.Children, q.Rooms)
}

// normalizeRegion returns the canonical country and region, and whether they are well-formed.
func normalizeRegion(country, region string) (string, string, bool) {
	country, region = strings.ToUpper(country), strings.ToLower(region)
	return country, region, countryForm.MatchString(country) && isName(region)
}

// normalizeLocale writes a BCP 47 tag in its usual case: language de, script Latn, region AT.
func normalizeLocale(tag string) string {
	parts := strings.Split(tag, "-")
	for i, p := range parts {
		switch {
		case i > 0 && len(p) == 2:
			parts[i] = strings.ToUpper(p)
		case i > 0 && len(p) == 4:
			parts[i] = strings.ToUpper(p[:1]) + strings.ToLower(p[1:])
		default:
			parts[i] = strings.ToLower(p)
		}
	}
	return strings.Join(parts, "-")
}

// isMinor accepts prices in the smallest unit, and "" for an unknown price.
func isMinor(prices ...string) bool {
	return !slices.ContainsFunc(prices, func(p string) bool { return p != "" && !minorForm.MatchString(p) })
}
