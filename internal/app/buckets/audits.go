package buckets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/db/rows"
	"holdfast/internal/durations"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// shown is how many findings the command prints for each problem; --json and the console list more.
const shown = 20

// auditOperations declares the audit, a job that may take hours.
func (s *Buckets) auditOperations() []operate.Operation {
	job := operate.NewJob(operate.About{
		Path: "audits/run", Doc: "Compare storage nodes and usage counters with the database, and repair them",
		Group: "Compare storage nodes with the database", Title: "Audits", Button: "Start",
		Background: true, Begun: "audit started", Stop: "Stop the audit",
		Text: "An audit compares all storage nodes and usage counters with the database while servers run.",
		More: "Servers can keep running. The exit status is 1 if findings remain. The problems are:\n\n" +
			"  missing       a copy is not on its node\n" +
			"  corrupt       a copy has the wrong length, or with --verify the wrong MD5\n" +
			"  few-copies    a body has fewer copies than buckets.copies\n" +
			"  unreferenced  a file is not in the database\n" +
			"  wrong-usage   an object or byte counter is wrong\n" +
			"  bad-node      a node cannot be read\n\n" +
			"With --repair, the audit restores copies from good ones, removes unreferenced files, and sets counters.\n" +
			"It keeps files whose account is unknown, because they may belong to another database. A body without a\n" +
			"good copy is lost and remains a finding. Drain a node that does not come back.\n\n" +
			"During the audit, the data folder holds a list of all bodies, about 300 bytes each. If the command is\n" +
			"interrupted, run it again: it continues where it stopped.",
		Example: "\n--verify --repair",
	}, onNodes(s, s.audit))
	return []operate.Operation{operate.WithFound[findingOutput](job, "Findings", "There are no findings so far.")}
}

// auditInput are the options; see maintenance.AuditOptions.
type auditInput struct {
	Verify          bool          `flag:"verify" doc:"read every copy and compare its MD5"`
	Repair          bool          `flag:"repair" doc:"repair: restore copies, remove files without a row, set counters"`
	Node            string        `flag:"node" doc:"audit only this storage node (DATACENTER:NAME); skips the counters"`
	Grace           time.Duration `flag:"grace" doc:"ignore unreferenced files younger than this, at least 2h" default:"24h"`
	UnknownAccounts bool          `flag:"unknown-accounts" doc:"with repair, also remove files whose account is not in the database"`
	Restart         bool          `flag:"restart" doc:"start again instead of continuing an interrupted audit"`
}

// Check requires a grace period that is longer than any write, because a new file may not have its row yet.
func (in auditInput) Check() error {
	if in.Grace < maintenance.MinGrace {
		return &operate.InputError{Input: "grace", Reason: "must be at least " + durations.Format(maintenance.MinGrace)}
	}
	return nil
}

// findingState is "left" or "repaired".
type findingState string

func (f findingState) Cell() service.Cell {
	if f == "repaired" {
		return service.Cell{State: service.OK, Text: string(f)}
	}
	return service.Cell{State: service.Warning, Text: string(f)}
}

// findingOutput is a finding with names instead of IDs. The embedded finding is the JSON; the other fields are table
// columns.
type findingOutput struct {
	maintenance.Finding
	AccountName string `json:"account_name,omitempty"`
	BucketName  string `json:"bucket_name,omitempty"`

	Kind  maintenance.Problem `json:"-" title:"Problem"`
	State findingState        `json:"-" title:"State"`
	On    string              `json:"-" title:"Node" zero:"-"`
	What  string              `json:"-" title:"What"`
	Says  string              `json:"-" title:"Detail"`
}

// auditOutput is the result; its counts are in JSON in Result, and for people in the fields below.
type auditOutput struct {
	Result maintenance.Result `json:"result"`

	Bodies int64 `json:"-" title:"Bodies"`
	Copies int64 `json:"-" title:"Copies compared"`
	Young  int64 `json:"-" title:"Young files without a row, skipped"`
	Left   int64 `json:"-" title:"Findings left"`

	text string
}

// IsPartial makes the command's exit status 1.
func (a auditOutput) IsPartial() bool { return a.Result.Left > 0 }

// Notice is the whole report for the command.
func (a auditOutput) Notice() string { return a.text }

// audit runs until every node and counter was compared. After an interruption it continues where it stopped, if the
// options are the same.
func (s *Buckets) audit(ctx context.Context, in auditInput, progress operate.Progress) (o auditOutput, err error) {
	options := maintenance.AuditOptions{
		Verify: in.Verify, Repair: in.Repair, Node: in.Node, Grace: in.Grace, UnknownAccounts: in.UnknownAccounts, Restart: in.Restart,
		// buckets.copies, or the default for the present nodes.
		Level: cmp.Or(s.live.Load().Copies, s.cluster.Copies()),
	}
	printer := &auditPrinter{first: map[maintenance.Problem][]findingOutput{}, repaired: map[maintenance.Problem]int64{}}
	cache := &nameCache{service: s.opened, accounts: map[buckets.AccountID]*accountNames{}}
	err = s.maintain(ctx, progress, func(ctx context.Context, p maintenance.Progress) (err error) {
		o.Result, err = s.maintenance.Audit(ctx, p, options, func(f maintenance.Finding) error {
			finding, err := cache.finding(ctx, f)
			if err != nil {
				return err
			}
			printer.add(finding)
			progress.Find(finding)
			return nil
		})
		return err
	})
	switch r := &o.Result; {
	case err == nil:
		o.Bodies, o.Copies, o.Young, o.Left = r.Bodies, r.Copies, r.Young, r.Left
		o.text, err = printer.print(r, in.Grace)
	case ctx.Err() != nil:
		err = errcode.New(errcode.Unavailable, "interrupted: run the audit again with the same options to continue")
	case errors.Is(err, rows.ErrReadOnly):
	default:
		err = fmt.Errorf("%w; run the audit again to continue", err)
	}
	return o, err
}

// finding adds names to a finding. A deleted account or bucket keeps its ID.
func (n *nameCache) finding(ctx context.Context, f maintenance.Finding) (o findingOutput, err error) {
	o = findingOutput{Finding: f, Kind: f.Problem, State: "left", On: f.Node, Says: f.Detail}
	if f.Repaired {
		o.State = "repaired"
	}
	if o.AccountName, o.BucketName, err = n.find(ctx, f.Account, f.Bucket); err == nil {
		o.What, err = n.subject(ctx, &f)
	}
	return o, err
}

// auditPrinter keeps each problem's first findings, and counts all.
type auditPrinter struct {
	first    map[maintenance.Problem][]findingOutput
	repaired map[maintenance.Problem]int64
}

// add is called for each finding, in the audit's order.
func (p *auditPrinter) add(f findingOutput) {
	if f.Repaired {
		p.repaired[f.Problem]++
	}
	if list := p.first[f.Problem]; len(list) < shown {
		p.first[f.Problem] = append(list, f)
	}
}

// print returns the findings by problem, and then the counts.
func (p *auditPrinter) print(r *maintenance.Result, grace time.Duration) (string, error) {
	var text bytes.Buffer
	if r.Resumed {
		fmt.Fprintf(&text, "continued the audit that began at %s\n", r.Began.UTC().Format(time.RFC3339))
	}
	w := service.NewPrinter(&text)
	for _, problem := range maintenance.Problems {
		for _, f := range p.first[problem] {
			w.Printf("%s\t%s\t%s\t%s\t%s\n", f.Problem, f.State, cmp.Or(f.Node, "-"), f.What, f.Detail)
		}
		if more := r.Found[problem] - int64(len(p.first[problem])); more > 0 {
			w.Printf("%s\t\t\t%d more, which --json lists\n", problem, more)
		}
	}
	if len(p.first) > 0 {
		w.Printf("\n")
	}
	w.Printf("bodies\t%d\ncopies compared\t%d\n", r.Bodies, r.Copies)
	for _, problem := range maintenance.Problems {
		if r.Found[problem] > 0 {
			w.Printf("%s\t%d, repaired %d\n", problem, r.Found[problem], p.repaired[problem])
		}
	}
	if len(r.Found) == 0 {
		w.Printf("findings\tnone\n")
	}
	if r.Young > 0 {
		w.Printf("skipped\t%s without a row, younger than %s (--grace): from active or failed writes\n", service.Count(r.Young, "file"), grace)
	}
	err := w.Flush()
	return string(bytes.TrimRight(text.Bytes(), "\n")), err
}
