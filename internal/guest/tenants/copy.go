package tenants

import (
	"context"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// Suspended returns those of the tenants that are suspended, by the copy in Hot, or by
// the table if the copy is lost or unavailable. Views of a suspended tenant are not served.
// What must never happen for one, such as a handoff, asks the database instead.
func (s *Service) Suspended(ctx context.Context, tenants ...string) ([]string, error) {
	if len(tenants) == 0 {
		return nil, nil
	}
	suspended, known, err := s.opts.Hot.Suspended(ctx, tenants)
	switch {
	case err == nil && known:
		return suspended, nil
	case err == nil:
		s.stale.Store(true)
	case !s.opts.Degraded.Without("suspended", err):
		return nil, err
	}
	all, err := s.opts.Store.SuspendedTenants(ctx, "", 0)
	if err != nil {
		return nil, err
	}
	for _, state := range all {
		if slices.Contains(tenants, state.Tenant) {
			suspended = append(suspended, state.Tenant)
		}
	}
	return suspended, nil
}

// refreshTries is how often Refresh tries while events arrive.
const refreshTries = 5

// Refresh replaces the copy of the suspended tenants by the table. The copy gets
// the states of reinstated tenants too: an event that is older than the state of a tenant may
// have been applied before, and still be on its way to the copy.
func (s *Service) Refresh(ctx context.Context) error {
	for range refreshTries {
		version, _, err := s.opts.Hot.SuspensionVersion(ctx)
		if err != nil {
			return err
		}
		all, err := s.opts.Store.TenantStates(ctx)
		if err != nil {
			return err
		}
		if put, err := s.opts.Hot.PutSuspensions(ctx, version, all); put || err != nil {
			return err
		}
	}
	return errcode.New(errcode.Conflict, "the suspended tenants change too often to copy them")
}

// copySuspension changes the copy after an event was applied. A copy of a later event stays.
// If it cannot, Repair does.
func (s *Service) copySuspension(ctx context.Context, state Suspension) {
	if s.opts.Hot == nil {
		return
	}
	if err := s.opts.Hot.SetSuspension(ctx, state); err != nil {
		s.opts.Degraded.Without("suspended", err)
		s.stale.Store(true)
	}
}

// reconcileEvery is the time between comparisons of the copy with the table.
const reconcileEvery = time.Minute

// Repair replaces the copy every minute, and after a change that could not be copied. It is a step
// for guest.Run.
func (s *Service) Repair(ctx context.Context) {
	now := time.Now()
	if !s.stale.Swap(false) && now.Sub(s.reconciled) < reconcileEvery {
		return
	}
	s.reconciled = now
	if err := s.Refresh(ctx); err != nil {
		s.stale.Store(true)
	}
}
