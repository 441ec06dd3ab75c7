package buckets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/backend"
	"holdfast/internal/buckets/lifecycle"
	"holdfast/internal/operate"
	"holdfast/internal/sweep"
)

// openLifecycle makes the runner, and connects it with the metrics.
func (s *Buckets) openLifecycle(st backend.Store) *lifecycle.Runner {
	return lifecycle.New(lifecycle.Options{
		Store: st, Clock: s.deps.Clock, Monotonic: time.Now, Log: s.deps.Log,
		Observe: func(r buckets.LifecycleResult) {
			s.metrics.lifecycleRead.Add(r.Read)
			s.metrics.lifecycleObjects.Add(r.Deleted.Objects)
			s.metrics.lifecycleBytes.Add(r.Deleted.Bytes)
			s.metrics.lifecycleUploads.Add(r.Aborted)
		},
	})
}

// lifecycleJob applies the rules in the background, in steps that SweepLimit limits.
func (s *Buckets) lifecycleJob() sweep.Job {
	return sweep.Job{
		Name: "expired bucket objects", Every: s.cfg.SweepEvery, Limit: s.cfg.SweepLimit,
		Run: func(ctx context.Context, _ time.Time, limit int) (int, error) { return s.lifecycle.Sweep(ctx, limit) },
	}
}

// lifecycleOperations declares the rules and the run. Rules that only S3 clients can express are shown, and kept until
// they are deleted.
func (s *Buckets) lifecycleOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewRead(operate.About{
			Access: operate.ForViewers, Path: "lifecycle/show", Doc: "Show a bucket's lifecycle rules and the last run's result", Title: "Lifecycle rules for bucket", Finds: "Show rules",
			Group: "Show, change and apply a bucket's lifecycle rules",
		}, on(s, s.showLifecycle)),
		operate.NewChange(operate.About{
			Path: "lifecycle/set", Doc: "Add or replace a lifecycle rule", Title: "Set lifecycle rule", Button: "Set rule", Stays: true,
			Text:    "A rule replaces the rule with the same ID.",
			Example: "main photos logs --prefix logs/ --expire-days 30\nmain photos all --noncurrent-days 90 --keep-versions 3 --abort-days 2",
		}, on(s, s.setRule)),
		operate.NewChange(operate.About{
			Path: "lifecycle/delete", Doc: "Delete a lifecycle rule", Danger: true, Stays: true,
			Ask: "Then the rule deletes nothing any more.",
		}, on(s, s.deleteRule)),
		operate.NewChange(operate.About{
			Path: "lifecycle/clear", Doc: "Delete all lifecycle rules", Button: "Delete all rules", Danger: true, Stays: true,
			Ask: "The bucket's objects no longer expire.",
		}, on(s, s.clearRules)),
		operate.NewJob(operate.About{
			Path: "lifecycle/run", Doc: "Apply a bucket's lifecycle rules now", Title: "Lifecycle rules", Button: "Run now", Counts: "objects", Background: true, Begun: "run started",
			Stop: "Stop the run", Stays: true,
			Text: "Lifecycle rules delete objects that are old, and abort old uploads. Servers apply them each day.",
			Ask:  "Deletes expired objects and aborts old uploads. This cannot be undone.",
			More: "Servers apply the rules each day after midnight UTC, and after changes. Objects changed during a run\n" +
				"stay. A run that is interrupted is continued by a server, or by the next command.",
		}, func(ctx context.Context, in bucketInput, progress operate.Progress) (lifecycleChange, error) {
			return on(s, func(ctx context.Context, in bucketInput) (lifecycleChange, error) {
				return s.runLifecycle(ctx, in, progress)
			})(ctx, in)
		}),
	}
}

// lifecycleState is a constant, or the reason why the last run failed.
type lifecycleState string

const (
	lifecycleNone    lifecycleState = "no run yet"
	lifecycleRuns    lifecycleState = "running"
	lifecycleEnded   lifecycleState = "complete"
	lifecycleStopped lifecycleState = "stopped" // the rules were removed before the end
)

// Cell warns only about failures: any other text.
func (l lifecycleState) Cell() service.Cell {
	c := service.Cell{Text: string(l)}
	switch l {
	case lifecycleEnded:
		c.State = service.OK
	case lifecycleNone, lifecycleRuns, lifecycleStopped:
	default:
		c.State = service.Wrong
	}
	return c
}

// lifecycleOutput has the rules and the latest run's state and counts.
type lifecycleOutput struct {
	Account string         `json:"account" title:"Account" subject:"account" example:"main"`
	Bucket  string         `json:"bucket" title:"Bucket" subject:"bucket" example:"photos"`
	State   lifecycleState `json:"state" title:"Last run" doc:"no run yet, running, complete, stopped because the rules were removed, or the error"`
	Next    *time.Time     `json:"next,omitempty" title:"Next run" zero:"-" doc:"missing: no enabled rule deletes anything"`
	Began   *time.Time     `json:"began,omitempty" title:"Began" zero:"-"`
	Ended   *time.Time     `json:"ended,omitempty" title:"Ended" zero:"-" doc:"missing: still running"`
	Read    int64          `json:"read" title:"Objects and uploads read"`
	Objects int64          `json:"objects" title:"Objects deleted"`
	Bytes   service.Bytes  `json:"bytes" title:"Bytes deleted"`
	Uploads int64          `json:"uploads" title:"Uploads aborted"`

	Rules []lifecycleRule `json:"rules" table:"Rules" empty:"The bucket has no lifecycle rules."`
}

// lifecycleRule is a rule in words, with the latest run's counts and with the inputs for lifecycle/set.
type lifecycleRule struct {
	ID      string        `json:"id" title:"Rule" subject:"rule" example:"logs"`
	Status  string        `json:"status" title:"Status" enum:"enabled,disabled"`
	Applies string        `json:"appliesTo" title:"Applies to" example:"names that begin with logs/"`
	Does    string        `json:"does" title:"Does" example:"deletes objects after 30 days"`
	LastRun string        `json:"-" title:"Last run" zero:"-"`
	Objects int64         `json:"objects" doc:"deleted by the last run"`
	Bytes   service.Bytes `json:"bytes" doc:"deleted by the last run"`
	Uploads int64         `json:"uploads" doc:"aborted by the last run"`

	listedTerms
	isWhole bool // the set operation can express the whole rule
}

// Offers clear only if there are rules.
func (o lifecycleOutput) Offers(verb string) bool { return verb != "clear" || len(o.Rules) > 0 }

// Offers set only for a rule that the form can express as a whole: it would remove the other terms.
func (r lifecycleRule) Offers(verb string) bool { return verb != "set" || r.isWhole }

// timeOrNone returns nil for 0, which JSON shows as missing.
func timeOrNone(m buckets.Moment) *time.Time {
	if m == 0 {
		return nil
	}
	at := m.Time()
	return &at
}

// showLifecycle reads the rules and the latest run's state.
func (s *Buckets) showLifecycle(ctx context.Context, in bucketInput) (o lifecycleOutput, err error) {
	a, b, err := s.bucketOf(ctx, in)
	if err != nil {
		return o, err
	}
	run, err := s.lifecycle.State(ctx, &b)
	if err != nil {
		return o, err
	}
	return outputOfLifecycle(a.Name, &b, &run, s.opened.Now()), nil
}

// showAboveLifecycle adds the breadcrumbs to the operation's page.
func (s *Buckets) showAboveLifecycle(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	a, b, err := s.bucket(ctx, r)
	if err != nil {
		return nil, err
	}
	return &service.View{Parents: above(a, b.Name, "")}, nil
}

// outputOfLifecycle describes a run. run is zero if there was none.
func outputOfLifecycle(account string, b *buckets.Bucket, run *buckets.LifecycleRun, now buckets.Moment) lifecycleOutput {
	l := &b.Settings.Lifecycle
	o := lifecycleOutput{
		Account: account, Bucket: b.Name, State: lifecycleNone, Began: timeOrNone(run.Began), Ended: timeOrNone(run.Ended),
		Read: run.Read, Objects: run.Deleted.Objects, Bytes: service.Bytes(run.Deleted.Bytes), Uploads: run.Aborted, Rules: []lifecycleRule{},
	}
	runs := len(l.Rules) > 0 && l.NextRun(now) <= now.Add(48*time.Hour) // an enabled rule deletes something soon
	switch {
	case run.Ended != 0:
		o.State = lifecycleEnded
	case run.Began != 0 && !runs: // no later run ends a failure
		o.State = lifecycleStopped
	case run.Error != "":
		o.State = lifecycleState("failed: " + run.Error)
	case run.Began != 0:
		o.State = lifecycleRuns
	}
	switch {
	case !runs:
	case run.IsDue(l, now):
		o.Next = timeOrNone(now)
	default:
		o.Next = timeOrNone(run.Due)
	}
	for i := range l.Rules {
		r := &l.Rules[i]
		c := run.ByRule[r.ID]
		status := "enabled"
		if r.Disabled {
			status = "disabled"
		}
		terms := termsOf(r)
		o.Rules = append(o.Rules, lifecycleRule{r.ID, status, ruleApplies(r), ruleDoes(r), ruleDid(c), c.Objects, service.Bytes(c.Bytes), c.Uploads, listedTerms(terms), terms.isAll(r)})
	}
	return o
}

// ruleDid returns a rule's counts in words; "" if it deleted nothing.
func ruleDid(c buckets.Counts) string {
	var all []string
	if c.Objects > 0 {
		all = append(all, fmt.Sprintf("deleted %s (%s)", service.Count(c.Objects, "object"), service.FormatBytes(c.Bytes)))
	}
	if c.Uploads > 0 {
		all = append(all, "aborted "+service.Count(c.Uploads, "upload"))
	}
	return strings.Join(all, "; ")
}

// ruleApplies returns a rule's filter in words.
func ruleApplies(r *buckets.LifecycleRule) string {
	var all []string
	if prefix := r.Begins(); prefix != "" {
		all = append(all, "names that begin with "+prefix)
	}
	if f := r.Filter; f != nil {
		for _, t := range f.Tags {
			all = append(all, "tag "+t.Key+"="+t.Value)
		}
		if f.GreaterThan != nil {
			all = append(all, "larger than "+service.Count(*f.GreaterThan, "byte"))
		}
		if f.LessThan != nil {
			all = append(all, "smaller than "+service.Count(*f.LessThan, "byte"))
		}
	}
	if len(all) == 0 {
		return "all objects"
	}
	return strings.Join(all, ", ")
}

// ruleDoes returns a rule's actions in words.
func ruleDoes(r *buckets.LifecycleRule) string {
	var all []string
	days := func(n int) string { return service.Count(int64(n), "day") }
	if e := r.Expiration; e != nil {
		switch {
		case e.Days > 0:
			all = append(all, "deletes objects after "+days(e.Days))
		case e.Date != 0:
			all = append(all, "deletes objects from "+e.Date.Time().Format(time.DateOnly)+" on")
		}
		if e.DeleteMarker != nil && *e.DeleteMarker {
			all = append(all, "removes delete markers without versions")
		}
	}
	if n := r.Noncurrent; n != nil {
		text := "deletes noncurrent versions after " + days(n.Days)
		if n.Keep != nil {
			text += fmt.Sprintf(", except the newest %d", *n.Keep)
		}
		all = append(all, text)
	}
	if r.AbortDays > 0 {
		all = append(all, "aborts incomplete uploads after "+days(r.AbortDays))
	}
	return strings.Join(all, "; ")
}

// lifecycleChange counts a run's deletions.
type lifecycleChange struct {
	Account string        `json:"account" subject:"account" example:"main"`
	Bucket  string        `json:"bucket" subject:"bucket" example:"photos"`
	Read    int64         `json:"read" title:"Objects and uploads read"`
	Objects int64         `json:"objects" title:"Objects deleted"`
	Bytes   service.Bytes `json:"bytes" title:"Bytes deleted"`
	Uploads int64         `json:"uploads" title:"Uploads aborted"`
}

func (c lifecycleChange) Notice() string {
	return fmt.Sprintf("deleted %s (%s) and aborted %s in bucket %s", service.Count(c.Objects, "object"), service.FormatBytes(int64(c.Bytes)), service.Count(c.Uploads, "upload"), c.Bucket)
}

// runLifecycle applies the rules now. It waits while a server applies them, and reports the wait. A bucket without
// rules is no error.
func (s *Buckets) runLifecycle(ctx context.Context, in bucketInput, progress operate.Progress) (c lifecycleChange, err error) {
	a, b, err := s.bucketOf(ctx, in)
	if err != nil {
		return c, err
	}
	c = lifecycleChange{Account: a.Name, Bucket: b.Name}
	if len(b.Settings.Lifecycle.Rules) == 0 {
		return c, nil
	}
	run, err := s.lifecycle.Run(ctx, &b, func(r buckets.LifecycleResult) { progress.Report(r.Deleted.Objects, 0) }, progress.Wait)
	c.Read, c.Objects, c.Bytes, c.Uploads = run.Read, run.Deleted.Objects, service.Bytes(run.Deleted.Bytes), run.Aborted
	return c, err
}
