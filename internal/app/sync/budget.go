package sync

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/syncstorage/budget"
)

// mostRecords is what the arithmetic is good for on every machine.
const mostRecords = 100_000_000

func (s *Storage) budget(sh *service.Shell) *cobra.Command {
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
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sh.Load(); err != nil {
				return err
			}
			flags := cmd.Flags()
			if !flags.Changed("quota") {
				quota = s.cfg.Counts()
			}
			switch {
			case flags.Changed("records"):
			case s.onSpanner():
				records = int(s.cfg.Limits.MaxTotalRecords)
			default:
				records = budget.Records
			}
			if records < 1 || records > mostRecords {
				return fmt.Errorf("--records must be from 1 to %d", mostRecords)
			}
			return printBudget(sh, budget.Current(), records, quota)
		},
	}
	cmd.Flags().IntVar(&records, "records", 0, fmt.Sprintf("how many records the batch has (unset: syncstorage.limits.max_total_records on Spanner, else %d)", budget.Records))
	cmd.Flags().BoolVar(&quota, "quota", false, "with a quota, which counts bytes (unset: as configured)")
	return cmd
}

func printBudget(sh *service.Shell, schema budget.Schema, records int, quota bool) error {
	w := sh.Table()
	fmt.Fprintln(w, "STEP\tMUTATIONS\tMADE OF")
	for _, step := range schema.Steps(quota) {
		fmt.Fprintf(w, "%s\t%d\t%s\n", step.Name, step.Mutations, step.Of)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	plan := schema.Commit(quota)
	fmt.Fprintf(sh.Stdout, "\n%d records: %s\n", records, plan.Explain(records, budget.Limit))
	if plan.Mutations(records) > budget.Limit {
		return &service.ExitError{Status: 1}
	}
	return nil
}
