package buckets

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/fault"
)

// auditor runs audits in a server, one at a time, and has the state of the latest one.
type auditor struct {
	life context.Context //nolint:containedctx // of the server, because an audit outlives the request that starts it; nil before it starts
	jobs sync.WaitGroup

	mu      sync.Mutex
	cancel  context.CancelFunc // nil: none runs
	began   time.Time          // zero: none has run
	ended   time.Time
	options maintenance.AuditOptions
	step    maintenance.Step
	n       int64
	total   int64
	waiting bool // for a backup
	found   []maintenance.Finding
	result  maintenance.Result
	err     error
}

// auditUpdates is the time between updates of the page while an audit runs.
const auditUpdates = time.Second

var (
	errAuditRuns  = fault.New(fault.Conflict, "an audit runs already")
	errAuditEnded = fault.New(fault.Conflict, "no audit runs")
)

func (s *Buckets) startAudit(_ context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	a := &s.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.cancel != nil:
		return o, errAuditRuns
	case a.life == nil || a.life.Err() != nil:
		return o, fault.New(fault.Unavailable, "the server is starting or shutting down")
	}
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(a.life)
	a.options = maintenance.AuditOptions{Verify: r.Value("verify") == "yes", Repair: r.Value("repair") == "yes", Level: cmp.Or(s.cfg.Copies, s.cluster.Copies())}
	a.began, a.ended, a.found, a.result, a.err = s.deps.Clock(), time.Time{}, nil, maintenance.Result{}, nil
	a.step, a.n, a.total, a.waiting = "", 0, 0, false
	options := a.options
	a.jobs.Go(func() { s.runAudit(ctx, options) })
	o.Notice = "the audit has begun"
	return o, nil
}

// runAudit runs an audit until it ends or ctx does.
func (s *Buckets) runAudit(ctx context.Context, options maintenance.AuditOptions) {
	a := &s.audits
	c := &command{&service.Shell{Stdout: io.Discard, Stderr: io.Discard}, s}
	var result maintenance.Result
	err := c.exclusively(ctx, func(ctx context.Context, folder string) (err error) {
		result, err = maintenance.Audit(ctx, maintenance.Options{
			Store: s.store, Cluster: s.cluster, Clock: s.deps.Clock, Folder: folder,
			Show: func(step maintenance.Step, n, total int64) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.step, a.n, a.total, a.waiting = step, n, total, false
			},
			Waiting: func(buckets.Moment) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.waiting = true
			},
		}, options, func(f maintenance.Finding) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.found) < consoleRows {
				a.found = append(a.found, f)
			}
			return nil
		})
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = fault.New(fault.Unavailable, "the audit was stopped: the next one with the same options continues it")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel()
	a.cancel, a.ended, a.result, a.err = nil, s.deps.Clock(), result, err
	if err != nil {
		s.deps.Log.Warn("an audit of the console failed", "service", Name, "error", err)
	}
}

// stopAudit stops an audit. The page shows when it has ended.
func (s *Buckets) stopAudit(context.Context, *service.PageRequest) (o service.Outcome, err error) {
	a := &s.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel == nil {
		return o, errAuditEnded
	}
	a.cancel()
	o.Notice = "the audit is being stopped"
	return o, nil
}

func (s *Buckets) showAudit(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	a := &s.audits
	a.mu.Lock()
	runs, state, rows := a.cancel != nil, a.facts(), append([]maintenance.Finding{}, a.found...)
	hasRun := !a.began.IsZero()
	a.mu.Unlock()
	view := &service.View{Blocks: []service.Block{&service.Text{
		Body: "An audit compares the bodies on all storage nodes, and the counters of objects and bytes, with the database while servers run.",
	}}}
	if hasRun {
		t, err := s.findingTable(ctx, rows)
		if err != nil {
			return nil, err
		}
		blocks := []service.Block{state, t}
		if runs {
			blocks = []service.Block{&service.Live{Every: auditUpdates, Blocks: blocks}}
		}
		view.Blocks = append(view.Blocks, blocks...)
	}
	if runs {
		view.Blocks = append(view.Blocks, &service.Form{Action: "stop", Submit: "Stop the audit", Danger: true})
		return view, nil
	}
	view.Blocks = append(view.Blocks, &service.Form{Title: "Start an audit", Action: "start", Submit: "Start", Fields: []service.Field{
		{Name: "verify", Label: "Read every copy and compare its MD5", Checkbox: true},
		{Name: "repair", Label: "Repair what is found: restore copies, remove files without a row, set counters", Checkbox: true},
	}})
	return view, nil
}

// facts is the state of the latest audit. The caller holds the lock.
func (a *auditor) facts() *service.Facts {
	state := service.Cell{State: service.OK, Text: "ended"}
	switch {
	case a.cancel != nil && a.waiting:
		state = service.Cell{State: service.Warning, Text: "waiting until a backup has ended"}
	case a.cancel != nil:
		state = service.Cell{State: service.OK, Text: "running"}
	case a.err != nil:
		text := fault.Message(a.err)
		if text == "" {
			text = a.err.Error()
		}
		state = service.Cell{State: service.Wrong, Text: text}
	case a.result.Left > 0:
		state = service.Cell{State: service.Warning, Text: "ended with findings"}
	}
	f := &service.Facts{Rows: []service.Fact{{Name: "State", Cell: state}, {Name: "Began", Cell: service.TimeCell(a.began)}}}
	if a.cancel != nil {
		progress := service.TextCell(string(a.step) + " " + strconv.FormatInt(a.n, 10))
		if a.total > 0 {
			progress = service.Cell{Text: fmt.Sprintf("%s %d of %d", a.step, a.n, a.total), Share: float64(a.n), Most: float64(a.total)}
		}
		f.Rows = append(f.Rows, service.Fact{Name: "Progress", Cell: progress})
		return f
	}
	f.Rows = append(f.Rows, service.Fact{Name: "Ended", Cell: service.TimeCell(a.ended)})
	if a.err == nil {
		f.Rows = append(f.Rows,
			service.Fact{Name: "Bodies", Cell: service.TextCell(decimal(a.result.Bodies))}, service.Fact{Name: "Copies compared", Cell: service.TextCell(decimal(a.result.Copies))},
			service.Fact{Name: "Young files without a row, skipped", Cell: service.TextCell(decimal(a.result.Young))},
			service.Fact{Name: "Findings left", Cell: service.TextCell(decimal(a.result.Left))})
	}
	return f
}

// findingTable shows the first findings of an audit.
func (s *Buckets) findingTable(ctx context.Context, found []maintenance.Finding) (*service.Table, error) {
	t := &service.Table{Title: "Findings", Columns: []service.Column{{Title: "Problem"}, {Title: "State"}, {Title: "Node"}, {Title: "What"}, {Title: "Detail"}}, Empty: "There are no findings so far."}
	of := &names{store: s.store, accounts: map[buckets.AccountID]*accountNames{}}
	for i := range found {
		f := &found[i]
		what, err := of.subject(ctx, f)
		if err != nil {
			return nil, err
		}
		state := service.Cell{State: service.Warning, Text: "left"}
		if f.Repaired {
			state = service.Cell{State: service.OK, Text: "repaired"}
		}
		t.Rows = append(t.Rows, []service.Cell{service.TextCell(string(f.Problem)), state, service.TextCell(cmp.Or(f.Node, "-")), service.TextCell(what), service.TextCell(f.Detail)})
	}
	if len(found) == consoleRows {
		t.Title = "The first findings; holdfast buckets audit lists all"
	}
	return t, nil
}

// begin lets audits run until ctx ends.
func (a *auditor) begin(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.life = ctx
}
