package ext

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/outbox"
)

// backlogLimit is the number of audit events up to which a backlog is counted, because they are read.
const backlogLimit = 512

// backlogs counts the audit events that are not published yet, and those that were set aside.
func (s *Extensions) backlogs(ctx context.Context) ([]service.Fact, error) {
	q := outbox.Query{Limit: backlogLimit, Now: s.deps.Clock().Add(100 * 365 * 24 * time.Hour)} // when no event waits for a refused one any more
	for p := range outbox.Partitions {
		q.Parts |= outbox.PartsOf(p)
	}
	waiting, more, err := s.audit.Next(ctx, q)
	if err != nil {
		return nil, err
	}
	n, err := s.audit.CountDead(ctx)
	if err != nil {
		return nil, err
	}
	queued := service.Count(int64(len(waiting)), "event")
	if more != 0 {
		queued += " or more"
	}
	dead := service.TextCell(service.Count(int64(n), "event"))
	if n == outbox.MaxDead {
		dead.Text += " or more"
	}
	if n > 0 {
		dead.State, dead.To = service.Warning, "dead-letters"
	}
	return []service.Fact{{Name: "Audit events to publish", Cell: service.TextCell(queued)}, {Name: "Audit events set aside", Cell: dead}}, nil
}
