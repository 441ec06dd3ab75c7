package overview

import (
	"cmp"
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
	"holdfast/internal/operate"
	"holdfast/internal/replication"
	"holdfast/internal/web"
)

const (
	checksAge      = time.Minute
	checksPatience = 100 * time.Millisecond // per page, which otherwise shows older findings
	checkPatience  = 15 * time.Second       // for the first findings on the checks page
	staleBackup    = 7 * 24 * time.Hour
)

// Overview provides the console pages about the server itself, and the conditions for alerts. All fields are required,
// unless their comment says otherwise.
type Overview struct {
	Services []*service.Running // enabled services
	Disabled []string           // the others' names
	Data     string             // data folder
	Clock    clock.Clock
	Gate     *web.Gate                              // client requests, like Memory
	Memory   *web.Memory                            // budget for request bodies
	Traffic  func() obs.Traffic                     // counters since the start
	Unready  func(context.Context) map[string]error // errors by service; it asks the databases
	Checks   *check.OnDemand                        // findings of holdfast check, in the background
	Settings func() []conf.Setting                  // current values, without secrets
	Waiting  func() []string                        // settings whose new values need a restart
	Sweeps   *Sweeps
	Copies   *Copies
	Log      *obs.Tail
	History  History // its File and Log may be set before Run

	// Client certificate's state, and how long before expiry to warn; nil without TLS.
	Certificate func() (state *certificates.State, early time.Duration)

	FirstPage func(name string) string // link to a service's first page, or ""; see console.Console
	DiskDays  func() int               // how many days ahead an alert predicts a full disk

	Replica func() *replication.State // nil without a replica
	Backups *backup.Scheduler         // schedule and backup records

	counts counts
}

// Menu places the server's pages in the navigation.
var Menu = []service.MenuItem{
	{Under: service.MenuOverview, Title: service.MenuOverview, Pages: []string{"", "checks"}},
	{Under: service.MenuActivity, Title: "Log", Pages: []string{"log"}},
	{Under: service.MenuActivity, Title: "Changes", Pages: []string{"changes"}},
	{Under: service.MenuActivity, Title: "Background jobs", Pages: []string{"runs", "sweeps"}},
	{Under: service.MenuProtection, Title: "Backups", Pages: []string{"backup", "databases"}},
	{Under: service.MenuProtection, Title: "Restore points", Pages: []string{"restore-points"}},
	{Under: service.MenuProtection, Title: "Copies", Pages: []string{"copies"}},
	{Under: service.MenuProtection, Title: "Alerts", Pages: []string{"alerts"}},
	{Under: service.MenuSettings, Title: "Settings", Pages: []string{"settings"}},
	{Under: service.MenuSettings, Title: "Read-only", Pages: []string{"read-only"}},
	{Under: service.MenuSettings, Title: "Sessions", Pages: []string{"sessions"}},
}

// Pages returns the server's pages. Those with an operation's path are added to its page.
func (o *Overview) Pages() []service.Page {
	return []service.Page{
		{Title: "Overview", Listed: true, Access: operate.ForViewers, Show: o.showOverview}, {Path: "checks", Title: "Checks", Listed: true, Access: operate.ForViewers, Show: o.showChecks},
		{Path: "log", Access: operate.ForViewers, Show: o.showLog},
		{Path: "backup", Access: operate.ForViewers, Show: o.showBackups}, {Path: "restore-points", Access: operate.ForViewers, Show: o.showPoints}, {Path: "settings", Title: "Settings", Listed: true, Access: operate.ForViewers, Show: o.showSettings},
	}
}

// Run measures for the charts until ctx ends.
func (o *Overview) Run(ctx context.Context) { o.History.run(ctx, o.measure) }

// databases returns all services' databases; several services may share a server.
func (o *Overview) databases() (all []*engine.Database) {
	for _, s := range o.Services {
		all = append(all, s.Databases...)
	}
	return all
}

// hasFiles reports whether a database is an SQLite file, which backups and replicas contain.
func (o *Overview) hasFiles() bool {
	return slices.ContainsFunc(o.databases(), (*engine.Database).Embedded)
}

// showOverview shows everything in a live block, which refreshes with each new chart point. The figures always show
// the last hour, the charts the chosen period.
func (o *Overview) showOverview(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	databases, usages := map[string][]string{}, map[string]usage{}
	for _, d := range o.databases() {
		databases[d.Where] = append(databases[d.Where], d.Service)
		if len(databases[d.Where]) == 1 {
			usages[d.Where] = o.usage(ctx, d)
		}
	}
	findings, at := o.Checks.Latest(ctx, o.Clock(), checksAge, checksPatience)
	hour, span := o.History.charts(databases, 0), spanOf(r.Value("span"))
	charts := hour
	if span != 0 {
		charts = o.History.charts(databases, span)
	}
	blocks := append(o.findings(findings, at), o.stats(hour), o.cards(ctx, usages, findings), charts, o.databaseTable(usages), o.backlogs(ctx), o.requestsNow())
	return &service.View{Blocks: []service.Block{&service.Live{Every: historyEvery, Blocks: blocks}}}, nil
}

// requestsNow compares requests in progress with their limits.
func (o *Overview) requestsNow() *service.Facts {
	gate, memory := o.Gate.Stats(), o.Memory.Stats()
	return &service.Facts{Title: "Requests now", Rows: []service.Fact{
		{Name: "In progress", Cell: service.Cell{Text: fmt.Sprintf("%d of %d", gate.Active, gate.Slots), Share: float64(gate.Active), Most: float64(gate.Slots)}},
		{Name: "Waiting", Cell: service.TextCell(strconv.Itoa(gate.Waiting))},
		{Name: "Rejected because of overload", Cell: service.TextCell(strconv.FormatInt(gate.Shed, 10))},
		{Name: "Request memory", Cell: service.Cell{
			Text: service.FormatBytes(memory.Used) + " of " + service.FormatBytes(memory.Capacity), Share: float64(memory.Used), Most: float64(memory.Capacity),
		}},
	}}
}

// databaseTable shows sizes by service. usages are by Database.Where.
func (o *Overview) databaseTable(usages map[string]usage) *service.Table {
	t := &service.Table{Title: "Databases", Columns: []service.Column{
		{Title: "Service"}, {Title: "Engine"}, {Title: "Database"}, {Title: "Size", Number: true}, {Title: "Growth", Number: true}, {Title: "Free disk", Number: true},
	}}
	for _, s := range o.Services {
		for _, d := range s.Databases {
			free, u := service.TextCell("-"), usages[d.Where]
			if d.Embedded() {
				if n, _, err := d.Disk(); err == nil {
					free = service.TextCell(service.FormatBytes(int64(n)))
				}
			}
			t.Rows = append(t.Rows, []service.Cell{
				service.TextCell(s.Name), service.TextCell(string(d.Target.Kind)), service.TextCell(d.Where),
				service.TextCell(cmp.Or(u.sizeText(), "-")), service.TextCell(cmp.Or(u.growthText(), "-")), free,
			})
		}
	}
	return t
}

// usage is a database's size in bytes and its growth.
type usage struct {
	size, grown int64
	in          time.Duration // growth period; 0: unknown
	isKnown     bool
}

// usage measures a file now, and returns the last known size for a database server.
func (o *Overview) usage(ctx context.Context, d *engine.Database) (u usage) {
	u.size, u.grown, u.in, u.isKnown = o.History.growth(d.Where)
	if d.Embedded() {
		if n, err := d.Size(ctx); err == nil {
			u.grown, u.size, u.isKnown = u.grown+n-u.size, n, true
		}
	}
	return u
}

// sizeText returns "" for an unknown size.
func (u *usage) sizeText() string {
	if !u.isKnown {
		return ""
	}
	return service.FormatBytes(u.size)
}

// growthText returns e.g. "+1.5 MiB in 3 hours", or "" if the growth is unknown.
func (u *usage) growthText() string {
	if u.in <= 0 {
		return ""
	}
	sign, grown := "+", u.grown
	if grown < 0 {
		sign, grown = "-", -grown
	}
	return sign + service.FormatBytes(grown) + " in " + formatSpan(u.in)
}

// shownState is a state with its explanation: a colored cell on a page, a text in the command's output.
type shownState struct {
	state service.State
	text  string
}

func (s shownState) String() string { return s.text }

func (s shownState) Cell() service.Cell { return service.Cell{State: s.state, Text: s.text} }

// formatSpan rounds a time span to minutes, hours or days.
func formatSpan(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return service.Count(int64(d.Round(time.Minute)/time.Minute), "minute")
	case d < 48*time.Hour:
		return service.Count(int64(d.Round(time.Hour)/time.Hour), "hour")
	}
	return service.Count(int64(d/(24*time.Hour)), "day")
}

// figure splits a time span for service.Stat; text follows the unit, e.g. " ago".
func figure(d time.Duration, text string) (number, unit string) {
	number, unit, _ = strings.Cut(formatSpan(d), " ")
	return number, " " + unit + text
}

// located shows a folder instead of its file URL.
func located(url string) string { return strings.TrimPrefix(url, "file://") }

// replicaStat tells how far the replica is behind, or why the server has no replica.
func (o *Overview) replicaStat() service.Stat {
	c, s := service.Stat{Name: "Replica"}, o.Replica()
	switch {
	case s == nil && !o.hasFiles():
		c.Value, c.Note = "-", "databases on servers: see their own tools"
	case s == nil:
		c.Value, c.Note = "None", "replica.url sets one"
	case s.Since.IsZero():
		c.State, c.Value, c.Note = s.Finding().State, "No restore point yet", ""
		c.Where = located(s.URL)
	default:
		c.State, c.Value, c.Unit = s.Finding().State, strconv.FormatFloat(s.Lag.Seconds(), 'f', 1, 64), " s behind"
		if s.Lag >= 2*time.Minute {
			c.Value, c.Unit = figure(s.Lag, " behind")
		}
		if c.Where = located(s.URL); s.Waiting > 0 {
			c.Note = service.FormatBytes(s.Waiting) + " to send"
		}
	}
	return c
}

// backupStat shows the latest backup, and the running or the next one.
func (o *Overview) backupStat() service.Stat {
	c := o.latestBackup()
	c.Name, c.To = "Last backup", "backup"
	settings := o.Backups.Settings()
	if failed := settings.Failure(o.Data); failed != nil {
		c.State, c.Note = service.Warning, failed.Text()
	}
	switch s := o.Backups.State(); {
	case !s.Since.IsZero():
		c.Note = joined(c.Note, "the server has been making one for "+formatSpan(max(0, o.Clock().Sub(s.Since))))
	case !s.Next.IsZero():
		c.Note = joined(c.Note, "next in "+formatSpan(max(0, s.Next.Sub(o.Clock()))))
	}
	return c
}

// joined joins two notes; the first may be "".
func joined(first, second string) string {
	if first == "" {
		return second
	}
	return first + "; " + second
}

// latestBackup shows the newest recorded backup. It warns about an old backup (staleBackup), about files that it
// lacks, and if no backup is known although databases are files.
func (o *Overview) latestBackup() (c service.Stat) {
	b, err := backup.Read(o.Data)
	if err != nil {
		return service.Stat{State: service.Warning, Value: "Unknown", Note: filepath.Join(o.Data, backup.RecordFile) + " cannot be read"}
	}
	if b == nil {
		if o.hasFiles() {
			return service.Stat{State: service.Warning, Value: "None", Note: "holdfast backup makes one"}
		}
		return service.Stat{Value: "-", Note: "databases on servers: see their own tools"}
	}
	c = service.Stat{State: service.OK, Where: b.Path}
	c.Value, c.Unit = figure(max(0, o.Clock().Sub(b.At)), " ago")
	var notes []string
	if len(b.Without) > 0 {
		notes = append(notes, "without the databases of "+strings.Join(b.Without, ", "))
	}
	if b.Lost > 0 {
		notes = append(notes, "without "+service.Count(b.Lost, "file")+" that could not be read")
	}
	c.Note = strings.Join(notes, ", ")
	if missing := backup.CheckDatabases(o.Data, o.databases()); len(missing) > 0 {
		c.State, c.Note = service.Warning, joined(c.Note, missing[0].Says)
	}
	if b.Lost > 0 || o.Clock().Sub(b.At) > staleBackup {
		c.State = service.Warning
	}
	return c
}

// showChecks begins a check with each visit. It shows older findings until the check has ended.
func (o *Overview) showChecks(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	// With millions of rows a check takes seconds, so pages wait only for the first.
	asked := o.Clock()
	findings, at := o.Checks.Latest(ctx, asked, 0, checksPatience)
	if at.IsZero() {
		findings, at = o.Checks.Latest(ctx, asked, 0, checkPatience)
	}
	if at.IsZero() {
		return &service.View{Blocks: []service.Block{&service.Notice{State: service.Warning, Text: "The check is not finished. Reload the page."}}}, nil
	}
	t := findingTable(findings, service.Wrong, service.Warning, service.OK)
	body := "Findings of holdfast check at " + service.TimeCell(at).Text + ". Each visit checks again."
	if at.Before(asked) {
		body += " The next check is running: reload the page for its findings."
	}
	return &service.View{Blocks: []service.Block{&service.Text{Body: body}, t}}, nil
}

// findingTable shows the findings in these states, sorted by state.
func findingTable(findings []service.Finding, states ...service.State) *service.Table {
	t := &service.Table{Columns: []service.Column{{Title: "State"}, {Title: "What"}, {Title: "Finding"}, {Title: "Fix"}}}
	for _, f := range withStates(findings, states...) {
		t.Rows = append(t.Rows, []service.Cell{{State: f.State}, service.TextCell(f.What), service.TextCell(f.Says), service.TextCell(f.Fix)})
	}
	return t
}

// withStates returns the findings in these states, sorted by them.
func withStates(findings []service.Finding, states ...service.State) (all []service.Finding) {
	for _, state := range states {
		for _, f := range findings {
			if f.State == state {
				all = append(all, f)
			}
		}
	}
	return all
}

// backlogs links each backlog to its page. A service that cannot be asked is a row with the error.
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

// eachBacklog calls fn for each service that reports backlogs, with its facts or an error.
func (o *Overview) eachBacklog(ctx context.Context, fn func(name string, facts []service.Fact, err error)) {
	for _, s := range o.Services {
		if s.Console != nil && s.Console.Backlogs != nil {
			facts, err := s.Console.Backlogs(ctx)
			fn(s.Name, facts, err)
		}
	}
}
