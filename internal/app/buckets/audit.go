package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/db/rows"
)

// shown is how many findings of each kind are printed for people.
const shown = 20

func (c *command) audit() *cobra.Command {
	var o maintenance.AuditOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use: "audit", Short: "Compare storage nodes and usage counters with the database, and repair them",
		Long: "Compare the bodies on all storage nodes, and the usage counters, with the database while servers run.\n" +
			"The exit status is 1 if findings are left. The problems are:\n\n" +
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
		Example: "  holdfast buckets audit\n" +
			"  holdfast buckets audit --verify --repair",
		Args: service.Args(),
		RunE: c.onNodes(func(ctx context.Context, _ []string) error {
			if o.Grace < maintenance.MinGrace {
				return service.Usagef("--grace: invalid value %q: expected at least %s", o.Grace, maintenance.MinGrace)
			}
			o.Level = cmp.Or(c.state.cfg.Copies, c.state.cluster.Copies())
			return c.runAudit(ctx, o, asJSON)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.Verify, "verify", false, "read every copy and compare its MD5")
	f.BoolVar(&o.Repair, "repair", false, "repair what is found")
	f.StringVar(&o.Node, "node", "", "audit only the storage node `DATACENTER:NAME`, and no counters")
	f.DurationVar(&o.Grace, "grace", maintenance.DefaultGrace, "ignore unreferenced files younger than `DURATION`, at least 2h")
	f.BoolVar(&o.UnknownAccounts, "unknown-accounts", false, "with --repair, also remove files of accounts that the database does not have")
	f.BoolVar(&o.Restart, "restart", false, "do not continue an interrupted audit")
	f.BoolVar(&asJSON, "json", false, "print a line of JSON for each finding, and one for the result")
	return cmd
}

func (c *command) runAudit(ctx context.Context, o maintenance.AuditOptions, asJSON bool) error {
	var result maintenance.Result
	all := map[maintenance.Problem][]maintenance.Finding{}
	repaired := map[maintenance.Problem]int64{}
	of := &names{store: c.state.store, accounts: map[buckets.AccountID]*accountNames{}}
	err := c.maintain(ctx, func(ctx context.Context, options maintenance.Options) (err error) {
		result, err = maintenance.Audit(ctx, options, o, func(f maintenance.Finding) error {
			if f.Repaired {
				repaired[f.Problem]++
			}
			if asJSON {
				account, bucket, err := of.find(ctx, f.Account, f.Bucket)
				return errors.Join(err, c.PrintLine(struct {
					maintenance.Finding
					AccountName string `json:"account_name,omitempty"`
					BucketName  string `json:"bucket_name,omitempty"`
				}{f, account, bucket}))
			}
			if list := all[f.Problem]; len(list) < shown {
				all[f.Problem] = append(list, f)
			}
			return nil
		})
		return err
	})
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: run the command again to continue")
	case errors.Is(err, rows.ErrReadOnly):
		return err
	case err != nil:
		return fmt.Errorf("%w; run the command again to continue", err)
	case asJSON:
		err = c.PrintLine(struct {
			Result maintenance.Result `json:"result"`
		}{result})
	default:
		err = c.printAudit(ctx, of, result, all, repaired, o.Grace)
	}
	if err == nil && result.Left > 0 {
		err = &service.ExitError{Status: 1}
	}
	return err
}

func (c *command) printAudit(ctx context.Context, of *names, r maintenance.Result, all map[maintenance.Problem][]maintenance.Finding, repaired map[maintenance.Problem]int64, grace time.Duration) error {
	if r.Resumed {
		c.Printf("continued the audit that began at %s\n", r.Began.UTC().Format(time.RFC3339))
	}
	w := c.Table()
	for _, p := range maintenance.Problems {
		for _, f := range all[p] {
			state := "left"
			if f.Repaired {
				state = "repaired"
			}
			what, err := of.subject(ctx, &f)
			if err != nil {
				return err
			}
			w.Printf("%s\t%s\t%s\t%s\t%s\n", f.Problem, state, cmp.Or(f.Node, "-"), what, f.Detail)
		}
		if more := r.Found[p] - int64(len(all[p])); more > 0 {
			w.Printf("%s\t\t\t%d more, which --json lists\n", p, more)
		}
	}
	if len(all) > 0 {
		w.Printf("\n")
	}
	w.Printf("bodies\t%d\ncopies compared\t%d\n", r.Bodies, r.Copies)
	for _, p := range maintenance.Problems {
		if r.Found[p] > 0 {
			w.Printf("%s\t%d, repaired %d\n", p, r.Found[p], repaired[p])
		}
	}
	if len(r.Found) == 0 {
		w.Printf("findings\tnone\n")
	}
	if r.Young > 0 {
		w.Printf("skipped\t%s that no row names, because younger than %s (--grace): of writes that go on, or that failed\n", service.Count(r.Young, "file"), grace)
	}
	return w.Flush()
}

// names finds the names of accounts and buckets, which findings have the IDs of.
type names struct {
	store    store
	accounts map[buckets.AccountID]*accountNames
}

type accountNames struct {
	name    string
	buckets map[buckets.BucketID]string
}

// find returns the names of an account and a bucket, or the IDs of those that are
// deleted. An ID that is empty has no name.
func (n *names) find(ctx context.Context, id buckets.AccountID, bucket buckets.BucketID) (account, of string, err error) {
	if id == "" {
		return "", "", nil
	}
	a := n.accounts[id]
	if a == nil {
		if a, err = n.read(ctx, id); err != nil {
			return "", "", err
		}
		n.accounts[id] = a
	}
	return a.name, cmp.Or(a.buckets[bucket], string(bucket)), nil
}

func (n *names) read(ctx context.Context, id buckets.AccountID) (*accountNames, error) {
	a := &accountNames{name: string(id), buckets: map[buckets.BucketID]string{}}
	account, err := n.store.AccountByID(ctx, id)
	switch {
	case errors.Is(err, buckets.ErrNoAccount):
		return a, nil
	case err != nil:
		return nil, err
	}
	a.name = account.Name
	for q := (buckets.BucketQuery{Limit: buckets.MaxPage}); ; {
		page, more, err := n.store.Buckets(ctx, id, q)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			a.buckets[b.ID] = b.Name
			q.After = b.Name
		}
		if !more {
			return a, nil
		}
	}
}

// subject returns what a finding is about, with the version of its body.
func (n *names) subject(ctx context.Context, f *maintenance.Finding) (string, error) {
	account, bucket, err := n.find(ctx, f.Account, f.Bucket)
	switch {
	case err != nil:
		return "", err
	case f.Upload != "":
		return fmt.Sprintf("%s/%s/%s (part %d of upload %s, body %s)", account, bucket, printable(f.Object), f.Part, f.Upload, f.Body), nil
	case f.Object != "":
		return fmt.Sprintf("%s/%s/%s (body %s)", account, bucket, printable(f.Object), f.Body), nil
	case account != "" && bucket != "":
		return account + "/" + bucket, nil
	}
	return cmp.Or(f.Path, account), nil
}

// printable quotes the name of an object that a terminal would not show as it is.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
