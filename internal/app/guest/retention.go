package guest

import (
	"context"
	"time"

	"holdfast/internal/guest/retention"
	"holdfast/internal/sweep"
)

// sweeps names the retention jobs in logs and metrics.
var sweeps = map[retention.Job]string{
	retention.JobAnswers:     "old answers of guests",
	retention.JobRemoved:     "removed wishes of guests",
	retention.JobSilent:      "wishlists of silent guests",
	retention.JobUsers:       "old sessions of users of guests",
	retention.JobHandoffs:    "old handoffs of guests",
	retention.JobRefusals:    "refused attempts to consume handoffs of guests",
	retention.JobBotScores:   "old bot scores of guests",
	retention.JobEvents:      "published events of guests",
	retention.JobAuditEvents: "published audit events of guests",
	retention.JobReceived:    "received events of guests",
}

func (s *Guest) sweepJobs(r *retention.Service) (jobs []sweep.Job) {
	for _, job := range retention.Jobs {
		jobs = append(jobs, sweep.Job{
			Name: sweeps[job], Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit,
			Run: func(ctx context.Context, now time.Time, limit int) (int, error) { return r.Step(ctx, job, now, limit) },
		})
	}
	return jobs
}
