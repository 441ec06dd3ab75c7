package httpapi

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
	"holdfast/internal/web/rate"
)

// cost says which rate limit a request counts against.
type cost uint8

const (
	free cost = iota // checked, but not counted
	read
	write
)

// Rates limits requests per install and tenant, for Handler and Runner together. A nil Rates is unlimited.
type Rates struct {
	now   clock.Clock
	rates atomic.Pointer[rates]
}

type rates struct {
	of            ext.Rates
	reads, writes *rate.Buckets
	tenants       *rate.Shared
}

const ratedClients = 10_000

// NewRates returns errcode.Invalid if a rate is not positive.
func NewRates(of ext.Rates, now clock.Clock) (*Rates, error) {
	r := &Rates{now: now}
	return r, r.Set(of)
}

// Clear removes all limits.
func (r *Rates) Clear() { r.rates.Store(nil) }

// Limits returns the limits, and false without limits.
func (r *Rates) Limits() (of ext.Rates, limited bool) {
	if r := r.rates.Load(); r != nil {
		return r.of, true
	}
	return of, false
}

// Set replaces the limits and begins all counts again; limits that are equal to the current ones change nothing. It
// returns errcode.Invalid as NewRates does. Requests may be served meanwhile, as for Clear.
func (r *Rates) Set(of ext.Rates) error {
	if had, limited := r.Limits(); limited && had == of {
		return nil
	}
	reads, err := rate.New(rate.Limit{Events: of.Reads, Per: time.Minute, Burst: of.ReadBurst}, ratedClients, r.now)
	if err != nil {
		return err
	}
	writes, err := rate.New(rate.Limit{Events: of.Writes, Per: time.Minute, Burst: of.WriteBurst}, ratedClients, r.now)
	if err != nil {
		return err
	}
	tenants, err := rate.NewShared(rate.Limit{Events: of.Tenant, Per: time.Second, Burst: of.TenantBurst}, ratedClients, r.now)
	if err != nil {
		return err
	}
	r.rates.Store(&rates{of, reads, writes, tenants})
	return nil
}

// take counts a request, and sets headers for the limit that is closer: the install's or the tenant's. If either
// limit is exceeded, take returns errRate and counts the request for neither.
func (r *Rates) take(w http.ResponseWriter, o ext.Owner, c cost) error {
	if r == nil {
		return nil
	}
	limits := r.rates.Load()
	if limits == nil {
		return nil
	}
	state, ok := limits.allow(o, c)
	state.SetHeaders(w.Header())
	if !ok {
		return errRate
	}
	return nil
}

// allow counts a request for install and tenant if both have room, and returns the tighter state.
func (r *rates) allow(o ext.Owner, c cost) (rate.State, bool) {
	bucket, n := r.writes, 1
	switch c {
	case free:
		n = 0
	case read:
		bucket = r.reads
	}
	install := string(o.Tenant) + string(o.Install)
	tenant := string(o.Tenant)
	ok, own := bucket.Check(install, n)
	if !ok {
		_, all := r.tenants.Check(tenant, install, n)
		return own.Tighter(all), false
	}
	ok, all := r.tenants.Allow(tenant, install, n)
	if !ok {
		return own.Tighter(all), false
	}
	ok, own = bucket.Allow(install, n)
	return own.Tighter(all), ok
}

// wait waits until the rate limits allow a further step of an import.
func (x *exchange) wait(c cost) error {
	if x.rates == nil {
		return nil
	}
	limits := x.rates.rates.Load()
	if limits == nil {
		return nil
	}
	state, ok := limits.allow(x.ask.Grant.Owner, c)
	if ok {
		return nil
	}
	return web.WithoutSlot(x.in, func() error {
		for !ok {
			select {
			case <-x.service.After(state.Retry):
			case <-x.ctx().Done():
				return errcode.Wrap(errcode.Unavailable, "the request ended while it waited for its rate limit", context.Cause(x.ctx()))
			case <-web.ShuttingDown(x.ctx()).Done():
				return errEnding
			}
			state, ok = limits.allow(x.ask.Grant.Owner, c)
		}
		return nil
	})
}
