package extstorage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"holdfast/internal/canonjson"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/fairshare"
)

// Validators validates values, compiling each schema once. It does not keep document.
type Validators interface {
	// Validate validates a value by a registered schema, charging its memory to the tenant. It returns a *SchemaError,
	// another errcode.Invalid error if the schema is unusable under the current limits, or errcode.Unavailable after
	// waiting for memory.
	Validate(ctx context.Context, tenant TenantID, document []byte, v canonjson.Value) error
}

// Documents checks schema documents. Error pointers are into the document.
type Documents interface {
	// Check returns *ValidationError for a document that is not a valid schema within the limits.
	Check(document []byte) error

	// Trial compiles a checked document and validates the samples in a killable process. It returns a
	// *ValidationError if that takes too much time or memory, even if all samples match.
	Trial(ctx context.Context, document []byte, samples [][]byte) error

	// Compatible compares two documents that pass Check.
	Compatible(before, after []byte) (Compatibility, error)
}

// Options are the parts of a Service. All are required, except After. All are used concurrently. Registry, Installs,
// Tokens and Deletions keep to the rules of Store about owners, errors, slices and maps.
type Options struct {
	Store      Store
	Registry   Registry
	Installs   Installs
	Tokens     Tokens
	Deletions  Deletions
	Validators Validators
	Documents  Documents
	Config     Config
	CursorKeys [][]byte // at least 32 bytes each, the same on all processes; the first key signs
	Clock      clock.Clock

	// After is the clock for waiting requests. If it is nil, time.After is used.
	After func(time.Duration) <-chan time.Time
}

// Service validates and limits client requests, and executes them on the Store. It is safe for concurrent use.
type Service struct {
	opts     Options
	config   atomic.Pointer[Config]
	limits   Limits
	cursors  sealer
	signals  signals
	grants   *lru.Cache[string, Grant] // parsed, by claims
	installs *installCache
	schemas  seenSchemas

	waits   *fairshare.Pool // places for long polls, per install
	trials  *fairshare.Pool // see schemaTurns
	dryRuns *fairshare.Pool // also limits comparisons
}

// NewService returns errcode.Invalid for a short cursor key or a missing option.
func NewService(o Options) (*Service, error) {
	if o.Store == nil || o.Registry == nil || o.Installs == nil || o.Tokens == nil || o.Deletions == nil || o.Validators == nil || o.Documents == nil || o.Clock == nil {
		return nil, errcode.New(errcode.Invalid, "extstorage: Options requires Store, Registry, Installs, Tokens, Deletions, Validators, Documents and Clock")
	}
	if len(o.CursorKeys) == 0 || slices.ContainsFunc(o.CursorKeys, func(key []byte) bool { return len(key) < minSecret }) {
		return nil, errcode.New(errcode.Invalid, "CursorKeys: at least one key is required, each at least 32 bytes")
	}
	if o.After == nil {
		o.After = time.After
	}
	s := &Service{
		opts: o, limits: DefaultLimits(), cursors: sealer{o.CursorKeys},
		grants: keep[string, Grant](grantsKept), installs: newInstallCache(), schemas: newSeenSchemas(),
		waits: newWaits(), trials: newSchemaPool(&o.Config), dryRuns: newSchemaPool(&o.Config),
	}
	s.Reload(o.Config)
	s.opts.Config = Config{}
	return s, nil
}

// Reload changes the settings for later requests.
func (s *Service) Reload(c Config) { s.config.Store(&c) }

// Limits returns the request limits.
func (s *Service) Limits() Limits { return s.limits }

// Request holds parameters common to all use cases.
type Request struct {
	Grant          Grant
	Caller         Caller          // for the audit
	IdempotencyKey *IdempotencyKey // writes only; may be nil
	Slot           Slot            // nil if the request occupies no slot

	after Seq // change numbers continue above it; for imports
}

// Slot is the place of a request among those that are served at the same time.
type Slot interface {
	// Without releases the slot, so that other requests can run, calls wait, and acquires the slot again. It returns the
	// error of wait, or of the second acquisition. Then the request has no slot.
	Without(wait func() error) error
}

// do runs fn with a place in the pool. While it waits for the place, the request gives up its slot.
func (r *Request) do(ctx context.Context, p *fairshare.Pool, fn func() error) error {
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
				err = errcode.Wrap(errcode.Unavailable, "too many schema checks are running: retry later", err)
			}
			return err
		}
	}
	return fn()
}

// withoutSlot calls wait without the request's slot.
func (r *Request) withoutSlot(wait func() error) error {
	if r.Slot == nil {
		return wait()
	}
	return r.Slot.Without(wait)
}

func (s *Service) moment() Moment { return At(s.opts.Clock()) }

// pass checks a grant against the registration and revoked tokens, at most installAge old. If the database is
// unavailable, pass fails rather than use older data.
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

// install returns the registration, at most installAge old.
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

// may checks that the token allows access a to the namespace.
func (s *Service) may(ctx context.Context, g Grant, ns Namespace, a Access) (Pass, error) {
	p, err := s.pass(ctx, g)
	if err == nil {
		err = p.need(ns, a)
	}
	return p, err
}

// quota returns the quota in effect.
func (s *Service) quota(in *Install, now Moment) Quota {
	return in.Quota(s.config.Load().QuotaOf(in.Tier), now)
}

// repeats limits how often a write is planned again because the schema changed.
const repeats = 10

// write checks, plans and applies tasks, and plans again if the active schema changed meanwhile. It checks the grant
// each time.
func (s *Service) write(ctx context.Context, r Request, tasks []Task) ([]Result, error) {
	for i := range tasks {
		if err := s.checkTask(&tasks[i]); err != nil {
			return nil, &ItemError{i, err}
		}
	}
	for repeated := 0; ; repeated++ {
		p, err := s.passAll(ctx, r.Grant, tasks) // each time: the grant may have been revoked
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
			return nil, errcode.Wrap(errcode.Unavailable, "the active schema changed during every attempt: retry", err)
		}
	}
}

// passAll checks the grant for all tasks.
func (s *Service) passAll(ctx context.Context, g Grant, tasks []Task) (Pass, error) {
	p, err := s.pass(ctx, g)
	for i := 0; err == nil && i < len(tasks); i++ {
		if denied := p.need(tasks[i].Namespace, tasks[i].access()); denied != nil {
			err = &ItemError{i, denied}
		}
	}
	return p, err
}

// attempt plans and applies the operations. It assumes that a namespace missing from the cache has no schema, the
// usual case, and the Store checks this.
func (s *Service) attempt(ctx context.Context, p *Pass, r Request, tasks []Task) (Applied, error) {
	a := &plan{service: s, owner: p.Owner, now: s.moment(), guesses: true}
	applied, err := a.apply(ctx, p, r, tasks)
	switch {
	case len(a.guessed) == 0:
	case err == nil && !applied.Replayed: // a stored response contains no information about schemas
		for _, at := range a.guessed {
			s.schemas.add(at, Schema{})
		}
	case err != nil && isClients(err):
		a = &plan{service: s, owner: p.Owner, now: s.moment()}
		return a.apply(ctx, p, r, tasks)
	}
	return applied, err
}

// apply plans the tasks and applies them. If a task fails by itself, the earlier tasks are still checked by the Store:
// their errors take precedence, and an idempotency key may have a stored response.
func (a *plan) apply(ctx context.Context, p *Pass, r Request, tasks []Task) (Applied, error) {
	s := a.service
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

// isClients reports whether the error is the client's fault, so that a retry does not help.
func isClients(err error) bool {
	return !errcode.Is(err, errcode.Unavailable) && !errcode.Is(err, errcode.Internal)
}

// prepareRetry returns nil if the write must be planned again with a newly read schema.
func (s *Service) prepareRetry(ctx context.Context, o Owner, tasks []Task, err error) error {
	item, ok := errors.AsType[*ItemError](err)
	if !ok {
		return err
	}
	if errors.Is(item, ErrSchemaChanged) {
		s.schemas.remove(namespaceOf{o, tasks[item.Index].Namespace}) // the retry reads it again
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

// Sweep is Store.Sweep for rows that have been due for at least sweep_after.
func (s *Service) Sweep(ctx context.Context, kind Swept, now time.Time, limit int) (int, error) {
	return s.opts.Store.Sweep(ctx, kind, At(now), At(now.Add(-s.config.Load().SweepAfter)), limit)
}

// DryRunTime returns the setting.
func (s *Service) DryRunTime() time.Duration { return s.config.Load().DryRunTime }

// QuotaOf returns a tier's quota.
func (s *Service) QuotaOf(tier string) Quota { return s.config.Load().QuotaOf(tier) }

// Tiers returns the tier names, sorted.
func (s *Service) Tiers() []string { return slices.Sorted(maps.Keys(s.config.Load().Tiers)) }

// After is Options.After.
func (s *Service) After(d time.Duration) <-chan time.Time { return s.opts.After(d) }

// Ping is Store.Ping.
func (s *Service) Ping(ctx context.Context) error { return s.opts.Store.Ping(ctx) }
