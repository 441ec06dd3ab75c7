package guest

import (
	"context"
	"time"

	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/retention"
	"holdfast/internal/sweep"
)

// sweeps are the jobs' names in logs and metrics.
var sweeps = map[retention.Job]string{
	retention.JobAnswers:     "old guest responses",
	retention.JobRemoved:     "removed guest wishes",
	retention.JobSilent:      "inactive guests' wishlists",
	retention.JobUsers:       "old guest user sessions",
	retention.JobHandoffs:    "old guest handoffs",
	retention.JobRefusals:    "refused attempts to consume guest handoffs",
	retention.JobBotScores:   "old guest bot scores",
	retention.JobEvents:      "published guest events",
	retention.JobAuditEvents: "published guest audit events",
	retention.JobReceived:    "received guest events",
}

// sweepJobs makes a background sweep of each retention job. Processes with the same database take turns; see
// retention.Service.Step.
func (s *Guest) sweepJobs(r *retention.Service, st backend.Store) (jobs []sweep.Job) {
	for _, job := range retention.Jobs {
		jobs = append(jobs, sweep.Job{
			Name: sweeps[job], Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit,
			Run: func(ctx context.Context, now time.Time, limit int) (int, error) { return r.Step(ctx, job, now, limit) },
		})
	}
	if kept, ok := st.(keeping); ok {
		jobs = append(jobs, sweep.Job{
			Name: "old guest hot state", Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit,
			Run: func(ctx context.Context, now time.Time, limit int) (int, error) {
				return kept.DropOldHot(ctx, now.Add(-s.cfg.SweepAfter), limit)
			},
		})
	}
	return jobs
}
