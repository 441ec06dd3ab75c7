package ext

import (
	"context"

	"holdfast/internal/app/service"
)

// backlogs counts audit events that wait or were set aside, for the overview.
func (s *Extensions) backlogs(ctx context.Context) ([]service.Fact, error) {
	waiting, err := service.WaitingCell(ctx, s.audit, s.deps.Clock())
	if err != nil {
		return nil, err
	}
	dead, err := s.audit.CountDead(ctx)
	if err != nil {
		return nil, err
	}
	return []service.Fact{{Name: "Audit events to publish", Cell: waiting}, {Name: "Audit events set aside", Cell: service.DeadCell(dead)}}, nil
}
