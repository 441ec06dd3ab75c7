package catalogue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones, for containers without them
	"unicode/utf8"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// SearchQuery is a hotel search, as clients send it, upstreams receive it, and search sessions store it.
type SearchQuery struct {
	// ISO 3166-1 alpha-2, e.g. AT; "" for all
	Country string `json:"country,omitempty"`
	Region  string `json:"region,omitempty"`  // e.g. vienna
	Text    string `json:"text,omitempty"`    // in names and places
	CheckIn string `json:"checkIn,omitempty"` // YYYY-MM-DD
	// at most 90 nights after CheckIn; both or neither
	CheckOut        string   `json:"checkOut,omitempty"`
	Adults          int      `json:"adults"`                    // 1 to 30; 2 if absent
	Children        int      `json:"children"`                  // 0 to 30
	Rooms           int      `json:"rooms"`                     // 1 to 10; 1 if absent
	MinStars        int      `json:"minStars,omitempty"`        // 0 to 5
	Amenities       []string `json:"amenities,omitempty"`       // all required; at most 20
	MaxNightlyMinor string   `json:"maxNightlyMinor,omitempty"` // in the currency's smallest unit, as decimal text
	Bounds          *Bounds  `json:"bounds,omitempty"`          // map only
	Sort            string   `json:"sort"`                      // one of Sorts; default recommended
	Page            int      `json:"page"`                      // 1 to 1000; default 1
	PageSize        int      `json:"pageSize"`                  // 1 to 100; default 20
	Locale          string   `json:"locale"`                    // BCP 47
	Currency        string   `json:"currency"`                  // ISO 4217
	Device          string   `json:"device,omitempty"`          // the browser's: mobile or desktop
}

// Bounds is a map section, in degrees.
type Bounds struct {
	// -90 to 90
	South float64 `json:"south"`
	// -180 to 180; greater than East across the date line
	West  float64 `json:"west"`
	North float64 `json:"north"`
	East  float64 `json:"east"`
}

// Sorts lists the orders for lists; the first is the default.
var Sorts = []string{"recommended", "price", "rating", "name"}

// Results is a page of a list.
type Results struct {
	Items []Listing `json:"items"`
	Total int       `json:"total"` // on all pages
}

// Listing is a property in a list. Prices are decimal text in the currency's smallest unit; "" if unknown.
type Listing struct {
	PropertyID string   `json:"propertyId"`
	TenantID   string   `json:"tenantId"`
	Name       string   `json:"name"`
	Country    string   `json:"country"`
	Region     string   `json:"region"`
	City       string   `json:"city"`
	Stars      int      `json:"stars"`
	Rating     float64  `json:"rating"` // 0 to 10
	Amenities  []string `json:"amenities"`
	// URL
	Image string `json:"image,omitempty"`
	// ISO 4217; the source may answer in another currency than asked for
	Currency string `json:"currency"`
	// per night and room
	CheapestNightlyMinor string `json:"cheapestNightlyMinor,omitempty"`
	// all rooms and nights; "" without dates
	TotalForStayMinor string `json:"totalForStayMinor,omitempty"`
}

// Pins are the properties to draw on a map. The source limits their number.
type Pins struct {
	Items []Pin `json:"items"`
	Total int   `json:"total"` // may exceed len(Items)
}

// Pin is a property on a map. Prices are as in Listing.
type Pin struct {
	PropertyID           string  `json:"propertyId"`
	TenantID             string  `json:"tenantId"`
	Name                 string  `json:"name"`
	Latitude             float64 `json:"latitude"`
	Longitude            float64 `json:"longitude"`
	Currency             string  `json:"currency"`
	CheapestNightlyMinor string  `json:"cheapestNightlyMinor,omitempty"`
}

const (
	maxText      = 100 // characters
	maxGuests    = 30
	maxRooms     = 10
	maxNights    = 90
	maxAmenities = 20
	maxPage      = 1000
	maxPageSize  = 100
	dateForm     = "2006-01-02"
)

var (
	countryForm = regexp.MustCompile(`^[A-Z]{2}$`)
	nameForm    = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`) // regions and amenities, at most 40 bytes
	minorForm   = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,17})$`)
)

// isName accepts regions and amenities.
func isName(s string) bool { return len(s) <= 40 && nameForm.MatchString(s) }

// Normalize sets defaults and canonicalizes the query, so that equivalent queries are equal.
func (q *SearchQuery) Normalize() error {
	q.Country, q.Region = strings.ToUpper(strings.TrimSpace(q.Country)), strings.ToLower(strings.TrimSpace(q.Region))
	q.Text = strings.ToLower(strings.Join(strings.Fields(q.Text), " "))
	q.Amenities = slices.Compact(slices.Sorted(slices.Values(q.Amenities)))
	if q.Adults == 0 {
		q.Adults = 2
	}
	for _, n := range []*int{&q.Rooms, &q.Page} {
		if *n == 0 {
			*n = 1
		}
	}
	if q.PageSize == 0 {
		q.PageSize = 20
	}
	if q.Sort == "" {
		q.Sort = Sorts[0]
	}
	bad := func(member, expected string) error { return guest.BadMember("expected "+expected, member) }
	switch {
	case q.Country != "" && !countryForm.MatchString(q.Country):
		return bad("country", "two letters, e.g. AT")
	case q.Region != "" && !isName(q.Region):
		return bad("region", "letters, digits and hyphens, e.g. vienna")
	case utf8.RuneCountInString(q.Text) > maxText:
		return bad("text", "at most 100 characters")
	case len(q.Amenities) > maxAmenities || slices.ContainsFunc(q.Amenities, func(a string) bool { return !isName(a) }):
		return bad("amenities", "at most 20 names, e.g. pool")
	case q.MinStars < 0 || q.MinStars > 5:
		return bad("minStars", "0 to 5")
	case q.MaxNightlyMinor != "" && !minorForm.MatchString(q.MaxNightlyMinor):
		return bad("maxNightlyMinor", "a whole number as text, in the smallest unit of the currency")
	case !slices.Contains(Sorts, q.Sort):
		return bad("sort", strings.Join(Sorts, ", "))
	case q.Page < 1 || q.Page > maxPage:
		return bad("page", "1 to 1000")
	case q.PageSize < 1 || q.PageSize > maxPageSize:
		return bad("pageSize", "1 to 100")
	case !guest.IsLocale(q.Locale):
		return guest.ErrLocale
	case !guest.IsCurrency(q.Currency):
		return guest.ErrCurrency
	}
	if b := q.Bounds; b != nil && (b.South < -90 || b.North > 90 || b.South > b.North || b.West < -180 || b.West > 180 || b.East < -180 || b.East > 180) {
		return bad("bounds", "south, west, north and east in degrees")
	}
	if (q.CheckIn == "") != (q.CheckOut == "") {
		return guest.BadMember("expected both or neither", "checkIn", "checkOut")
	}
	if q.CheckIn != "" {
		if err := checkDates(guest.BadMember, "checkIn", q.CheckIn, "checkOut", q.CheckOut); err != nil {
			return err
		}
	}
	return checkOccupancy(guest.BadMember, q.Adults, q.Children, q.Rooms)
}

// checkDates checks a stay. bad builds the error for a parameter or member; name1 and name2 are the names that clients
// use.
func checkDates(bad guest.Bad, name1, from, name2, to string) error {
	in, err := time.Parse(dateForm, from)
	if err != nil {
		return bad(ExpectedDate, name1)
	}
	out, err := time.Parse(dateForm, to)
	if err != nil {
		return bad(ExpectedDate, name2)
	}
	if n := nights(in, out); n < 1 || n > maxNights {
		return bad(fmt.Sprintf("expected 1 to %d nights after %s", maxNights, name1), name2)
	}
	return nil
}

// CheckPage returns errcode.Invalid for a page out of range.
func CheckPage(page int) error {
	if page < 1 || page > maxPage {
		return guest.BadParameter(fmt.Sprintf("expected 1 to %d", maxPage), "page")
	}
	return nil
}

// ExpectedDate is the error detail for dates.
const ExpectedDate = "expected a date such as 2027-01-31"

// CheckArrival returns errcode.Invalid if a date is in the past in a time zone. In an unknown zone, the date must
// be past everywhere.
func CheckArrival(bad guest.Bad, name, date, zone string, now time.Time) error {
	if date < today(now, zone) {
		return bad("expected a date that is not past", name)
	}
	return nil
}

// lastZone is the time zone in which a date ends last.
var lastZone = time.FixedZone("UTC-12", -12*60*60)

// today returns the date in a zone, or where it is earliest if the zone is unknown.
func today(now time.Time, zone string) string {
	at := lastZone
	if zone != "" && zone != "Local" {
		if known, err := time.LoadLocation(zone); err == nil {
			at = known
		}
	}
	return now.In(at).Format(dateForm)
}

// nights counts calendar days; both times are midnights in UTC.
func nights(in, out time.Time) int { return int(out.Sub(in).Hours() / 24) }

// checkOccupancy checks the numbers of guests and rooms.
func checkOccupancy(bad guest.Bad, adults, children, rooms int) error {
	switch {
	case adults < 1 || adults > maxGuests:
		return bad(fmt.Sprintf("expected 1 to %d", maxGuests), "adults")
	case children < 0 || children > maxGuests:
		return bad(fmt.Sprintf("expected 0 to %d", maxGuests), "children")
	case rooms < 1 || rooms > maxRooms:
		return bad(fmt.Sprintf("expected 1 to %d", maxRooms), "rooms")
	}
	return nil
}

// Nights counts a normalized query's nights; 0 without dates.
func (q *SearchQuery) Nights() int {
	in, err1 := time.Parse(dateForm, q.CheckIn)
	out, err2 := time.Parse(dateForm, q.CheckOut)
	if err1 != nil || err2 != nil {
		return 0
	}
	return nights(in, out)
}

// normalizedHash normalizes q in place and returns its Hash.
func (q *SearchQuery) normalizedHash() (string, error) {
	if err := q.Normalize(); err != nil {
		return "", err
	}
	return q.Hash()
}

// Hash is equal only for equal normalized queries.
func (q *SearchQuery) Hash() (string, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return "", errcode.Wrap(errcode.Internal, "encode a query", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
