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

// BriefSource is the event source for brief suspensions.
const BriefSource = "holdfast guest demo"

// briefReason marks brief suspensions, so that every process can end them.
const briefReason = "brief suspension by a guest of the demo"

// Brief suspension limits.
const (
	BriefLife = time.Minute
	mostBrief = 10 // per BriefLife and process
)

// BriefState is a suspension with an end.
type BriefState struct {
	TenantID string    `json:"tenantId"`
	EndsAt   time.Time `json:"endsAt"`
}

// briefs tracks brief suspensions of this process.
type briefs struct {
	mu     sync.Mutex
	active []BriefState // not ended yet
	begun  []time.Time  // times within the last BriefLife
	looked time.Time    // last table read by EndBriefs
}

var (
	errTooManyBriefs = errcode.New(errcode.Conflict, "too many tenants were suspended in the demo within a minute: wait for their end")
	errOtherState    = errcode.New(errcode.Conflict, "the tenant is suspended by another operator or event, or its state has changed")
)

// SuspendBriefly suspends a tenant for BriefLife, unless somebody else suspended it.
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

// setBrief suspends or reinstates by an event at the given time.
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

// EndBrief ends a brief suspension. It refuses to end other suspensions.
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

// endBrief reinstates a tenant by an event just after the suspension, so that any later event wins.
func (s *Service) endBrief(ctx context.Context, o *Suspension) error {
	return s.setBrief(ctx, o.Tenant, o.At.Add(time.Microsecond), false)
}

// EndBriefs ends expired brief suspensions and, once a minute, those left by killed processes. It is a step for
// guest.Run.
func (s *Service) EndBriefs(ctx context.Context) {
	now := s.opts.Clock()
	if !s.briefs.due(now) {
		return
	}
	all, err := s.opts.Store.SuspendedTenants(ctx, "", 0)
	if err != nil {
		return // retried by the next step
	}
	for i := range all {
		if o := &all[i]; o.Reason == briefReason && !now.Before(o.At.Add(BriefLife)) && s.endBrief(ctx, o) != nil {
			return
		}
	}
	s.briefs.ended(now)
}

// Brief returns this process's brief suspensions.
func (s *Service) Brief() []BriefState {
	s.briefs.mu.Lock()
	defer s.briefs.mu.Unlock()
	return append([]BriefState{}, s.briefs.active...)
}

// begin reports whether another suspension is allowed, and counts it.
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

// add notes a suspension to end.
func (b *briefs) add(state BriefState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = append(b.active, state)
}

// remove forgets a suspension that was ended early.
func (b *briefs) remove(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = slices.DeleteFunc(b.active, func(o BriefState) bool { return o.TenantID == tenant })
}

// due reports whether EndBriefs has work.
func (b *briefs) due(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.looked) >= BriefLife || slices.ContainsFunc(b.active, func(o BriefState) bool { return !now.Before(o.EndsAt) })
}

// ended notes that EndBriefs did its work.
func (b *briefs) ended(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = now
	b.active = slices.DeleteFunc(b.active, func(o BriefState) bool { return !now.Before(o.EndsAt) })
}
