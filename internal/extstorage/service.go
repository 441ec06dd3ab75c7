package extstorage

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
)

// Validators holds values against schemas; it compiles a document once.
type Validators interface {
	// Validate holds a value against a schema that was let in. A
	// *ValidationError with the place in the value refuses it.
	Validate(document []byte, v Value) error
}

// Documents judges schema documents. Places are in the document.
type Documents interface {
	// Check tells whether a document may be registered: *ValidationError.
	Check(document []byte) error

	// Trial compiles a document that passed Check and holds the samples against
	// it, where it can be stopped. *ValidationError when that takes too much,
	// whether or not the samples match.
	Trial(ctx context.Context, document []byte, samples [][]byte) error

	// Compatible compares two documents that pass Check.
	Compatible(before, after []byte) (Compatibility, error)
}

// Options are what a Service is made of.
type Options struct {
	Store      Store
	Registry   Registry
	Installs   Installs
	Validators Validators
	Documents  Documents
	Config     Config
	CursorKeys [][]byte // the first signs cursors; the same on all processes, 32 bytes each at least
	Clock      clock.Clock

	// After is how time passes while a request waits; nil: time.After.
	After func(time.Duration) <-chan time.Time
}

// Service is the use cases of the room: it judges and limits what a client wants
// and makes steps of the Store of it. It is safe for concurrent use.
type Service struct {
	Options
	limits   Limits
	cursors  sealer
	signals  signals
	grants   *lru.Cache[string, Grant]
	installs *lru.Cache[Owner, seenInstall]
	schemas  seenSchemas

	waits       *Shares
	schemaTries *Shares
	dryRuns     chan struct{} // a place for each
}

// NewService returns the service; fault.Invalid without a good key for cursors.
func NewService(o Options) (*Service, error) {
	if len(o.CursorKeys) == 0 || slices.ContainsFunc(o.CursorKeys, func(key []byte) bool { return len(key) < minSecret }) {
		return nil, fault.New(fault.Invalid, "a key for cursors is missing or has less than 32 bytes")
	}
	if o.After == nil {
		o.After = time.After
	}
	return &Service{
		Options: o, limits: DefaultLimits(), cursors: sealer{o.CursorKeys},
		grants: keep[string, Grant](grantsKept), installs: keep[Owner, seenInstall](installsKept), schemas: newSeenSchemas(),
		waits: NewShares(maxWaits, waitsOfOne), schemaTries: NewShares(schemaTries, triesOfOne), dryRuns: make(chan struct{}, dryRuns),
	}, nil
}

// Limits are what a request may bring.
func (s *Service) Limits() Limits { return s.limits }

// Request is what all use cases have in common.
type Request struct {
	Grant  Grant
	Caller Caller
	Once   *Once // for writes: nil, or the key by which it happens once
}

func (s *Service) moment() Moment { return At(s.Clock()) }

// pass holds a grant against what is registered of its install: ErrRevoked.
func (s *Service) pass(ctx context.Context, g Grant) (Pass, error) {
	if err := g.Owner.Check(); err != nil {
		return Pass{}, err
	}
	now := s.Clock()
	in, known := s.installs.Get(g.Owner)
	if age := now.Sub(in.at); !known || age < 0 || age >= installAge {
		row, err := s.Installs.Install(ctx, g.Owner)
		if err != nil && !errors.Is(err, ErrNoInstall) {
			return Pass{}, err
		}
		in = seenInstall{row, now}
		s.installs.Add(g.Owner, in)
	}
	if in.RevokedAt != 0 {
		return Pass{}, ErrRevoked
	}
	return Pass{Grant: g, install: in.Install}, nil
}

// may is the pass of a request that is about one namespace.
func (s *Service) may(ctx context.Context, g Grant, ns Namespace, a Access) (Pass, error) {
	p, err := s.pass(ctx, g)
	if err == nil {
		err = p.need(ns, a)
	}
	return p, err
}

// quota is that of an install at a moment.
func (s *Service) quota(in *Install, now Moment) Quota {
	return in.Quota(s.Config.QuotaOf(in.Tier), now)
}

// How often a write is repeated at most whose schema has changed or that
// reclaimed something. A change of the record that it was made of is a write of
// somebody else that got through, so for that there is no bound but the
// request's time.
const repeats = 10

// pauseMost is how long a write waits at most before it is repeated.
const pauseMost = 16 * time.Millisecond

// write does the tasks of one request: all or none. Errors of a task are
// *ItemError.
func (s *Service) write(ctx context.Context, r Request, tasks []Task) ([]Result, error) {
	for i := range tasks {
		if err := s.checkTask(&tasks[i]); err != nil {
			return nil, &ItemError{i, err}
		}
	}
	for repeated, try := 0, 0; ; try++ {
		p, err := s.passAll(ctx, r.Grant, tasks) // each time: it may have been revoked
		if err != nil {
			return nil, err
		}
		a, applied, err := s.attempt(ctx, &p, r, tasks)
		if err == nil {
			if !applied.Replayed {
				s.signals.notify(p.Owner)
			}
			return s.results(ctx, p.Owner, tasks, a, applied)
		}
		if !a.lost(err) {
			if err := s.mend(ctx, a, err); err != nil {
				return nil, err
			}
			if repeated++; repeated > repeats {
				return nil, fault.Wrap(fault.Unavailable, "the request was overtaken too often", err)
			}
		}
		if err := s.pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// passAll is the pass of a request that is about the records of tasks.
func (s *Service) passAll(ctx context.Context, g Grant, tasks []Task) (Pass, error) {
	p, err := s.pass(ctx, g)
	for i := 0; err == nil && i < len(tasks); i++ {
		if denied := p.need(tasks[i].Namespace, tasks[i].access()); denied != nil {
			err = &ItemError{i, denied}
		}
	}
	return p, err
}

// attempt plans the operations and applies them.
func (s *Service) attempt(ctx context.Context, p *Pass, r Request, tasks []Task) (*plan, Applied, error) {
	a := &plan{service: s, owner: p.Owner, now: s.moment(), seen: map[place]Value{}}
	w := Write{Now: a.now, Quota: s.quota(&p.install, a.now), Caller: r.Caller, Once: r.Once}
	failed := a.make(ctx, tasks)
	if failed != nil && (!isClients(failed) || r.Once == nil && len(tasks) == 1) {
		return a, Applied{}, failed
	}
	if w.Ops = a.ops; failed != nil {
		// The Store has the last word on what comes before the task that failed: an
		// operation that was planned may fail too, or the request may have been
		// done before, by its Once. It ends with one that never gets through.
		t := &tasks[len(a.ops)]
		never := Op{Kind: Check, Namespace: t.Namespace, Key: t.Key, Guard: Guard{Match: Tags{Set: true}}}
		w.Ops = append(slices.Clip(a.ops), never)
	}
	applied, err := s.Store.Apply(ctx, p.Owner, w)
	if item, ok := errors.AsType[*ItemError](err); ok && failed != nil && item.Index == len(a.ops) {
		err = failed
	}
	return a, applied, err
}

// isClients reports whether a failure is of what was asked for, and not ours.
func isClients(err error) bool {
	return !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Internal)
}

// mend does what a write that failed needs to be repeated; otherwise it returns
// the error that it failed with.
func (s *Service) mend(ctx context.Context, a *plan, err error) error {
	item, _ := errors.AsType[*ItemError](err)
	over, _ := errors.AsType[*QuotaError](err)
	switch {
	case errors.Is(err, ErrSchemaChanged) && item != nil:
		s.schemas.remove(namespaceOf{a.owner, a.ops[item.Index].Namespace})
		return nil //nolint:nilerr // it is mended
	case over != nil && over.Expired:
		for {
			n, err := s.Store.Reclaim(ctx, a.owner, a.now, ReclaimLimit)
			if err != nil || n < ReclaimLimit {
				return err
			}
		}
	}
	return err
}

// pause waits a little, by chance, so that writers of one record get out of each
// other's way.
func (s *Service) pause(ctx context.Context, try int) error {
	most := min(time.Millisecond<<min(try, 10), pauseMost)
	select {
	case <-s.After(rand.N(most)):
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, "too many write this record at once", context.Cause(ctx))
	}
}

// Sweep removes at most limit of what is over, of any installs.
func (s *Service) Sweep(ctx context.Context, limit int) (int, error) {
	return s.Store.Sweep(ctx, s.moment(), limit)
}

// Totals are what all installs have together, and how many tenants have more than
// SoftTenantBytes.
func (s *Service) Totals(ctx context.Context) (Totals, error) {
	return s.Store.Totals(ctx, SoftTenantBytes, s.moment())
}

// Ping says whether the store can serve.
func (s *Service) Ping(ctx context.Context) error { return s.Store.Ping(ctx) }
