package overview

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/certificates"
	"holdfast/internal/check"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/errcode"
	"holdfast/internal/obs"
	"holdfast/internal/replication"
	"holdfast/internal/web"
)

const (
	checksAge      = time.Minute            // the findings that the overview shows may be so old
	checksPatience = 100 * time.Millisecond // of the overview, which shows older findings otherwise
	checkPatience  = 15 * time.Second       // of the page of the findings
	staleBackup    = 7 * 24 * time.Hour     // a backup that is older is a warning
)

// Overview has the pages of the console about the server itself.
type Overview struct {
	Services []*service.Running
	Disabled []string // names of services
	Data     string   // the data folder
	Clock    clock.Clock
	Gate     *web.Gate // of the clients, as is the memory
	Memory   *web.Memory
	Traffic  func() obs.Traffic
	Unready  func(context.Context) map[string]error // returns why services are not ready
	Checks   *check.OnDemand
	Settings func() []conf.Setting
	Waiting  func() []string // returns the settings whose new values wait for a restart
	Sweeps   *Sweeps
	Log      *obs.Tail
	History  History // of the charts

	// Certificate returns the state of the certificate for clients, and how long before its end an operator has to know; nil without TLS.
	Certificate func() (state *certificates.State, early time.Duration)

	Replica func() *replication.State // nil without a replica
	Backups *backup.Scheduler
}

// Pages returns the pages.
func (o *Overview) Pages() []service.Page {
	return []service.Page{
		{Title: "Overview", Listed: true, Show: o.showOverview}, {Path: "checks", Title: "Checks", Listed: true, Show: o.showChecks},
		{Path: "log", Show: o.showLog}, {Path: "settings", Title: "Settings", Listed: true, Show: o.showSettings},
	}
}

// Run measures what the charts show, until ctx ends.
func (o *Overview) Run(ctx context.Context) { o.History.run(ctx, o.measure) }

// databases returns the databases of all services.
func (o *Overview) databases() (all []*engine.Database) {
	for _, s := range o.Services {
		all = append(all, s.Databases...)
	}
	return all
}

// hasFiles reports whether any database is a file of this server.
func (o *Overview) hasFiles() bool {
	return slices.ContainsFunc(o.databases(), (*engine.Database).Embedded)
}

// showOverview is the first page of the console.
func (o *Overview) showOverview(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	databases := map[string][]string{}
	for _, d := range o.databases() {
		databases[d.Where] = append(databases[d.Where], d.Service)
	}
	gate, memory := o.Gate.Stats(), o.Memory.Stats()
	now := &service.Facts{Title: "Requests now", Rows: []service.Fact{
		{Name: "In progress", Cell: service.Cell{Text: fmt.Sprintf("%d of %d", gate.Active, gate.Slots), Share: float64(gate.Active), Most: float64(gate.Slots)}},
		{Name: "Waiting", Cell: service.TextCell(strconv.Itoa(gate.Waiting))},
		{Name: "Rejected because of overload", Cell: service.TextCell(strconv.FormatInt(gate.Shed, 10))},
		{Name: "Memory of requests", Cell: service.Cell{
			Text: service.FormatBytes(memory.Used) + " of " + service.FormatBytes(memory.Capacity), Share: float64(memory.Used), Most: float64(memory.Capacity),
		}},
	}}
	found, at := o.Checks.Latest(ctx, o.Clock(), checksAge, checksPatience)
	state := &service.Facts{Rows: []service.Fact{
		{Name: "Checks", Cell: checksCell(found, at)}, {Name: "Replica", Cell: o.replicaCell()}, {Name: "Last backup", Cell: o.addSchedule(o.backupCell())},
		{Name: "Sweeps", Cell: sweepsCell(o.Sweeps.list(), o.Clock())},
	}}
	blocks := []service.Block{state}
	if t := findingTable(found, service.Wrong, service.Warning); len(t.Rows) > 0 {
		t.Title = "Findings"
		blocks = append(blocks, t)
	}
	blocks = append(append(blocks, o.serviceTable(ctx)), o.History.charts(databases)...)
	return &service.View{Blocks: []service.Block{&service.Live{Every: historyEvery, Blocks: append(blocks, o.backlogs(ctx), now)}}}, nil
}

// serviceTable shows the services with their databases.
func (o *Overview) serviceTable(ctx context.Context) *service.Table {
	unready := o.Unready(ctx)
	t := &service.Table{Title: "Services", Columns: []service.Column{
		{Title: "Service"}, {Title: "State"}, {Title: "Engine"}, {Title: "Database"}, {Title: "Size", Number: true}, {Title: "Growth", Number: true}, {Title: "Free disk", Number: true},
	}}
	none := service.TextCell("-")
	for _, s := range o.Services {
		var state service.Cell
		if err := unready[s.Name]; err != nil {
			state = service.Cell{State: service.Wrong, Text: err.Error()}
		} else {
			state = readyCell(ctx, s)
		}
		row := []service.Cell{service.TextCell(s.Name), state, none, none, none, none, none}
		for _, d := range s.Databases {
			row[2], row[3] = service.TextCell(string(d.Target.Kind)), service.TextCell(d.Where)
			row[4], row[5] = o.sizeCells(ctx, d)
			if !d.Embedded() {
				continue
			}
			if free, _, err := d.Disk(); err == nil {
				row[6] = service.TextCell(service.FormatBytes(int64(free)))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	for _, name := range o.Disabled {
		t.Rows = append(t.Rows, []service.Cell{service.TextCell(name), service.TextCell("disabled"), none, none, none, none, none})
	}
	return t
}

// sizeCells returns the size of a database and its growth. Only a file is measured at once.
func (o *Overview) sizeCells(ctx context.Context, d *engine.Database) (size, growth service.Cell) {
	size, growth = service.TextCell("-"), service.TextCell("-")
	last, grown, in, known := o.History.growth(d.Where)
	if d.Embedded() {
		if n, err := d.Size(ctx); err == nil {
			grown, last, known = grown+n-last, n, true
		}
	}
	if known {
		size = service.TextCell(service.FormatBytes(last))
	}
	if in > 0 {
		sign := "+"
		if grown < 0 {
			sign, grown = "-", -grown
		}
		growth = service.TextCell(sign + service.FormatBytes(grown) + " in " + formatSpan(in))
	}
	return size, growth
}

// formatSpan formats a duration for people in minutes, hours or days.
func formatSpan(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return service.Count(int64(d.Round(time.Minute)/time.Minute), "minute")
	case d < 48*time.Hour:
		return service.Count(int64(d.Round(time.Hour)/time.Hour), "hour")
	}
	return service.Count(int64(d/(24*time.Hour)), "day")
}

// checksCell counts the findings.
func checksCell(found []service.Finding, at time.Time) service.Cell {
	if at.IsZero() {
		return service.Cell{Text: "The first check is running", To: "checks"}
	}
	var wrong, warnings int64
	for _, f := range found {
		switch f.State {
		case service.Wrong:
			wrong++
		case service.Warning:
			warnings++
		}
	}
	switch {
	case wrong > 0:
		return service.Cell{State: service.Wrong, Text: service.Count(wrong, "error") + ", " + service.Count(warnings, "warning"), To: "checks"}
	case warnings > 0:
		return service.Cell{State: service.Warning, Text: service.Count(warnings, "warning"), To: "checks"}
	}
	return service.Cell{State: service.OK, Text: "nothing is wrong", To: "checks"}
}

// replicaCell says how far the replica is.
func (o *Overview) replicaCell() service.Cell {
	s := o.Replica()
	switch {
	case s == nil && !o.hasFiles():
		return service.TextCell("databases on servers: see their own tools")
	case s == nil:
		return service.TextCell("none: replica.url sets one")
	case s.Since.IsZero():
		return service.Cell{State: s.Finding().State, Text: "no restore point yet, in " + s.URL}
	}
	c := service.Cell{State: s.Finding().State, Text: s.Lag.Round(100*time.Millisecond).String() + " behind, in " + s.URL}
	if s.Waiting > 0 {
		c.Text += ", " + service.FormatBytes(s.Waiting) + " to send"
	}
	return c
}

// backupCell says when the latest backup was made.
func (o *Overview) backupCell() service.Cell {
	b, err := backup.Read(o.Data)
	if err != nil {
		return service.Cell{State: service.Warning, Text: "unknown: " + filepath.Join(o.Data, backup.RecordFile) + " cannot be read"}
	}
	if b == nil {
		if o.hasFiles() {
			return service.Cell{State: service.Warning, Text: "none yet: holdfast backup makes one"}
		}
		return service.TextCell("databases on servers: see their own tools")
	}
	c := service.Cell{State: service.OK, Text: formatSpan(max(0, o.Clock().Sub(b.At))) + " ago, in " + b.Path}
	if len(b.Without) > 0 {
		c.Text += ", without the databases of " + strings.Join(b.Without, ", ")
	}
	if b.Lost > 0 {
		c.Text += ", without " + service.Count(b.Lost, "file") + " that could not be read"
	}
	if b.Lost > 0 || o.Clock().Sub(b.At) > staleBackup {
		c.State = service.Warning
	}
	return c
}

// sweepsCell counts the sweeps that failed or are late.
func sweepsCell(all []swept, now time.Time) service.Cell {
	var failed, late int64
	for i := range all {
		if all[i].err != nil {
			failed++
		} else if all[i].late(now) {
			late++
		}
	}
	if failed+late > 0 {
		return service.Cell{State: service.Warning, Text: fmt.Sprintf("%d failed, %d late", failed, late), To: "sweeps"}
	}
	return service.Cell{State: service.OK, Text: "all on time", To: "sweeps"}
}

// showChecks shows the findings of `holdfast check` about the running server.
func (o *Overview) showChecks(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	found, at := o.Checks.Latest(ctx, o.Clock(), 0, checkPatience)
	if at.IsZero() {
		return &service.View{Blocks: []service.Block{&service.Notice{State: service.Warning, Text: "The check is not finished. Reload the page."}}}, nil
	}
	t := findingTable(found, service.Wrong, service.Warning, service.OK)
	body := "What holdfast check finds, at " + service.TimeCell(at).Text + ". Each view of this page checks again."
	return &service.View{Blocks: []service.Block{&service.Text{Body: body}, t}}, nil
}

// findingTable shows the findings with these states, in this order.
func findingTable(found []service.Finding, states ...service.State) *service.Table {
	t := &service.Table{Columns: []service.Column{{Title: "State"}, {Title: "What"}, {Title: "Finding"}, {Title: "What to do"}}}
	for _, state := range states {
		for _, f := range found {
			if f.State == state {
				t.Rows = append(t.Rows, []service.Cell{{State: f.State}, service.TextCell(f.What), service.TextCell(f.Says), service.TextCell(f.Fix)})
			}
		}
	}
	return t
}

// backlogs returns what waits to be done in the services.
func (o *Overview) backlogs(ctx context.Context) *service.Table {
	t := &service.Table{Title: "Backlogs", Columns: []service.Column{{Title: "Service"}, {Title: "What"}, {Title: "How much"}}, Empty: "No service reports a backlog."}
	o.eachBacklog(ctx, func(name string, facts []service.Fact, err error) {
		if err != nil {
			facts = []service.Fact{{Name: "unknown", Cell: service.Cell{State: service.Wrong, Text: errcode.Message(err)}}}
		}
		for _, f := range facts {
			if f.To != "" {
				f.To = name + "/" + f.To
			}
			t.Rows = append(t.Rows, []service.Cell{service.TextCell(name), service.TextCell(f.Name), f.Cell})
		}
	})
	return t
}

// eachBacklog calls fn with the backlogs of each service that has any.
func (o *Overview) eachBacklog(ctx context.Context, fn func(name string, facts []service.Fact, err error)) {
	for _, s := range o.Services {
		if s.Console != nil && s.Console.Backlogs != nil {
			facts, err := s.Console.Backlogs(ctx)
			fn(s.Name, facts, err)
		}
	}
}
