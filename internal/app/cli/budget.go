package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"holdfast/internal/syncstorage/budget"
)

// mostRecords is what the arithmetic is good for on every machine.
const mostRecords = 100_000_000

func (c *command) budget() *cobra.Command {
	var records int
	var quota bool
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Print what the commit of a batch on Spanner costs and how many records fit",
		Long: fmt.Sprintf("Print of how many mutations each step of a batch's commit on Cloud Spanner consists, what they\n"+
			"are, and how many records fit into the %d that one commit may have. Needs no database.\n"+
			"Exit status 1 when the records do not fit.", budget.Limit),
		Example: "  holdfast sync budget\n" +
			"  holdfast sync budget --records 12000 --quota",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			flags := cmd.Flags()
			if !flags.Changed("quota") {
				quota = cfg.Syncstorage.Counts()
			}
			switch {
			case flags.Changed("records"):
			case cfg.OnSpanner():
				records = int(cfg.Syncstorage.Limits.MaxTotalRecords)
			default:
				records = budget.Records
			}
			if records < 1 || records > mostRecords {
				return fmt.Errorf("--records must be from 1 to %d", mostRecords)
			}
			return c.printBudget(budget.Current(), records, quota)
		},
	}
	cmd.Flags().IntVar(&records, "records", 0, fmt.Sprintf("how many records the batch has (unset: syncstorage.limits.max_total_records on Spanner, else %d)", budget.Records))
	cmd.Flags().BoolVar(&quota, "quota", false, "with a quota, which counts bytes (unset: as configured)")
	return cmd
}

func (c *command) printBudget(s budget.Schema, records int, quota bool) error {
	w := tabwriter.NewWriter(c.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tMUTATIONS\tMADE OF")
	for _, step := range s.Steps(quota) {
		fmt.Fprintf(w, "%s\t%d\t%s\n", step.Name, step.Mutations, step.Of)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	plan := s.Commit(quota)
	fmt.Fprintf(c.env.Stdout, "\n%d records: %s\n", records, plan.Explain(records, budget.Limit))
	if plan.Mutations(records) > budget.Limit {
		return &exitError{1}
	}
	return nil
}
