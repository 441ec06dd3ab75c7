package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/ident"
)

// asked names an answer: its upstream, its cache key and the error for an object that the catalogue does not know.
type asked struct {
	guest.Upstream
	key string
	// replaces ErrMissing
	missing error
}

// cached returns the answer as JSON, from the cache or from ask.
func cached[T any](ctx context.Context, s *Service, a asked, ask func(context.Context) (T, error)) (View, error) {
	if s.opts.Source == nil {
		return View{}, ErrUpstream
	}
	v, err := s.view(ctx, a.Upstream, a.key, func(ctx context.Context) ([]byte, error) {
		answer, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return nil, errcode.Wrap(errcode.Internal, "encode an answer of the catalogue", err)
		}
		return text, nil
	})
	if errors.Is(err, ErrMissing) {
		err = a.missing
	}
	return v, err
}

// decoded is cached for callers that look into the answer, for example to hide suspended tenants.
func decoded[T any](ctx context.Context, s *Service, a asked, ask func(context.Context) (T, error)) (answer T, v View, err error) {
	if v, err = cached(ctx, s, a, ask); err != nil {
		return answer, v, err
	}
	if err := json.Unmarshal(v.Body, &answer); err != nil {
		return answer, v, errcode.Wrap(errcode.Internal, "decode an answer of the catalogue", err)
	}
	return answer, v, nil
}

// ErrPrice means that an upstream sent a malformed price.
var ErrPrice = errcode.New(errcode.Unavailable, "the catalogue sent a price that is not a whole number as text")

// CheckArrival returns errcode.Invalid if the arrival date is past everywhere.
func (s *Service) CheckArrival(q *SearchQuery) error {
	if q.CheckIn == "" {
		return nil
	}
	return CheckArrival(guest.BadMember, "checkIn", q.CheckIn, "", s.opts.Clock())
}

// Find normalizes the query and searches. The total comes from the catalogue: it is equal on every page and
// includes suspended tenants' properties.
func (s *Service) Find(ctx context.Context, q SearchQuery) (Results, View, error) {
	q.Bounds = nil
	hash, err := q.normalizedHash()
	if err != nil {
		return Results{}, View{}, err
	}
	u := UpstreamSearch
	if s.opts.Campaign {
		u.Fresh = campaignLife
	}
	r, v, err := decoded(ctx, s, asked{u, "cache:search:list:" + hash, ErrUpstream}, func(ctx context.Context) (Results, error) {
		r, err := s.opts.Source.Search(ctx, q)
		for _, i := range r.Items {
			if err == nil && !isMinor(i.CheapestNightlyMinor, i.TotalForStayMinor) {
				err = ErrPrice
			}
		}
		r.Items = orEmpty(r.Items)
		return r, err
	})
	if err != nil {
		return r, v, err
	}
	r.Items, err = visible(ctx, s, r.Items, func(l Listing) string { return l.TenantID })
	return r, v, err
}

// FindPins normalizes the query and searches for the map. Errors, total and suspended tenants are as in Find.
func (s *Service) FindPins(ctx context.Context, q SearchQuery) (Pins, View, error) {
	hash, err := q.normalizedHash()
	if err != nil {
		return Pins{}, View{}, err
	}
	r, v, err := decoded(ctx, s, asked{UpstreamMap, "cache:search:map:" + hash, ErrUpstream}, func(ctx context.Context) (Pins, error) {
		r, err := s.opts.Source.Map(ctx, q)
		for _, i := range r.Items {
			if err == nil && !isMinor(i.CheapestNightlyMinor) {
				err = ErrPrice
			}
		}
		r.Items = orEmpty(r.Items)
		return r, err
	})
	if err != nil {
		return r, v, err
	}
	r.Items, err = visible(ctx, s, r.Items, func(p Pin) string { return p.TenantID })
	return r, v, err
}

// visible removes suspended tenants' items, which may still be cached.
func visible[T any](ctx context.Context, s *Service, items []T, tenant func(T) string) ([]T, error) {
	var tenants []string
	for _, i := range items {
		if t := tenant(i); !slices.Contains(tenants, t) {
			tenants = append(tenants, t)
		}
	}
	suspended, err := s.opts.Suspended(ctx, tenants...)
	if err != nil || len(suspended) == 0 {
		return items, err
	}
	return slices.DeleteFunc(items, func(i T) bool { return slices.Contains(suspended, tenant(i)) }), nil
}

// isVisible returns missing if the tenant is suspended: to guests, it does not exist.
func (s *Service) isVisible(ctx context.Context, tenant string, missing error) error {
	suspended, err := s.opts.Suspended(ctx, tenant)
	if err == nil && len(suspended) > 0 {
		return missing
	}
	return err
}

// orEmpty makes JSON contain [] instead of null.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// Hotel returns a property page in the language closest to locale (BCP 47), with prices in currency (ISO 4217) if the
// source can. It returns ErrNoProperty for unknown and suspended ones, errcode.Invalid for a bad locale or currency,
// and otherwise ErrUpstream.
func (s *Service) Hotel(ctx context.Context, property, locale, currency string) (Hotel, View, error) {
	property, ok := ident.ParseUUID(property)
	switch {
	case !ok:
		return Hotel{}, View{}, ErrNoProperty
	case !guest.IsLocale(locale):
		return Hotel{}, View{}, guest.BadParameter(guest.ExpectedLocale, "locale")
	case !guest.IsCurrency(currency):
		return Hotel{}, View{}, guest.BadParameter(guest.ExpectedCurrency, "currency")
	}
	locale = normalizeLocale(locale)
	h, v, err := decoded(ctx, s, asked{UpstreamDetail, "cache:detail:" + property + ":" + locale + ":" + currency, ErrNoProperty}, func(ctx context.Context) (Hotel, error) {
		h, err := s.opts.Source.Hotel(ctx, property, locale, currency)
		if err == nil && !isMinor(h.CheapestNightlyMinor) {
			err = ErrPrice
		}
		h.Amenities, h.Images, h.RoomTypes = orEmpty(h.Amenities), orEmpty(h.Images), orEmpty(h.RoomTypes)
		return h, err
	})
	if err != nil {
		return h, v, err
	}
	return h, v, s.isVisible(ctx, h.TenantID, ErrNoProperty)
}

// Property returns ErrNoProperty for a malformed id, an unknown property and a suspended tenant's property.
func (s *Service) Property(ctx context.Context, property string) (Property, error) {
	property, ok := ident.ParseUUID(property)
	if !ok {
		return Property{}, ErrNoProperty
	}
	p, err := s.property(ctx, property)
	if err != nil {
		return p, err
	}
	return p, s.isVisible(ctx, p.TenantID, ErrNoProperty)
}

// property includes suspended tenants' properties. The id is canonical.
func (s *Service) property(ctx context.Context, property string) (Property, error) {
	p, _, err := decoded(ctx, s, asked{UpstreamProperty, "cache:property:" + property, ErrNoProperty}, func(ctx context.Context) (Property, error) {
		return s.opts.Source.Property(ctx, property)
	})
	return p, err
}

// PropertyOf returns ErrNoProperty for another tenant's property, and another error if the catalogue cannot tell.
func (s *Service) PropertyOf(ctx context.Context, tenant, property string) (Property, error) {
	p, err := s.property(ctx, property)
	if err == nil && p.TenantID != tenant {
		err = ErrNoProperty
	}
	return p, err
}

// Availability returns the offers for a stay as JSON. It asks for the property first: the arrival date must not be past
// in the property's time zone. Errors are as for Hotel.
func (s *Service) Availability(ctx context.Context, q AvailabilityQuery) (View, error) {
	if err := q.check(); err != nil {
		return View{}, err
	}
	p, err := s.Property(ctx, q.Property)
	if err != nil {
		return View{}, err
	}
	if err := CheckArrival(guest.BadParameter, "from", q.From, p.TimeZone, s.opts.Clock()); err != nil {
		return View{}, err
	}
	q.Property = p.PropertyID
	key := fmt.Sprintf("cache:availability:%s:%s:%s:%d-%d-%d", q.Property, q.From, q.To, q.Adults, q.Children, q.Rooms)
	return cached(ctx, s, asked{UpstreamAvailability, key, ErrNoProperty}, func(ctx context.Context) (Availability, error) {
		a, err := s.opts.Source.Availability(ctx, q)
		if err == nil && !isMinor(a.CheapestNightlyMinor, a.TotalForStayMinor) {
			err = ErrPrice
		}
		for _, o := range a.Offers {
			if err == nil && !isMinor(o.NightlyMinor, o.TotalForStayMinor) {
				err = ErrPrice
			}
		}
		a.Offers = orEmpty(a.Offers)
		return a, err
	})
}

// FacetsOf returns a region's Facets as JSON, or ErrNoRegion. country and region may have any case. Counts include
// suspended tenants' properties.
func (s *Service) FacetsOf(ctx context.Context, country, region string) (View, error) {
	country, region, ok := normalizeRegion(country, region)
	if !ok {
		return View{}, ErrNoRegion
	}
	return cached(ctx, s, asked{UpstreamFacets, "cache:facets:" + country + ":" + region, ErrNoRegion}, func(ctx context.Context) (Facets, error) {
		f, err := s.opts.Source.Facets(ctx, country, region)
		f.Stars, f.Amenities = orEmpty(f.Stars), orEmpty(f.Amenities)
		return f, err
	})
}

// BrandPeek returns a tenant's Brand, or ErrNoTenant for unknown and suspended ones.
func (s *Service) BrandPeek(ctx context.Context, tenant string) (Brand, View, error) {
	tenant, ok := guest.ParseTenant(tenant)
	if !ok {
		return Brand{}, View{}, ErrNoTenant
	}
	b, v, err := decoded(ctx, s, asked{UpstreamBrand, "cache:brand-peek:" + tenant, ErrNoTenant}, func(ctx context.Context) (Brand, error) {
		return s.opts.Source.Brand(ctx, tenant)
	})
	if err != nil {
		return b, v, err
	}
	return b, v, s.isVisible(ctx, tenant, ErrNoTenant)
}
