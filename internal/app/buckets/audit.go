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
	"holdfast/internal/buckets/maintenance"
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
	f.BoolVar(&o.Restart, "restart", false, "do not continue an interrupted audit")
	f.BoolVar(&asJSON, "json", false, "print a line of JSON for each finding, and one for the result")
	return cmd
}

func (c *command) runAudit(ctx context.Context, o maintenance.AuditOptions, asJSON bool) error {
	var result maintenance.Result
	all := map[maintenance.Problem][]maintenance.Finding{}
	repaired := map[maintenance.Problem]int64{}
	err := c.maintain(ctx, func(ctx context.Context, options maintenance.Options) (err error) {
		result, err = maintenance.Audit(ctx, options, o, func(f maintenance.Finding) error {
			if f.Repaired {
				repaired[f.Problem]++
			}
			if asJSON {
				return c.PrintLine(f)
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
	case err != nil:
		return fmt.Errorf("%w; run the command again to continue", err)
	case asJSON:
		err = c.PrintLine(struct {
			Result maintenance.Result `json:"result"`
		}{result})
	default:
		err = c.printAudit(result, all, repaired)
	}
	if err == nil && result.Left > 0 {
		err = &service.ExitError{Status: 1}
	}
	return err
}

func (c *command) printAudit(r maintenance.Result, all map[maintenance.Problem][]maintenance.Finding, repaired map[maintenance.Problem]int64) error {
	if r.Resumed {
		fmt.Fprintf(c.Stdout, "continued the audit that began at %s\n", r.Began.UTC().Format(time.RFC3339))
	}
	w := c.Table()
	for _, p := range maintenance.Problems {
		for _, f := range all[p] {
			state := "left"
			if f.Repaired {
				state = "repaired"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Problem, state, cmp.Or(f.Node, "-"), subject(&f), f.Detail)
		}
		if more := r.Found[p] - int64(len(all[p])); more > 0 {
			fmt.Fprintf(w, "%s\t\t\t%d more, which --json lists\n", p, more)
		}
	}
	if len(all) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "bodies\t%d\ncopies compared\t%d\n", r.Bodies, r.Copies)
	for _, p := range maintenance.Problems {
		if r.Found[p] > 0 {
			fmt.Fprintf(w, "%s\t%d, repaired %d\n", p, r.Found[p], repaired[p])
		}
	}
	if len(r.Found) == 0 {
		fmt.Fprintln(w, "findings\tnone")
	}
	return w.Flush()
}

// subject returns what a finding is about.
func subject(f *maintenance.Finding) string {
	switch {
	case f.Object != "":
		return fmt.Sprintf("%s/%s/%s", f.Account, f.Bucket, printable(f.Object))
	case f.Account != "" && f.Bucket != "":
		return fmt.Sprintf("%s/%s", f.Account, f.Bucket)
	}
	return cmp.Or(f.Path, string(f.Account))
}

// printable quotes the name of an object that a terminal would not show as it is.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
