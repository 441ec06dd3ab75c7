package tenants

import (
	"context"
	"slices"
	"time"

	"holdfast/internal/errcode"
)

// Suspended returns the suspended tenants in tenants, from the copy in Hot, or from the table if the copy is lost or
// unavailable. Operations that must never happen for a suspended tenant, e.g. handoffs, ask the database instead.
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

const refreshTries = 5 // reads, if events keep arriving in between

// Refresh replaces the copy with the table, including reinstated tenants: an older event may have been applied before
// and still be on its way to the copy.
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

// copySuspension updates the copy after an event. If that fails, Repair replaces the copy.
func (s *Service) copySuspension(ctx context.Context, state Suspension) {
	if s.opts.Hot == nil {
		return
	}
	if err := s.opts.Hot.SetSuspension(ctx, state); err != nil {
		s.opts.Degraded.Without("suspended", err)
		s.stale.Store(true)
	}
}

// reconcileEvery is how often the copy is replaced even if nothing failed.
const reconcileEvery = time.Minute

// Repair is a step for guest.Run. It refreshes the copy every minute, and after a failed update.
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
