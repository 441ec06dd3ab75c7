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
// other error if the source cannot tell.
type Source interface {
	Search(ctx context.Context, q SearchQuery) (Results, error)

	Map(ctx context.Context, q SearchQuery) (Pins, error)

	// The language is the closest to locale.
	Hotel(ctx context.Context, property, locale, currency string) (Hotel, error)

	// Prices are in the property's currency.
	Availability(ctx context.Context, q AvailabilityQuery) (Availability, error)

	Facets(ctx context.Context, country, region string) (Facets, error)

	Brand(ctx context.Context, tenant string) (Brand, error)

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
	PropertyID           string     `json:"propertyId"`
	TenantID             string     `json:"tenantId"`
	Name                 string     `json:"name"`
	Description          string     `json:"description"`
	Country              string     `json:"country"`
	Region               string     `json:"region"`
	City                 string     `json:"city"`
	Address              string     `json:"address"`
	Latitude             float64    `json:"latitude"`
	Longitude            float64    `json:"longitude"`
	Stars                int        `json:"stars"`
	Rating               float64    `json:"rating"`
	Reviews              int        `json:"reviews"`
	Amenities            []string   `json:"amenities"`
	Images               []string   `json:"images"`
	RoomTypes            []RoomType `json:"roomTypes"`
	CheckInFrom          string     `json:"checkInFrom"` // HH:MM
	CheckOutUntil        string     `json:"checkOutUntil"`
	Locale               string     `json:"locale"`
	Currency             string     `json:"currency"`
	CheapestNightlyMinor string     `json:"cheapestNightlyMinor,omitempty"`
}

type RoomType struct {
	Code   string `json:"code"`
	Name   string `json:"name"`
	Sleeps int    `json:"sleeps"`
}

// AvailabilityQuery asks for rooms during a stay.
type AvailabilityQuery struct {
	Property                string
	From, To                string
	Adults, Children, Rooms int
}

// Availability lists a property's offers for a stay. Prices are as in Listing, in the property's currency.
type Availability struct {
	PropertyID           string  `json:"propertyId"`
	From                 string  `json:"from"`
	To                   string  `json:"to"`
	Adults               int     `json:"adults"`
	Children             int     `json:"children"`
	Rooms                int     `json:"rooms"`
	Available            bool    `json:"available"`
	Currency             string  `json:"currency"`
	CheapestNightlyMinor string  `json:"cheapestNightlyMinor,omitempty"`
	TotalForStayMinor    string  `json:"totalForStayMinor,omitempty"`
	Offers               []Offer `json:"offers"`
}

type Offer struct {
	RoomType          string `json:"roomType"`
	NightlyMinor      string `json:"nightlyMinor"`
	TotalForStayMinor string `json:"totalForStayMinor"`
	Left              int    `json:"left"` // rooms
}

type Facets struct {
	Country   string  `json:"country"`
	Region    string  `json:"region"`
	Total     int     `json:"total"`
	Stars     []Facet `json:"stars"`
	Amenities []Facet `json:"amenities"`
}

// Facet counts a filter value's properties.
type Facet struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

type Brand struct {
	TenantID   string `json:"tenantId"`
	Name       string `json:"name"`
	Tagline    string `json:"tagline"`
	Color      string `json:"color,omitempty"` // such as #1f6f8b
	Website    string `json:"website,omitempty"`
	Properties int    `json:"properties"`
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

func (q *AvailabilityQuery) normalize() error {
	if q.From == "" || q.To == "" {
		return guest.BadParameter("expected the dates of the stay", "from", "to")
	}
	if err := checkDates(guest.BadParameter, "from", q.From, "to", q.To); err != nil {
		return err
	}
	return checkOccupancy(guest.BadParameter, q.Adults, q.Children, q.Rooms)
}

func normalizeRegion(country, region string) (string, string, bool) {
	country, region = strings.ToUpper(country), strings.ToLower(region)
	return country, region, countryForm.MatchString(country) && isName(region)
}

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

func isMinor(prices ...string) bool {
	return !slices.ContainsFunc(prices, func(p string) bool { return p != "" && !minorForm.MatchString(p) })
}
