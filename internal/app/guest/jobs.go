package guest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/guest/retention"
	"holdfast/internal/operate"
)

// jobOperations declares the deletion of old data, which a running server does by itself; see sweepJobs.
func (s *Guest) jobOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "jobs", Doc: "List the jobs, and how many rows they would delete now", Title: "Retention jobs", Empty: "There are no jobs.",
			Group: "Manage the jobs that delete old data",
			Long:  "Manage the jobs that delete old data. A running server runs them every guest.sweep_interval.",
			Text:  "Jobs that delete old data. The server runs them every guest.sweep_interval.",
		}, s.listJobs),
		operate.NewJob(operate.About{Path: "jobs/run", Doc: "Run a deletion job", Counts: "rows", Ask: "Deleted rows cannot be restored."}, s.runJob),
		operate.NewJob(operate.About{
			Path: "jobs/run-all", Doc: "Run all deletion jobs", Counts: "rows",
			Title: "Run all jobs", Ask: "Deleted rows cannot be restored.",
		}, s.runAllJobs),
	}
}

// rowCount is a count up to retention.MaxCount, because counting more rows would take long.
type rowCount int

// String adds that the count stopped at its maximum.
func (n rowCount) String() string {
	text := strconv.Itoa(int(n))
	if n == retention.MaxCount {
		text += " or more"
	}
	return text
}

// jobOutput counts the rows that a job would delete if it ran now.
type jobOutput struct {
	Job    retention.Job `json:"job" title:"Job" subject:"job" example:"events"`
	Before time.Time     `json:"before" title:"Deletes before" doc:"deletes rows older than this"`
	Old    rowCount      `json:"old" title:"Rows" least:"0" doc:"rows it would delete now; 1000000: at least that many"`
}

// listJobs counts each job's rows, which may take seconds.
func (s *Guest) listJobs(ctx context.Context, _ operate.None) (all []jobOutput, err error) {
	if _, err := s.parts(); err != nil {
		return nil, err
	}
	for _, job := range retention.Jobs {
		old, err := s.opened.retention.Count(ctx, job)
		if err != nil {
			return nil, err
		}
		all = append(all, jobOutput{old.Job, old.Before, rowCount(old.Rows)})
	}
	return all, nil
}

// dryRun is the input that both jobs share.
type dryRun struct {
	DryRun bool `flag:"dry-run" doc:"only count the rows"`
}

type jobInput struct {
	Job string `subject:"job" doc:"job name"`
	dryRun
}

// jobRun is a job's result: Before and Old in a dry run, otherwise Deleted. It is empty after an error at the start.
type jobRun struct {
	Job     retention.Job `json:"job" subject:"job" example:"events"`
	Before  *time.Time    `json:"before,omitempty" doc:"dry run: would delete rows older than this"`
	Old     *rowCount     `json:"old,omitempty" least:"0" doc:"dry run: rows it would delete now; 1000000: at least that many"`
	Deleted *int          `json:"deleted,omitempty" least:"0" doc:"deleted rows"`
}

// Notice returns "" for an empty result, so that only the error is shown.
func (r jobRun) Notice() string {
	switch {
	case r.Old != nil && *r.Old == 1:
		return fmt.Sprintf("%s: 1 row from before %s to delete", r.Job, r.Before.Format(time.DateTime))
	case r.Old != nil:
		return fmt.Sprintf("%s: %s rows from before %s to delete", r.Job, *r.Old, r.Before.Format(time.DateTime))
	case r.Deleted != nil:
		return fmt.Sprintf("%s: %s deleted", r.Job, service.Count(int64(*r.Deleted), "row"))
	}
	return ""
}

// runJob deletes until nothing is left. It fails while another process runs the same job.
func (s *Guest) runJob(ctx context.Context, in jobInput, progress operate.Progress) (jobRun, error) {
	if _, err := s.parts(); err != nil {
		return jobRun{}, err
	}
	job, err := retention.ParseJob(in.Job)
	if err != nil {
		return jobRun{}, fmt.Errorf("%w: holdfast guest jobs list lists them", err)
	}
	return s.run(ctx, job, in.dryRun, progress)
}

// run returns the rows deleted so far even with an error.
func (s *Guest) run(ctx context.Context, job retention.Job, in dryRun, progress operate.Progress) (jobRun, error) {
	var old retention.Old
	// The count is only needed for the total of the progress.
	if in.DryRun || progress != nil {
		var err error
		if old, err = s.opened.retention.Count(ctx, job); err != nil {
			return jobRun{}, err
		}
	}
	if in.DryRun {
		n := rowCount(old.Rows)
		return jobRun{Job: job, Before: &old.Before, Old: &n}, nil
	}
	n, err := s.opened.retention.Run(ctx, job, func(rows int) { progress.Report(int64(rows), int64(max(rows, old.Rows))) })
	return jobRun{Job: job, Deleted: &n}, err
}

// jobRuns are the results in the order of retention.Jobs, without jobs that failed at their start.
type jobRuns struct {
	Jobs []jobRun `json:"jobs"`
}

// Notice has a line for each job.
func (r jobRuns) Notice() string {
	lines := make([]string, len(r.Jobs))
	for i, run := range r.Jobs {
		lines[i] = run.Notice()
	}
	return strings.Join(lines, "\n")
}

// runAllJobs continues after a failed job, and returns all errors.
func (s *Guest) runAllJobs(ctx context.Context, in dryRun, progress operate.Progress) (all jobRuns, failed error) {
	if _, err := s.parts(); err != nil {
		return all, err
	}
	for _, job := range retention.Jobs {
		r, err := s.run(ctx, job, in, progress)
		if r.Job != "" {
			all.Jobs = append(all.Jobs, r)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", job, err))
		}
	}
	return all, failed
}
