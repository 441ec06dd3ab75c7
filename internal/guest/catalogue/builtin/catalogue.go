// Package builtin is a catalogue with several hundred fictional hotels, so that everything works without other
// services. The hotels are the same in every process.
package builtin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/internal/guest/catalogue"
)

// Catalogue is an invented hotel catalogue, equal on every server: all values derive from hashes. It is safe for
// concurrent use.
type Catalogue struct{ contents func() *contents }

type contents struct {
	hotels   []*hotel // recommended first
	byID     map[string]*hotel
	brands   map[string]*brand
	byRegion map[string][]*hotel // by e.g. AT:vienna
}

var _ catalogue.Source = (*Catalogue)(nil)

// hotel is a generated hotel, with prices in euro.
type hotel struct {
	catalogue.Property
	seed
	brand               *brand
	address             string
	latitude, longitude float64
	stars, reviews      int
	rating              float64
	amenities           []string
	price               int64 // cents; cheapest room in the low season
	search              string
}

type brand struct {
	catalogue.Brand
}

const (
	hotelsPerRegion = 20
	brandCount      = 40
)

// seed makes reproducible choices about a hotel or brand.
type seed [sha256.Size]byte

// seedOf names an object; equal parts give equal choices on every server.
func seedOf(parts ...any) seed { return sha256.Sum256([]byte(fmt.Sprint(parts...))) }

// n chooses a number from 0 to maximum−1. Each aspect is an independent choice.
func (s seed) n(aspect string, maximum int) int {
	sum := sha256.Sum256(append([]byte(aspect), s[:]...))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(maximum))
}

// of chooses a word.
func (s seed) of(aspect string, words []string) string { return words[s.n(aspect, len(words))] }

// uuid returns a version 8 UUID (RFC 9562, section 5.8: vendor-specific contents).
func (s seed) uuid() string {
	b := s
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// The first brand and one of its hotels, which the documentation uses.
const (
	ExampleTenant   = "11111111-2222-4333-8444-555555555555"
	ExampleProperty = "22222222-2222-4333-8444-555555555555"
)

// New returns the catalogue. It is generated on first use, within milliseconds, because most servers serve no
// guests.
func New() *Catalogue { return &Catalogue{sync.OnceValue(newContents)} }

// newContents generates all brands and hotels. The first brand and its first hotel get fixed ids, so that documentation
// can name them.
func newContents() *contents {
	c := &contents{byID: map[string]*hotel{}, brands: map[string]*brand{}, byRegion: map[string][]*hotel{}}
	var brands []*brand
	for i := range brandCount {
		s := seedOf("brand", i)
		name := brandNames[i%len(brandNames)] + " " + brandKinds[i/len(brandNames)%len(brandKinds)]
		b := &brand{catalogue.Brand{TenantID: s.uuid(), Name: name, Tagline: s.of("tagline", taglines), Color: s.of("color", colors)}}
		if i == 0 {
			b.TenantID = ExampleTenant
		}
		brands = append(brands, b)
		c.brands[b.TenantID] = b
	}
	for _, r := range regions {
		for i := range hotelsPerRegion {
			h := newHotel(r, i, brands)
			if h.brand == brands[0] && h.brand.Properties == 0 {
				h.PropertyID = ExampleProperty
			}
			h.brand.Properties++
			c.hotels = append(c.hotels, h)
			c.byID[h.PropertyID] = h
			c.byRegion[r.country+":"+r.name] = append(c.byRegion[r.country+":"+r.name], h)
		}
	}
	slices.SortFunc(c.hotels, func(a, b *hotel) int {
		return cmp.Or(cmp.Compare(b.rating, a.rating), cmp.Compare(b.reviews, a.reviews), cmp.Compare(a.PropertyID, b.PropertyID))
	})
	return c
}

// newHotel invents a region's hotel number i.
func newHotel(r region, i int, brands []*brand) *hotel {
	s := seedOf("hotel", r.country, r.name, i)
	h := &hotel{seed: s, brand: brands[s.n("brand", len(brands))]}
	h.Property = catalogue.Property{
		PropertyID: s.uuid(), TenantID: h.brand.TenantID, Name: "Hotel " + firstWords[(i*7+s.n("first", 3))%len(firstWords)] + " " + r.city,
		Country: r.country, Region: r.name, City: r.city, Currency: r.currency, TimeZone: r.zone,
	}
	h.address = fmt.Sprintf("%s %d, %s", s.of("street", streets), 1+s.n("number", 120), r.city)
	place := func(aspect string, middle float64) float64 {
		return math.Round((middle+float64(s.n(aspect, 1000)-500)/12000)*1e5) / 1e5
	}
	h.latitude, h.longitude = place("latitude", r.latitude), place("longitude", r.longitude)
	h.stars, h.reviews = 2+s.n("stars", 4), 10+s.n("reviews", 3000)
	h.rating = float64(60+s.n("rating", 39)) / 10
	for _, a := range amenities {
		if s.n("amenity "+a, 10) < 3+h.stars {
			h.amenities = append(h.amenities, a)
		}
	}
	h.price = int64(3500*h.stars + 100*s.n("price", 60))
	h.search = strings.ToLower(strings.Join([]string{h.Name, r.city, r.name, h.brand.Name}, " "))
	return h
}

// perEuro maps currencies to their smallest units per euro cent, times 10,000.
var perEuro = map[string]int64{
	"EUR": 10000, "USD": 10800, "GBP": 8500, "CHF": 9600, "CZK": 253000, "DKK": 74600, "SEK": 115000, "NOK": 117000, "PLN": 43000, "HUF": 3950000,
	"JPY": 16500, // no minor unit, hence a hundredth
}

// convert returns the price in a currency's smallest unit, or in euro cents if the currency is unknown. The rates are
// fixed.
func convert(cents int64, currency string) (minor, used string) {
	rate, ok := perEuro[currency]
	if !ok {
		return strconv.FormatInt(cents, 10), "EUR"
	}
	return strconv.FormatInt((cents*rate+5000)/10000, 10), currency
}

// nightly returns a room's price in euro cents: more at weekends and in summer.
func (h *hotel) nightly(night time.Time, room int) int64 {
	p := h.price * int64(100+40*room) / 100
	if d := night.Weekday(); d == time.Friday || d == time.Saturday {
		p = p * 115 / 100
	}
	if m := night.Month(); m >= time.June && m <= time.August {
		p = p * 130 / 100
	}
	return p
}

// left returns the number of free rooms; 0 in about two of nine nights.
func (h *hotel) left(night time.Time, room int) int {
	return max(0, h.n(fmt.Sprint("left", room, night.Format(time.DateOnly)), 9)-1)
}

// stay is a price for all nights.
type stay struct {
	cheapest, total int64 // euro cents
	// rooms free in every night
	left int
}

// offer returns a room type's price for rooms rooms, or false if too few are free.
func (h *hotel) offer(room, rooms int, from, to time.Time) (s stay, ok bool) {
	s.left = math.MaxInt
	for night := from; night.Before(to); night = night.AddDate(0, 0, 1) {
		p := h.nightly(night, room)
		if s.cheapest == 0 || p < s.cheapest {
			s.cheapest = p
		}
		s.total += p * int64(rooms)
		s.left = min(s.left, h.left(night, room))
	}
	return s, s.left >= rooms
}

// best returns the cheapest offer that fits all guests.
func (h *hotel) best(adults, children, rooms int, from, to time.Time) (best stay, ok bool) {
	for room := range roomTypes {
		if !fits(room, adults+children, rooms) {
			continue
		}
		if s, free := h.offer(room, rooms, from, to); free && (!ok || s.total < best.total) {
			best, ok = s, true
		}
	}
	return best, ok
}

// fits reports whether enough beds exist; guests may be spread over the rooms.
func fits(room, guests, rooms int) bool { return roomTypes[room].Sleeps*rooms >= guests }

// HasTenant reports whether the catalogue has the brand.
func (c *Catalogue) HasTenant(tenant string) bool { return c.contents().brands[tenant] != nil }

// Hotel describes a hotel in the locale's language if the catalogue knows it, otherwise in English.
func (c *Catalogue) Hotel(_ context.Context, property, locale, currency string) (catalogue.Hotel, error) {
	h := c.contents().byID[property]
	if h == nil {
		return catalogue.Hotel{}, catalogue.ErrNoProperty
	}
	language, _, _ := strings.Cut(locale, "-")
	text, ok := descriptions[language]
	if !ok {
		language, text = "en", descriptions["en"]
	}
	v := catalogue.Hotel{
		PropertyID: h.PropertyID, TenantID: h.TenantID, Name: h.Name, Description: fmt.Sprintf(text, h.Name, h.City, h.stars),
		Country: h.Country, Region: h.Region, City: h.City, Address: h.address, Latitude: h.latitude, Longitude: h.longitude,
		Stars: h.stars, Rating: h.rating, Reviews: h.reviews, Amenities: h.amenities, RoomTypes: roomTypes[:],
		CheckInFrom: "15:00", CheckOutUntil: "11:00", Locale: language,
	}
	v.CheapestNightlyMinor, v.Currency = convert(h.price, currency)
	return v, nil
}

// Property implements catalogue.Source.
func (c *Catalogue) Property(_ context.Context, property string) (catalogue.Property, error) {
	if h := c.contents().byID[property]; h != nil {
		return h.Property, nil
	}
	return catalogue.Property{}, catalogue.ErrNoProperty
}

// Brand implements catalogue.Source.
func (c *Catalogue) Brand(_ context.Context, tenant string) (catalogue.Brand, error) {
	if b := c.contents().brands[tenant]; b != nil {
		return b.Brand, nil
	}
	return catalogue.Brand{}, catalogue.ErrNoTenant
}

// Availability implements catalogue.Source.
func (c *Catalogue) Availability(_ context.Context, q catalogue.AvailabilityQuery) (catalogue.Availability, error) {
	h := c.contents().byID[q.Property]
	if h == nil {
		return catalogue.Availability{}, catalogue.ErrNoProperty
	}
	a := catalogue.Availability{
		PropertyID: h.PropertyID, From: q.From, To: q.To, Adults: q.Adults, Children: q.Children, Rooms: q.Rooms, Currency: h.Currency,
	}
	from, to := dates(q.From, q.To)
	for room, kind := range roomTypes {
		s, free := h.offer(room, q.Rooms, from, to)
		if !free || !fits(room, q.Adults+q.Children, q.Rooms) {
			continue
		}
		o := catalogue.Offer{RoomType: kind.Code, Left: s.left}
		o.NightlyMinor, _ = convert(s.cheapest, h.Currency)
		o.TotalForStayMinor, _ = convert(s.total, h.Currency)
		a.Offers = append(a.Offers, o)
	}
	if best, ok := h.best(q.Adults, q.Children, q.Rooms, from, to); ok {
		a.Available = true
		a.CheapestNightlyMinor, _ = convert(best.cheapest, h.Currency)
		a.TotalForStayMinor, _ = convert(best.total, h.Currency)
	}
	return a, nil
}

// dates parses dates that the service already checked.
func dates(from, to string) (time.Time, time.Time) {
	in, _ := time.Parse(time.DateOnly, from)
	out, _ := time.Parse(time.DateOnly, to)
	return in, out
}
