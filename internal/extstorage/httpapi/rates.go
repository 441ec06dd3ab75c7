package httpapi

import (
	"context"
	"net/http"
	"time"

	"holdfast/internal/clock"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
	"holdfast/internal/web"
	"holdfast/internal/web/rate"
)

// cost is which of an install's rates a request takes from.
type cost uint8

const (
	free cost = iota // takes by itself
	read
	write
)

// Rates bound how often installs and tenants may ask. Runner and Handler share
// them. nil lets everything pass.
type Rates struct {
	reads, writes *rate.Buckets // by tenant and install
	tenants       *rate.Shared  // by tenant, whose installs share it
}

// ratedClients is how many installs, and as many tenants, are kept count of.
const ratedClients = 10_000

// NewRates makes rates; fault.Invalid for a number that is not above 0.
func NewRates(r ext.Rates, now clock.Clock) (*Rates, error) {
	reads, err := rate.New(rate.Limit{Events: r.Reads, Per: time.Minute, Burst: r.ReadBurst}, ratedClients, now)
	if err != nil {
		return nil, err
	}
	writes, err := rate.New(rate.Limit{Events: r.Writes, Per: time.Minute, Burst: r.WriteBurst}, ratedClients, now)
	if err != nil {
		return nil, err
	}
	tenants, err := rate.NewShared(rate.Limit{Events: r.Tenant, Per: time.Second, Burst: r.TenantBurst}, ratedClients, now)
	if err != nil {
		return nil, err
	}
	return &Rates{reads, writes, tenants}, nil
}

// take counts a request and says in the answer's header what is left of the rate that
// would refuse next, the install's or the tenant's, or errRate. What is refused takes nothing: neither from the others of its
// tenant when the install is over its own rate, nor from the install when the
// others are.
func (r *Rates) take(w http.ResponseWriter, o ext.Owner, c cost) error {
	if r == nil {
		return nil
	}
	state, ok := r.allow(o, c)
	state.SetHeaders(w.Header())
	if !ok {
		return errRate
	}
	return nil
}

func (r *Rates) allow(o ext.Owner, c cost) (rate.State, bool) {
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

// wait takes one more for a step of a stream, and waits without a slot until it may.
func (x *exchange) wait(c cost) error {
	if x.rates == nil {
		return nil
	}
	state, ok := x.rates.allow(x.ask.Grant.Owner, c)
	if ok {
		return nil
	}
	return web.WithoutSlot(x.out, x.in, func() error {
		for !ok {
			select {
			case <-x.service.After(state.Retry):
			case <-x.ctx().Done():
				return fault.Wrap(fault.Unavailable, "the request ended while it waited for its rate limit", context.Cause(x.ctx()))
			case <-web.ShuttingDown(x.ctx()).Done():
				return errEnding
			}
			state, ok = x.rates.allow(x.ask.Grant.Owner, c)
		}
		return nil
	})
}
