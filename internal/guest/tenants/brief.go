package tenants

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/inbox"
)

// BriefSource is the source of the events of brief suspensions.
const BriefSource = "holdfast guest demo"

// briefReason marks brief suspensions, so that every process can end them.
const briefReason = "brief suspension by a guest of the demo"

// Limits of brief suspensions.
const (
	BriefLife = time.Minute
	mostBrief = 10 // that begin within BriefLife, in a process
)

// BriefState is a suspension that ends by itself.
type BriefState struct {
	TenantID string    `json:"tenantId"`
	EndsAt   time.Time `json:"endsAt"`
}

// briefs are the brief suspensions that this process has begun.
type briefs struct {
	mu     sync.Mutex
	active []BriefState
	begun  []time.Time
	looked time.Time // when EndBriefs last read the table
}

var (
	errTooManyBriefs = errcode.New(errcode.Conflict, "too many tenants were suspended in the demo within a minute: wait for their end")
	errOtherState    = errcode.New(errcode.Conflict, "the tenant is suspended by somebody else, or its state has changed")
)

// SuspendBriefly suspends a tenant for BriefLife. It does not replace another suspension.
func (s *Service) SuspendBriefly(ctx context.Context, tenant string) (BriefState, error) {
	all, err := s.opts.Store.SuspendedTenants(ctx, "", 0)
	if err != nil {
		return BriefState{}, err
	}
	if slices.ContainsFunc(all, func(o Suspension) bool { return o.Tenant == tenant }) {
		return BriefState{}, errOtherState
	}
	now := s.opts.Clock()
	if !s.briefs.begin(now) {
		return BriefState{}, errTooManyBriefs
	}
	state := BriefState{tenant, now.Add(BriefLife).UTC().Truncate(time.Millisecond)}
	if err := s.setBrief(ctx, tenant, now, true); err != nil {
		return BriefState{}, err
	}
	s.briefs.add(state)
	return state, nil
}

// setBrief applies an event of a brief suspension, or of its end.
func (s *Service) setBrief(ctx context.Context, tenant string, at time.Time, suspended bool) error {
	body, err := json.Marshal(map[string]string{"tenantId": tenant, "reason": briefReason})
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	e := inbox.Event{Source: BriefSource, ID: string(guest.NewID(guest.EventPrefix, s.opts.Clock())), Type: s.opts.Types.Reinstated[0], Time: at, Body: body}
	if suspended {
		e.Type = s.opts.Types.Suspended[0]
	}
	result, err := s.Receive(ctx, e)
	if err == nil && result != inbox.Applied {
		err = errOtherState
	}
	return err
}

// EndBrief ends the brief suspension of a tenant. It does nothing if the tenant is not suspended, and refuses if the
// suspension is not brief.
func (s *Service) EndBrief(ctx context.Context, tenant string) error {
	all, err := s.opts.Store.SuspendedTenants(ctx, "", 0)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.Tenant != tenant {
			continue
		}
		if o.Reason != briefReason {
			return errOtherState
		}
		if err := s.endBrief(ctx, &o); err != nil {
			return err
		}
	}
	s.briefs.remove(tenant)
	return nil
}

// endBrief reinstates a tenant as of a moment after the suspension, so that every later event counts instead.
func (s *Service) endBrief(ctx context.Context, o *Suspension) error {
	return s.setBrief(ctx, o.Tenant, o.At.Add(time.Microsecond), false)
}

// EndBriefs ends the brief suspensions that are over, once a minute also those of processes that were killed. It is a
// step for guest.Run.
func (s *Service) EndBriefs(ctx context.Context) {
	now := s.opts.Clock()
	if !s.briefs.due(now) {
		return
	}
	all, err := s.opts.Store.SuspendedTenants(ctx, "", 0)
	if err != nil {
		return // the next step tries again
	}
	for i := range all {
		if o := &all[i]; o.Reason == briefReason && !now.Before(o.At.Add(BriefLife)) && s.endBrief(ctx, o) != nil {
			return
		}
	}
	s.briefs.ended(now)
}

// Brief returns the brief suspensions that this process has begun.
func (s *Service) Brief() []BriefState {
	s.briefs.mu.Lock()
	defer s.briefs.mu.Unlock()
	return append([]BriefState{}, s.briefs.active...)
}

// begin counts a suspension, and returns false if too many began lately.
func (b *briefs) begin(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = slices.DeleteFunc(b.begun, func(t time.Time) bool { return now.Sub(t) >= BriefLife })
	if len(b.begun) >= mostBrief {
		return false
	}
	b.begun = append(b.begun, now)
	return true
}

func (b *briefs) add(state BriefState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = append(b.active, state)
}

func (b *briefs) remove(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = slices.DeleteFunc(b.active, func(o BriefState) bool { return o.TenantID == tenant })
}

// due reports whether a suspension of this process is over, or the table was not read for a minute.
func (b *briefs) due(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.looked) >= BriefLife || slices.ContainsFunc(b.active, func(o BriefState) bool { return !now.Before(o.EndsAt) })
}

// ended forgets what is over.
func (b *briefs) ended(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = now
	b.active = slices.DeleteFunc(b.active, func(o BriefState) bool { return !now.Before(o.EndsAt) })
}
