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
	"holdfast/internal/conf"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

const shown = 20

func (s *Buckets) auditOperations() []operate.Operation {
	job := operate.NewJob(operate.About{
		Path: "audits/run", Doc: "Compare storage nodes and usage counters with the database, and repair them", Former: []operate.Former{{Words: "buckets audit"}},
		Group: "Compare storage nodes with the database", Title: "Audits", Button: "Start",
		Background: true, Begun: "the audit has begun", Stop: "Stop the audit",
		Text: "An audit compares the bodies on all storage nodes, and the counters of objects and bytes, with the database while servers run.",
		More: "Servers may run meanwhile. The exit status is 1 if findings are left. The problems are:\n\n" +
			"  missing       a copy is not on its node\n" +
			"  corrupt       a copy has a wrong length, or with --verify a wrong MD5\n" +
			"  few-copies    a body has fewer copies than buckets.copies\n" +
			"  unreferenced  a file is no body of the database\n" +
			"  wrong-usage   a counter of objects or bytes is wrong\n" +
			"  bad-node      a node cannot be read\n\n" +
			"With --repair, copies are restored from good ones, unreferenced files are removed, and counters are set.\n" +
			"Files of accounts that the database does not have stay, because they may belong to another database.\n" +
			"A body without a good copy is lost, and stays a finding. A node that does not come back is drained.\n\n" +
			"The list of all bodies is kept in the data folder meanwhile, about 300 bytes for each. If the command is\n" +
			"interrupted, run it again to continue: what was compared is not compared again.",
		Example: "\n--verify --repair",
	}, onNodes(s, s.audit))
	return []operate.Operation{operate.WithFound[findingOutput](job, "Findings", "There are no findings so far.")}
}

type auditInput struct {
	Verify          bool          `flag:"verify" doc:"read every copy and compare its MD5"`
	Repair          bool          `flag:"repair" doc:"repair: restore copies, remove files without a row, set counters"`
	Node            string        `flag:"node" doc:"audit only this storage node (DATACENTER:NAME); skips the counters"`
	Grace           time.Duration `flag:"grace" doc:"ignore unreferenced files younger than this, at least 2h" default:"24h"`
	UnknownAccounts bool          `flag:"unknown-accounts" doc:"with repair, also remove files whose account is not in the database"`
	Restart         bool          `flag:"restart" doc:"start again instead of continuing an interrupted audit"`
}

func (in auditInput) Check() error {
	if in.Grace < maintenance.MinGrace {
		return &operate.InputError{Input: "grace", Reason: "must be at least " + conf.FormatDuration(maintenance.MinGrace)}
	}
	return nil
}

type findingState string

func (f findingState) Cell() service.Cell {
	if f == "repaired" {
		return service.Cell{State: service.OK, Text: string(f)}
	}
	return service.Cell{State: service.Warning, Text: string(f)}
}

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

type auditOutput struct {
	Result maintenance.Result `json:"result"`

	Bodies int64 `json:"-" title:"Bodies"`
	Copies int64 `json:"-" title:"Copies compared"`
	Young  int64 `json:"-" title:"Young files without a row, skipped"`
	Left   int64 `json:"-" title:"Findings left"`

	text string
}

func (a auditOutput) IsPartial() bool { return a.Result.Left > 0 }

func (a auditOutput) Notice() string { return a.text }

func (s *Buckets) audit(ctx context.Context, in auditInput, progress operate.Progress) (o auditOutput, err error) {
	options := maintenance.AuditOptions{
		Verify: in.Verify, Repair: in.Repair, Node: in.Node, Grace: in.Grace, UnknownAccounts: in.UnknownAccounts, Restart: in.Restart,
		Level: cmp.Or(s.live.Load().Copies, s.cluster.Copies()),
	}
	printer := &auditPrinter{first: map[maintenance.Problem][]findingOutput{}, repaired: map[maintenance.Problem]int64{}}
	of := &names{service: s.opened, accounts: map[buckets.AccountID]*accountNames{}}
	err = s.maintain(ctx, progress, func(ctx context.Context, p maintenance.Progress) (err error) {
		o.Result, err = s.maintenance.Audit(ctx, p, options, func(f maintenance.Finding) error {
			finding, err := of.finding(ctx, f)
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

func (n *names) finding(ctx context.Context, f maintenance.Finding) (o findingOutput, err error) {
	o = findingOutput{Finding: f, Kind: f.Problem, State: "left", On: f.Node, Says: f.Detail}
	if f.Repaired {
		o.State = "repaired"
	}
	if o.AccountName, o.BucketName, err = n.find(ctx, f.Account, f.Bucket); err == nil {
		o.What, err = n.subject(ctx, &f)
	}
	return o, err
}

type auditPrinter struct {
	first    map[maintenance.Problem][]findingOutput
	repaired map[maintenance.Problem]int64
}

func (p *auditPrinter) add(f findingOutput) {
	if f.Repaired {
		p.repaired[f.Problem]++
	}
	if list := p.first[f.Problem]; len(list) < shown {
		p.first[f.Problem] = append(list, f)
	}
}

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
		w.Printf("skipped\t%s that no row names, because younger than %s (--grace): of writes that go on, or that failed\n", service.Count(r.Young, "file"), grace)
	}
	err := w.Flush()
	return string(bytes.TrimRight(text.Bytes(), "\n")), err
}
