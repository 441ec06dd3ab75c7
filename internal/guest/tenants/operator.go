package tenants

import (
	"context"
	"encoding/json"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/inbox"
)

// OperatorSource is the event source for operators' suspensions.
const OperatorSource = "holdfast guest tenant"

// SuspendedTenants lists suspended tenants. See Store.
func (s *Service) SuspendedTenants(ctx context.Context, after string, limit int) ([]Suspension, error) {
	return s.opts.Store.SuspendedTenants(ctx, after, limit)
}

// Quarantined lists events that could not be applied.
func (s *Service) Quarantined(ctx context.Context, limit int) ([]inbox.Quarantine, error) {
	return s.opts.Store.Quarantined(ctx, limit)
}

// Suspend creates an event with the present time. It returns errcode.Conflict if the state comes from a later
// event.
func (s *Service) Suspend(ctx context.Context, tenant string, suspended bool, reason string) error {
	id, ok := guest.ParseTenant(tenant)
	if !ok {
		return guest.ErrTenant
	}
	body, err := json.Marshal(map[string]string{"tenantId": id, "reason": reason})
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	e := inbox.Event{Source: OperatorSource, ID: string(guest.NewID(guest.EventPrefix, s.opts.Clock())), Type: s.opts.Types.Reinstated[0], Time: s.opts.Clock(), Body: body}
	if suspended {
		e.Type = s.opts.Types.Suspended[0]
	}
	if _, err := s.Receive(ctx, e); err != nil {
		return err
	}
	is, err := s.opts.Store.Suspended(ctx, id)
	if err == nil && is != suspended {
		err = errcode.New(errcode.Conflict, "an event with a later time says otherwise: check the event senders' clocks")
	}
	return err
}
