package guest

import (
	"context"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/sweep"
)

// sweeps are the names of the retention jobs in logs and metrics.
var sweeps = map[guest.Job]string{
	guest.JobAnswers:     "old answers of guests",
	guest.JobRemoved:     "removed wishes of guests",
	guest.JobSilent:      "wishlists of silent guests",
	guest.JobHandoffs:    "old handoffs of guests",
	guest.JobRefusals:    "refused attempts to consume handoffs of guests",
	guest.JobBotScores:   "old bot scores of guests",
	guest.JobEvents:      "published events of guests",
	guest.JobAuditEvents: "published audit events of guests",
	guest.JobReceived:    "received events of guests",
}

// sweepJobs returns the retention jobs for the server.
func (s *Guest) sweepJobs(r *guest.RetentionService) (jobs []sweep.Job) {
	for _, job := range guest.Jobs {
		jobs = append(jobs, sweep.Job{
			Name: sweeps[job], Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit,
			Run: func(ctx context.Context, now time.Time, limit int) (int, error) { return r.Step(ctx, job, now, limit) },
		})
	}
	return jobs
}
