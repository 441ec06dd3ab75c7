// Package retention deletes old guest data.
package retention

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/inbox"
)

// Job names a kind of old rows to delete.
type Job string

// Retention jobs.
const (
	JobAnswers     Job = "answers"        // expired
	JobRemoved     Job = "removed-wishes" // by removal time
	JobSilent      Job = "silent-wishes"  // wishlists, by the session's last day of use
	JobUsers       Job = "user-sessions"  // by the last request's day, including ended sessions
	JobHandoffs    Job = "handoffs"       // by mint time
	JobRefusals    Job = "refusals"       // refused handoffs, by last attempt
	JobBotScores   Job = "bot-scores"     // by evaluation time
	JobEvents      Job = "events"         // operational, by publication time
	JobAuditEvents Job = "audit-events"   // by publication time
	JobReceived    Job = "received"       // inbox events, and quarantined events after 30 days
)

// Jobs lists all jobs in the order in which the server runs them.
var Jobs = []Job{JobAnswers, JobRemoved, JobSilent, JobUsers, JobHandoffs, JobRefusals, JobBotScores, JobEvents, JobAuditEvents, JobReceived}

// Job limits.
const (
	MaxStep  = 5000      // rows per step
	MaxCount = 1_000_000 // limits the count
)

const (
	// For JobRemoved, JobSilent and JobUsers. Not configurable; docs/guest-operate.md states the 30 days.
	keepWishes = 30 * 24 * time.Hour
	// For JobBotScores.
	keepBotScores = 7 * 24 * time.Hour
)

// ErrNoJob rejects unknown names.
var ErrNoJob = errcode.New(errcode.NotFound, "no such retention job")

// ParseJob returns the named job, or ErrNoJob.
func ParseJob(name string) (Job, error) {
	for _, j := range Jobs {
		if string(j) == name {
			return j, nil
		}
	}
	return "", ErrNoJob
}

// ErrJobRuns means that another process runs the job.
var ErrJobRuns = errcode.New(errcode.Conflict, "another process runs this job: run it again later")

// Store is the part of the guest database that deletes old rows. It is safe for concurrent use.
type Store interface {
	// Drop deletes up to limit old rows, older than before and oldest first, and returns how many; fewer than limit mean
	// that none is left. Only the job's leader deletes; other processes get ErrJobRuns.
	Drop(ctx context.Context, job Job, before time.Time, limit int) (int, error)

	// CountOld counts the rows that Drop would delete in total, up to MaxCount.
	CountOld(ctx context.Context, job Job, before time.Time) (int, error)
}

// Service deletes rows that are no longer needed. It is safe for concurrent use.
type Service struct {
	opts Options
	kept atomic.Pointer[Kept]
}

// Kept says how long published events stay in the outbox: operational ones (Events) and audit events (Audit).
type Kept struct{ Events, Audit time.Duration }

// Options are a Service's dependencies, all required.
type Options struct {
	Store Store
	Clock clock.Clock

	// how long answers to repeated requests are kept
	Expired time.Duration
	// the initial values; see Keep
	Kept Kept
}

// New returns a service that uses o.Kept until Keep.
func New(o Options) *Service {
	r := &Service{opts: o}
	r.Keep(o.Kept)
	return r
}

// Keep replaces the periods for events, after a reload of the configuration.
func (r *Service) Keep(k Kept) { r.kept.Store(&k) }

// Before returns the time before which a job's rows are old.
func (r *Service) Before(job Job, now time.Time) time.Time {
	kept := r.kept.Load()
	keep := map[Job]time.Duration{
		JobAnswers: r.opts.Expired, JobRemoved: keepWishes, JobSilent: keepWishes, JobUsers: keepWishes, JobHandoffs: handoffs.Life, JobRefusals: kept.Audit, JobBotScores: keepBotScores,
		JobEvents: kept.Events, JobAuditEvents: kept.Audit, JobReceived: inbox.Keep,
	}
	return now.Add(-keep[job])
}

// Step deletes up to limit rows, or none while another process runs the job.
func (r *Service) Step(ctx context.Context, job Job, now time.Time, limit int) (int, error) {
	n, err := r.opts.Store.Drop(ctx, job, r.Before(job, now), min(limit, MaxStep))
	if errors.Is(err, ErrJobRuns) {
		return 0, nil
	}
	return n, err
}

// Run deletes a job's old rows and returns how many, even after an error such as ErrJobRuns. It reports each step's
// running total.
func (r *Service) Run(ctx context.Context, job Job, report func(rows int)) (rows int, err error) {
	for {
		n, err := r.opts.Store.Drop(ctx, job, r.Before(job, r.opts.Clock()), MaxStep)
		rows += n
		report(rows)
		if err != nil || n < MaxStep {
			return rows, err
		}
	}
}

// Old says how many rows a job would delete.
type Old struct {
	Job Job
	// rows older than this, in whole microseconds as in the databases
	Before time.Time
	Rows   int // MaxCount means at least MaxCount
}

// Count counts rows without deleting any, for a dry run.
func (r *Service) Count(ctx context.Context, job Job) (Old, error) {
	o := Old{Job: job, Before: r.Before(job, r.opts.Clock()).Truncate(time.Microsecond).UTC()}
	var err error
	o.Rows, err = r.opts.Store.CountOld(ctx, job, o.Before)
	return o, err
}
