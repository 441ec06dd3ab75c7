package builtin

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/guest/catalogue"
)

// match is a found hotel with its price for the query's dates.
type match struct {
	*hotel
	price stay
}

// Maximum number of pins in an answer.
const maxPins = 200

// find returns all matches in the query's order.
func (c *Catalogue) find(q catalogue.SearchQuery) (all []match) {
	highest := int64(-1)
	if q.MaxNightlyMinor != "" {
		highest, _ = strconv.ParseInt(q.MaxNightlyMinor, 10, 64) // already validated
	}
	words := strings.Fields(q.Text)
	for _, h := range c.contents().hotels {
		if !h.matches(q, words) {
			continue
		}
		m := match{hotel: h, price: stay{cheapest: h.price}}
		if q.CheckIn != "" {
			from, to := dates(q.CheckIn, q.CheckOut)
			best, ok := h.best(q.Adults, q.Children, q.Rooms, from, to)
			if !ok {
				continue
			}
			m.price = best
		}
		if highest >= 0 {
			text, _ := convert(m.price.cheapest, q.Currency)
			if minor, err := strconv.ParseInt(text, 10, 64); err != nil || minor > highest {
				continue
			}
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b match) int {
		switch q.Sort {
		case "price":
			return cmp.Compare(a.price.cheapest, b.price.cheapest)
		case "rating":
			return cmp.Compare(b.rating, a.rating)
		case "name":
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.PropertyID, b.PropertyID))
		}
		return 0 // already in recommended order
	})
	return all
}

// matches checks everything except dates and price. words must all occur in the hotel's names, in lower case.
func (h *hotel) matches(q catalogue.SearchQuery, words []string) bool {
	switch {
	case q.Country != "" && h.Country != q.Country, q.Region != "" && h.Region != q.Region, h.stars < q.MinStars:
		return false
	case slices.ContainsFunc(q.Amenities, func(a string) bool { return !slices.Contains(h.amenities, a) }):
		return false
	case slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(h.search, w) }):
		return false
	}
	return q.Bounds == nil || contains(*q.Bounds, h.latitude, h.longitude)
}

func contains(b catalogue.Bounds, latitude, longitude float64) bool {
	if latitude < b.South || latitude > b.North {
		return false
	}
	if b.West > b.East {
		return longitude >= b.West || longitude <= b.East
	}
	return longitude >= b.West && longitude <= b.East
}

func (c *Catalogue) Search(_ context.Context, q catalogue.SearchQuery) (catalogue.Results, error) {
	all := c.find(q)
	r := catalogue.Results{Total: len(all)}
	first := min(len(all), (q.Page-1)*q.PageSize)
	for _, m := range all[first:min(len(all), first+q.PageSize)] {
		l := catalogue.Listing{
			PropertyID: m.PropertyID, TenantID: m.TenantID, Name: m.Name, Country: m.Country, Region: m.Region, City: m.City,
			Stars: m.stars, Rating: m.rating, Amenities: m.amenities,
		}
		l.CheapestNightlyMinor, l.Currency = convert(m.price.cheapest, q.Currency)
		if m.price.total > 0 {
			l.TotalForStayMinor, _ = convert(m.price.total, q.Currency)
		}
		r.Items = append(r.Items, l)
	}
	return r, nil
}

func (c *Catalogue) Map(_ context.Context, q catalogue.SearchQuery) (catalogue.Pins, error) {
	all := c.find(q)
	pins := catalogue.Pins{Total: len(all)}
	for _, m := range all[:min(len(all), maxPins)] {
		p := catalogue.Pin{PropertyID: m.PropertyID, TenantID: m.TenantID, Name: m.Name, Latitude: m.latitude, Longitude: m.longitude}
		p.CheapestNightlyMinor, p.Currency = convert(m.price.cheapest, q.Currency)
		pins.Items = append(pins.Items, p)
	}
	return pins, nil
}

func (c *Catalogue) Facets(_ context.Context, country, region string) (catalogue.Facets, error) {
	hotels := c.contents().byRegion[country+":"+region]
	if len(hotels) == 0 {
		return catalogue.Facets{}, catalogue.ErrNoRegion
	}
	f := catalogue.Facets{Country: country, Region: region, Total: len(hotels)}
	count := func(value string, has func(*hotel) bool) (facet catalogue.Facet) {
		facet.Value = value
		for _, h := range hotels {
			if has(h) {
				facet.Count++
			}
		}
		return facet
	}
	for stars := 1; stars <= 5; stars++ {
		f.Stars = append(f.Stars, count(strconv.Itoa(stars), func(h *hotel) bool { return h.stars == stars }))
	}
	for _, a := range amenities {
		f.Amenities = append(f.Amenities, count(a, func(h *hotel) bool { return slices.Contains(h.amenities, a) }))
	}
	return f, nil
}
