package guest

import (
	"context"
	"slices"

	"holdfast/internal/fault"
)

// SuspendedOf returns those of the tenants that are suspended, by the copy in Hot, or by
// the table if the copy is lost or unavailable. Views of a suspended tenant are not served.
// What must never happen for one, such as a handoff, asks Tx.Suspended instead.
func (s *Service) SuspendedOf(ctx context.Context, tenants ...string) ([]string, error) {
	if len(tenants) == 0 {
		return nil, nil
	}
	suspended, known, err := s.Hot.Suspended(ctx, tenants)
	switch {
	case err == nil && known:
		return suspended, nil
	case err == nil:
		s.mirrors.askRefresh()
	case !s.without("suspended", err):
		return nil, err
	}
	all, err := s.Store.SuspendedTenants(ctx)
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

// refreshTries is how often RefreshSuspensions tries while events arrive.
const refreshTries = 5

// RefreshSuspensions replaces the copy of the suspended tenants by the table. The copy gets
// the states of reinstated tenants too: an event that is older than the state of a tenant may
// have been applied before, and still be on its way to the copy.
func (s *Service) RefreshSuspensions(ctx context.Context) error {
	for range refreshTries {
		version, _, err := s.Hot.SuspensionVersion(ctx)
		if err != nil {
			return err
		}
		all, err := s.Store.TenantStates(ctx)
		if err != nil {
			return err
		}
		if put, err := s.Hot.PutSuspensions(ctx, version, all); put || err != nil {
			return err
		}
	}
	return fault.New(fault.Conflict, "the suspended tenants change too often to copy them")
}

// copySuspension changes the copy after an event was applied. A copy of a later event stays.
// If it cannot, Repair does.
func (s *Service) copySuspension(ctx context.Context, state Suspension) {
	if s.Hot == nil {
		return
	}
	if err := s.Hot.SetSuspension(ctx, state); err != nil {
		s.without("suspended", err)
		s.mirrors.askRefresh()
	}
}
