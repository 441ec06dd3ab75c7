package ext

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/operate"
)

// usageOperations declares the list of usage counters and the audit that verifies them.
func (s *Extensions) usageOperations() []operate.Operation {
	audit := operate.NewJob(operate.About{
		Path: "usage/audit", Doc: "Count all rows and compare them with the counters", Counts: "installs",
		More: "For several installs, it prints only differing installs, including installs with rows but no counters. The exit\n" +
			"status is 1 when something differs. Servers can keep running.",
		Example: "\n--tenant $TENANT --install $INSTALL\n",
		Title:   "Audit", Text: "An audit counts the rows of installs and compares them with the counters.", Button: "Start the audit",
		Background: true, Begun: "audit started", Stop: "Stop the audit",
	}, s.auditUsage)
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "usage", Doc: "List how much installs store", Title: "Usage", Empty: "No install stores a record.", PageRows: ext.MaxPage,
			Group: "Show how much installs store, and verify the counters", Rows: "installs",
			More:    "Shows usage and quotas, with a line for every install that ever stored a record.",
			Example: "\n--tenant $TENANT\n",
		}, on(s, s.listUsage)),
		operate.WithFound[auditOutput](audit, "Installs with differences", "There are no differences so far."),
	}
}

// listUsage lists installs with counters. It reads only counters, no records.
func (s *Extensions) listUsage(ctx context.Context, in installsInput) ([]installRow, error) {
	return s.rows(ctx, in, func(span inspection.Span) ([]inspection.InstallUsage, error) {
		return s.inspection.PageUsage(ctx, span, in.Limit)
	})
}

// auditInput selects an install, a tenant's installs, or all.
type auditInput struct {
	Tenant  string `flag:"tenant" value:"UUID" doc:"tenant UUID (default: all)"`
	Install string `flag:"install" value:"UUID" doc:"install UUID (default: all)"`
	All     bool   `flag:"all" doc:"with --json, print a line for every install, even without differences" local:""`
}

// Check requires the tenant of an install.
func (in auditInput) Check() (err error) {
	switch {
	case in.Install == "":
		_, err = spanOf(in.Tenant)
		return err
	case in.Tenant == "":
		return &operate.InputError{Input: "install", Reason: "requires a tenant"}
	}
	return installInput{in.Tenant, in.Install}.Check()
}

// countersOutput has the fields of inspection's counters, in the same order.
type countersOutput struct {
	Bytes      int64 `json:"bytes"`
	Keys       int64 `json:"keys"`
	Namespaces int64 `json:"namespaces"`
}

// namespaceGap is a namespace whose counter differs from its rows, in keys.
type namespaceGap struct {
	Namespace string `json:"namespace"`
	Counter   int64  `json:"counter"`
	Rows      int64  `json:"rows"`
}

// auditOutput compares an install's counters with its rows. Right says that they are equal. Namespaces lists only
// differences.
type auditOutput struct {
	Tenant     string         `json:"tenant" title:"Tenant"`
	Install    string         `json:"install" title:"Install"`
	Right      bool           `json:"right"`
	Counters   countersOutput `json:"counters"`
	Rows       countersOutput `json:"rows"`
	Namespaces []namespaceGap `json:"namespaces,omitempty"`

	// Bytes, Keys and Used show both numbers in the console.
	Bytes string `json:"-" title:"Bytes"`
	Keys  string `json:"-" title:"Keys"`
	Used  string `json:"-" title:"Namespaces"`

	text string
}

// Text is "" without differences.
func (a auditOutput) Text() string { return a.text }

// outputOfAudit leaves text to auditor.add, because it depends on the audit.
func outputOfAudit(o ext.Owner, audit *inspection.Audit) auditOutput {
	a := auditOutput{Tenant: string(o.Tenant), Install: string(o.Install), Right: audit.Right(), Counters: countersOutput(audit.Counters), Rows: countersOutput(audit.Counted)}
	for _, n := range audit.Namespaces {
		a.Namespaces = append(a.Namespaces, namespaceGap{string(n.Namespace), n.Keys, n.Counted})
	}
	gap := func(counter, rows int64) string { return fmt.Sprintf("%d, counted %d", counter, rows) }
	c, r := &a.Counters, &a.Rows
	a.Bytes, a.Keys, a.Used = gap(c.Bytes, r.Bytes), gap(c.Keys, r.Keys), gap(c.Namespaces, r.Namespaces)
	return a
}

// comparison returns a table with both numbers, for the command.
func (a *auditOutput) comparison() (string, error) {
	var text strings.Builder
	w := service.NewPrinter(&text)
	w.Printf("ITEM\tCOUNTER\tROWS\n")
	c, r := &a.Counters, &a.Rows
	w.Printf("bytes\t%d\t%d\nkeys\t%d\t%d\nnamespaces\t%d\t%d\n", c.Bytes, r.Bytes, c.Keys, r.Keys, c.Namespaces, r.Namespaces)
	for _, n := range a.Namespaces {
		w.Printf("keys in %s\t%d\t%d\n", n.Namespace, n.Counter, n.Rows)
	}
	err := w.Flush()
	return text.String(), err
}

// auditResult counts the audited installs. text is the notice.
type auditResult struct {
	Audited   int64 `json:"audited" title:"Installs audited" least:"0"`
	Different int64 `json:"different" title:"With differences" least:"0"`
	text      string
}

func (r auditResult) Notice() string { return r.text }

// namedMost is how many installs the error names.
const namedMost = 10

// auditor collects the results of an audit.
type auditor struct {
	auditInput
	audited, different int64
	// text is the notice for a single install; named lists the installs with differences.
	text     string
	named    strings.Builder
	progress operate.Progress
}

// add reports an install. With a single install, its comparison is the notice; otherwise only differences are printed.
func (r *auditor) add(o ext.Owner, audit *inspection.Audit) error {
	a := outputOfAudit(o, audit)
	text, err := a.comparison()
	if err != nil {
		return err
	}
	r.audited++
	switch {
	case r.Install != "":
		r.text = strings.TrimSuffix(text, "\n")
	case !a.Right:
		a.text = fmt.Sprintf("tenant %s, install %s\n%s", o.Tenant, o.Install, text)
	}
	if !a.Right {
		if r.different++; r.different <= namedMost {
			fmt.Fprintf(&r.named, "\n  %s", nameOf(o))
		}
	}
	if r.All || !a.Right {
		r.progress.Find(a)
	}
	r.progress.Report(r.audited, 0)
	return nil
}

// result is also returned with an error.
func (r *auditor) result() auditResult {
	text := r.text
	if r.Install == "" {
		text = fmt.Sprintf("installs audited: %d, with differences: %d", r.audited, r.different)
	}
	return auditResult{r.audited, r.different, text}
}

// err returns errcode.Conflict if something differs, so that the command's exit status is 1. Call it once, at the end.
func (r *auditor) err() error {
	switch {
	case r.different == 0:
		return nil
	case r.Install != "":
		return errcode.New(errcode.Conflict, "the install's counters differ from the rows")
	case r.different > namedMost:
		fmt.Fprintf(&r.named, "\n  and %d more", r.different-namedMost)
	}
	return errcode.Newf(errcode.Conflict, "the counters differ from the rows for %d of %s:%s", r.different, service.Count(r.audited, "install"), &r.named)
}

// auditUsage reads all rows of the selected installs, each in its own snapshot, while servers write.
func (s *Extensions) auditUsage(ctx context.Context, in auditInput, progress operate.Progress) (auditResult, error) {
	if _, err := s.ready(); err != nil {
		return auditResult{}, err
	}
	r := &auditor{auditInput: in, progress: progress}
	if in.Install != "" {
		o, err := installInput{in.Tenant, in.Install}.owner()
		if err != nil {
			return auditResult{}, err
		}
		audit, err := s.inspection.AuditInstall(ctx, o)
		if err != nil {
			return auditResult{}, err
		}
		err = r.add(o, &audit)
		return r.result(), cmp.Or(err, r.err())
	}
	span, err := spanOf(in.Tenant)
	if err == nil {
		err = s.inspection.AuditAll(ctx, span, r.add)
	}
	if ctx.Err() != nil {
		err = operate.ErrStopped
	}
	return r.result(), cmp.Or(err, r.err())
}
