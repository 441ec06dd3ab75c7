package overview

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/durations"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// Sweeps tracks periodic jobs for the console.
type Sweeps struct {
	Clock clock.Clock

	// runs a job at once. progress gets the rows removed so far; left names data that could not be removed and why, or "".
	// nil: the server is starting
	RunNow func(ctx context.Context, job string, progress func(rows int)) (rows int, left string, err error)

	mu  sync.Mutex
	all []swept
}

// swept is a job's state.
type swept struct {
	job   string
	every time.Duration // 0: only on request
	began time.Time     // when this process began to expect the job
	at    time.Time     // latest successful round, in any process; zero: none
	rows  int           // this process's latest round
	total int           // this process, since its start
	err   error         // this process's latest round, until another process begins a round
}

// Expect adds a job before its first round. A job with interval 0 is never late.
func (s *Sweeps) Expect(job string, every time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, swept{job: job, every: every, began: now})
}

// Note records that a round ended in this process. After an error the latest success keeps its time.
func (s *Sweeps) Note(job string, rows int, err error, now time.Time) {
	s.update(job, func(j *swept) {
		j.rows, j.err = rows, err
		if j.total += rows; err == nil {
			j.at = now
		}
	})
}

// NoteOther records that another process began a round, which ends this process's failure: with several servers only
// one sweeps at a time.
func (s *Sweeps) NoteOther(job string, now time.Time) {
	s.update(job, func(j *swept) { j.at, j.err = now, nil })
}

// update ignores jobs that nobody expects.
func (s *Sweeps) update(job string, change func(*swept)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].job == job {
			change(&s.all[i])
		}
	}
}

// list returns copies, sorted by name.
func (s *Sweeps) list() []swept {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.all)
	slices.SortFunc(all, func(a, b swept) int { return strings.Compare(a.job, b.job) })
	return all
}

// fails reports whether the job's latest round failed and another will follow. A round by hand of a job without an interval
// told its error to the operator who began it, and nothing would end the failure.
func (s *swept) fails() bool { return s.err != nil && s.every > 0 }

// late reports whether the latest success is older than three intervals plus ten minutes, like the alert
// HoldfastSweepLate.
func (s *swept) late(now time.Time) bool {
	since := s.at
	if since.IsZero() {
		since = s.began
	}
	return s.every > 0 && now.Sub(since) > 3*s.every+10*time.Minute
}

// sweepOperations returns the operations on periodic jobs.
func sweepOperations(s *Sweeps) []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "sweeps", Doc: "List the periodic jobs that remove expired and deleted data", Group: "Remove expired and deleted data now",
			Title: "Sweeps", Empty: "No sweep is enabled.", ServerOnly: true,
			Text: "Expired and deleted data is invisible at once. These jobs remove it from the databases and the storage nodes.",
		}, listSweeps(s)),
		operate.NewJob(operate.About{
			Path: "sweeps/run", Doc: "Run a sweep now", Button: "Sweep now", ServerOnly: true, Background: true, Counts: "rows",
			Begun: "sweep started", Stop: "Stop the sweep",
		}, runSweep(s)),
	}
}

// sweepOutput is a job with its latest rounds.
type sweepOutput struct {
	Sweep   string     `json:"sweep" title:"Sweep" subject:"sweep" example:"expired records and batches"`
	State   shownState `json:"-" title:"State"`
	Problem string     `json:"problem,omitempty" doc:"error of this server's latest round"`
	Late    bool       `json:"late" doc:"the latest success is too old"`
	Every   string     `json:"every,omitempty" title:"Every" zero:"only by hand" example:"5m" doc:"interval; missing: runs only on demand"`
	At      time.Time  `json:"at,omitzero" title:"Last success" doc:"by this or another server"`
	Removed int        `json:"removed" title:"Removed then" least:"0" doc:"in this server's latest round"`
	Total   int        `json:"total" title:"Removed since the start" least:"0" doc:"by this server since its start"`
}

// listSweeps shows a failed round by hand, too, although it raises no alert.
func listSweeps(s *Sweeps) func(context.Context, operate.None) ([]sweepOutput, error) {
	return func(context.Context, operate.None) (rows []sweepOutput, err error) {
		all := s.list()
		for i := range all {
			job := &all[i]
			o := sweepOutput{Sweep: job.job, At: job.at, Removed: job.rows, Total: job.total, Late: job.late(s.Clock())}
			if job.every > 0 {
				o.Every = durations.Format(job.every)
			}
			switch {
			case job.err != nil:
				o.Problem = failureText(job.err)
				o.State = shownState{service.Wrong, "failed: " + o.Problem}
			case o.Late:
				o.State = shownState{service.Warning, "late"}
			case job.at.IsZero():
				o.State = shownState{service.OK, "not due yet"}
			default:
				o.State = shownState{service.OK, "on time"}
			}
			rows = append(rows, o)
		}
		return rows, nil
	}
}

type sweepInput struct {
	Sweep string `subject:"sweep" doc:"sweep name"`
}

type sweepDone struct {
	Removed int    `json:"removed" title:"Removed" least:"0" doc:"rows"`
	Left    string `json:"left,omitempty" title:"Left" zero:"nothing" doc:"data that could not be removed, and why"`
}

func (d sweepDone) Notice() string { return "removed " + service.Count(int64(d.Removed), "row") }

// IsPartial implements operate.Partial.
func (d sweepDone) IsPartial() bool { return d.Left != "" }

// runSweep runs a round at once, even if the job is not due.
func runSweep(s *Sweeps) func(context.Context, sweepInput, operate.Progress) (sweepDone, error) {
	return func(ctx context.Context, in sweepInput, progress operate.Progress) (done sweepDone, err error) {
		if s.RunNow == nil {
			return done, errcode.New(errcode.Unavailable, "the server is starting: retry")
		}
		done.Removed, done.Left, err = s.RunNow(ctx, in.Sweep, func(rows int) { progress.Report(int64(rows), 0) })
		return done, err
	}
}
