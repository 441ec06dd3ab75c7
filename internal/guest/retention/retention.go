// Package retention deletes old data of guests.
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

// Job is a retention job: it deletes rows of one kind when they are old.
type Job string

// The retention jobs.
const (
	JobAnswers     Job = "answers"        // of mutations, when they have expired
	JobRemoved     Job = "removed-wishes" // by the time of their removal
	JobSilent      Job = "silent-wishes"  // the wishlists of sessions, by the day of their last request
	JobUsers       Job = "user-sessions"  // by the day of their last request, also those that have ended
	JobHandoffs    Job = "handoffs"       // by the time when they were minted
	JobRefusals    Job = "refusals"       // of handoffs, by the time of the last attempt
	JobBotScores   Job = "bot-scores"     // by the time of the evaluation
	JobEvents      Job = "events"         // of the class operational, by the time when they were published
	JobAuditEvents Job = "audit-events"   // of the class audit, likewise
	JobReceived    Job = "received"       // events in the inbox, and after 30 days those in quarantine
)

// Jobs are all retention jobs.
var Jobs = []Job{JobAnswers, JobRemoved, JobSilent, JobUsers, JobHandoffs, JobRefusals, JobBotScores, JobEvents, JobAuditEvents, JobReceived}

// Limits of retention jobs.
const (
	MaxStep  = 5000      // rows that a step deletes
	MaxCount = 1_000_000 // up to which old rows are counted
)

const (
	keepWishes    = 30 * 24 * time.Hour
	keepBotScores = 7 * 24 * time.Hour
)

// ErrNoJob is returned for the name of a job that does not exist.
var ErrNoJob = errcode.New(errcode.NotFound, "no such retention job")

// ParseJob returns the job of a name, or ErrNoJob.
func ParseJob(name string) (Job, error) {
	for _, j := range Jobs {
		if string(j) == name {
			return j, nil
		}
	}
	return "", ErrNoJob
}

// ErrJobRuns is returned for a job that another process runs.
var ErrJobRuns = errcode.New(errcode.Conflict, "another process runs this job: run it again later")

// Store deletes old rows.
type Store interface {
	// Drop deletes at most limit rows of a job that are older than a time, the oldest
	// first, and returns their number. Several processes may call it at once: one is the
	// leader of the job, and the others delete nothing and get ErrJobRuns.
	Drop(ctx context.Context, job Job, before time.Time, limit int) (int, error)

	// CountOld returns how many rows Drop would delete in all, at most MaxCount.
	CountOld(ctx context.Context, job Job, before time.Time) (int, error)
}

// Service runs the retention jobs.
type Service struct {
	opts Options
	kept atomic.Pointer[Kept]
}

// Kept is how long published events are kept.
type Kept struct{ Events, Audit time.Duration }

// Options are the dependencies of a Service, all required.
type Options struct {
	Store Store
	Clock clock.Clock

	Expired time.Duration // how long answers are kept after they have expired
	Kept    Kept
}

// New returns a service.
func New(o Options) *Service {
	r := &Service{opts: o}
	r.Keep(o.Kept)
	return r
}

// Keep replaces Options.Kept.
func (r *Service) Keep(k Kept) { r.kept.Store(&k) }

// Before returns the time before which rows of a job are old.
func (r *Service) Before(job Job, now time.Time) time.Time {
	kept := r.kept.Load()
	keep := map[Job]time.Duration{
		JobAnswers: r.opts.Expired, JobRemoved: keepWishes, JobSilent: keepWishes, JobUsers: keepWishes, JobHandoffs: handoffs.Life, JobRefusals: kept.Audit, JobBotScores: keepBotScores,
		JobEvents: kept.Events, JobAuditEvents: kept.Audit, JobReceived: inbox.Keep,
	}
	return now.Add(-keep[job])
}

// Step deletes at most limit rows, or none while another process runs the job.
func (r *Service) Step(ctx context.Context, job Job, now time.Time, limit int) (int, error) {
	n, err := r.opts.Store.Drop(ctx, job, r.Before(job, now), min(limit, MaxStep))
	if errors.Is(err, ErrJobRuns) {
		return 0, nil
	}
	return n, err
}

// Run deletes all rows of a job that are old, in steps, and returns their number. After each step it
// reports the number so far. After an error, such as ErrJobRuns, it is the number of those that were deleted.
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

// Old is the number of rows of a job that are old.
type Old struct {
	Job    Job
	Before time.Time // to the microsecond
	Rows   int       // MaxCount: or more
}

// Count counts the rows that Run would delete.
func (r *Service) Count(ctx context.Context, job Job) (Old, error) {
	o := Old{Job: job, Before: r.Before(job, r.opts.Clock()).Truncate(time.Microsecond).UTC()}
	var err error
	o.Rows, err = r.opts.Store.CountOld(ctx, job, o.Before)
	return o, err
}
