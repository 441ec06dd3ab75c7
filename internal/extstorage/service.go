package extstorage

import (
	"context"
	"errors"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/canonjson"
	"holdfast/internal/clock"
	"holdfast/internal/fair"
	"holdfast/internal/fault"
)

// Validators holds values against schemas; it compiles a document once.
type Validators interface {
	// Validate holds a value against a schema that was let in; what the schema takes
	// of memory is the tenant's. A *SchemaError with places in the value, which are
	// its pointers, too, refuses it; another error that is fault.Invalid says why the schema cannot be
	// used, which was let in by other limits. It waits while there is no memory for
	// the schema: fault.Unavailable.
	Validate(ctx context.Context, tenant TenantID, document []byte, v canonjson.Value) error
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
	Inspector  Inspector
	Registry   Registry
	Installs   Installs
	Tokens     Tokens
	Deletions  Deletions
	Validators Validators
	Documents  Documents
	Config     Config
	CursorKeys [][]byte // the first signs cursors; the same on all processes, 32 bytes each at least
	Clock      clock.Clock

	// After is how time passes while a request waits; nil: time.After.
	After func(time.Duration) <-chan time.Time
}

// Service is the use cases: it validates and limits what a client wants
// and makes steps of the Store of it. It is safe for concurrent use.
type Service struct {
	opts     Options
	limits   Limits
	cursors  sealer
	signals  signals
	grants   *lru.Cache[string, Grant]
	installs *installCache
	schemas  seenSchemas

	waits   *fair.Pool // requests that wait
	trials  *fair.Pool // trials of schemas
	dryRuns *fair.Pool // dry runs, with the comparison before each
}

// NewService returns the service, or fault.Invalid when an option is missing that
// would be missed only later, or a key for cursors is too short.
func NewService(o Options) (*Service, error) {
	if o.Store == nil || o.Inspector == nil || o.Registry == nil || o.Installs == nil || o.Tokens == nil || o.Deletions == nil || o.Validators == nil || o.Documents == nil || o.Clock == nil {
		return nil, fault.New(fault.Invalid, "extstorage: Options requires Store, Inspector, Registry, Installs, Tokens, Deletions, Validators, Documents and Clock")
	}
	if len(o.CursorKeys) == 0 || slices.ContainsFunc(o.CursorKeys, func(key []byte) bool { return len(key) < minSecret }) {
		return nil, fault.New(fault.Invalid, "CursorKeys: at least one key is required, each of at least 32 bytes")
	}
	if o.After == nil {
		o.After = time.After
	}
	return &Service{
		opts: o, limits: DefaultLimits(), cursors: sealer{o.CursorKeys},
		grants: keep[string, Grant](grantsKept), installs: newInstallCache(), schemas: newSeenSchemas(),
		waits: newWaits(), trials: newSchemaPool(&o.Config), dryRuns: newSchemaPool(&o.Config),
	}, nil
}

// Limits are what a request may bring.
func (s *Service) Limits() Limits { return s.limits }

// Request is what all use cases have in common.
type Request struct {
	Grant          Grant
	Caller         Caller
	IdempotencyKey *IdempotencyKey // for writes: nil, or the key by which it happens once
	Slot           Slot            // nil: it has none

	after Seq // of an import: the numbers of its changes are greater
}

// Slot is the place of a request among those that the server works on at once.
type Slot interface {
	// Without calls wait while the request has no slot, so that others may work.
	Without(wait func() error) error
}

// do calls fn while the tenant of the request has a unit of a pool. It waits for
// that without its slot.
func (r *Request) do(ctx context.Context, p *fair.Pool, fn func() error) error {
	client := string(r.Grant.Owner.Tenant)
	acquired := p.TryAcquire(client, 1)
	defer func() {
		if acquired {
			p.Release(client, 1)
		}
	}()
	if !acquired {
		if err := r.withoutSlot(func() error {
			err := p.Acquire(ctx, client, 1)
			acquired = err == nil
			return err
		}); err != nil {
			if ctx.Err() != nil {
				err = fault.Wrap(fault.Unavailable, "too many schema checks are running: retry later", err)
			}
			return err
		}
	}
	return fn()
}

func (r *Request) withoutSlot(wait func() error) error {
	if r.Slot == nil {
		return wait()
	}
	return r.Slot.Without(wait)
}

func (s *Service) moment() Moment { return At(s.opts.Clock()) }

// pass checks a grant against what is registered of its install and against the
// tokens that were revoked: ErrInstallDeleted, ErrInstallDeleting, ErrRevoked,
// ErrTokenRevoked. Both were read less than
// installAge ago. While the database is away, what is older is not used: the errors
// are those of the Store.
func (s *Service) pass(ctx context.Context, g Grant) (Pass, error) {
	if err := g.Owner.Check(); err != nil {
		return Pass{}, err
	}
	in, err := s.install(ctx, g.Owner)
	if err != nil {
		return Pass{}, err
	}
	if err := in.usable(&g.Token); err != nil {
		return Pass{}, err
	}
	p := Pass{Grant: g, install: in.Install, reread: in.at.Add(installAge)}
	if g.Token.Service {
		if in, err = s.install(ctx, Services(g.Owner.Tenant)); err != nil {
			return Pass{}, err
		}
		if again := in.at.Add(installAge); again.Before(p.reread) {
			p.reread = again
		}
	}
	if in.hasRevoked(g.Token.ID) {
		return Pass{}, ErrTokenRevoked
	}
	return p, nil
}

// install reads an install, or Services, of which it has seen no more than installAge
// ago what is in the database.
func (s *Service) install(ctx context.Context, o Owner) (seenInstall, error) {
	now := s.opts.Clock()
	in, known := s.installs.get(o)
	if age := now.Sub(in.at); known && age >= 0 && age < installAge {
		return in, nil
	}
	row, revoked, err := s.opts.Installs.InstallState(ctx, o, At(now))
	if err != nil {
		return seenInstall{}, err
	}
	in = seenInstall{row, revoked, now}
	s.installs.add(o, in)
	return in, nil
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
	return in.Quota(s.opts.Config.QuotaOf(in.Tier), now)
}

// repeats is how often a write is repeated at most because its schema has changed.
const repeats = 10

// write does the tasks of one request: all or none. Errors of a task are
// *ItemError.
func (s *Service) write(ctx context.Context, r Request, tasks []Task) ([]Result, error) {
	for i := range tasks {
		if err := s.checkTask(&tasks[i]); err != nil {
			return nil, &ItemError{i, err}
		}
	}
	for repeated := 0; ; repeated++ {
		p, err := s.passAll(ctx, r.Grant, tasks) // each time: it may have been revoked
		if err != nil {
			return nil, err
		}
		applied, err := s.attempt(ctx, &p, r, tasks)
		if err == nil {
			if !applied.Replayed {
				s.signals.notify(p.Owner)
			}
			return results(tasks, applied)
		}
		if err := s.prepareRetry(ctx, p.Owner, tasks, err); err != nil {
			return nil, err
		}
		if repeated == repeats {
			return nil, fault.Wrap(fault.Unavailable, "the active schema changed during every attempt: retry", err)
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
func (s *Service) attempt(ctx context.Context, p *Pass, r Request, tasks []Task) (Applied, error) {
	a := &plan{service: s, owner: p.Owner, now: s.moment()}
	w := Write{Now: a.now, Quota: s.quota(&p.install, a.now), Caller: r.Caller, IdempotencyKey: r.IdempotencyKey, After: r.after}
	failed := a.make(ctx, tasks)
	if failed != nil && (!isClients(failed) || r.IdempotencyKey == nil && len(tasks) == 1) {
		return Applied{}, failed
	}
	if w.Ops = a.ops; failed != nil {
		t := &tasks[len(a.ops)]
		w = w.FailAt(len(a.ops), t.Namespace, t.Key)
	}
	applied, err := s.opts.Store.Apply(ctx, p.Owner, w)
	if item, ok := errors.AsType[*ItemError](err); ok && failed != nil && item.Index == len(a.ops) {
		err = failed
	}
	return applied, err
}

// isClients reports whether a failure is of what was asked for, and not ours.
func isClients(err error) bool {
	return !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Internal)
}

// prepareRetry does what a write that failed needs before it is repeated. It
// returns the error when the write cannot be repeated.
func (s *Service) prepareRetry(ctx context.Context, o Owner, tasks []Task, err error) error {
	item, ok := errors.AsType[*ItemError](err)
	if !ok {
		return err
	}
	if errors.Is(item, ErrSchemaChanged) {
		s.schemas.remove(namespaceOf{o, tasks[item.Index].Namespace}) // the next try reads it anew
		return nil
	}
	if old, ok := errors.AsType[*outdatedError](item); ok {
		active, failed := s.loadSchema(ctx, old.at)
		if failed != nil {
			return failed
		}
		if active.same(old.schema) {
			return &ItemError{item.Index, old.error}
		}
		return nil
	}
	return err
}

// Sweep removes at most limit rows of a kind, of any installs, that were due for
// removal the setting sweep_after before now, or earlier.
func (s *Service) Sweep(ctx context.Context, kind Swept, now time.Time, limit int) (int, error) {
	return s.opts.Store.Sweep(ctx, kind, At(now), At(now.Add(-s.opts.Config.SweepAfter)), limit)
}

// Totals are what all installs have together, and how many tenants have more than
// SoftTenantBytes.
func (s *Service) Totals(ctx context.Context) (Totals, error) {
	return s.opts.Inspector.Totals(ctx, SoftTenantBytes, s.moment())
}

// QuotaOf is the quota of a tier, as Config.QuotaOf has it.
func (s *Service) QuotaOf(tier string) Quota { return s.opts.Config.QuotaOf(tier) }

// After is time.After by the clock of the service.
func (s *Service) After(d time.Duration) <-chan time.Time { return s.opts.After(d) }

// Ping says whether the store can serve.
func (s *Service) Ping(ctx context.Context) error { return s.opts.Store.Ping(ctx) }
