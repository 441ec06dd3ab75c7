package sync

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/syncstorage/budget"
)

// mostRecords keeps --records from overflowing a 32-bit int.
const mostRecords = 100_000_000

// budget returns the command that predicts Spanner's mutations. It is a command and not an operation, because it needs
// neither a server nor a database.
func (s *Storage) budget(sh *service.Shell) *cobra.Command {
	var records int
	var quota bool
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Print the mutations in a Spanner batch commit, and how many records fit",
		Long: fmt.Sprintf("Print the mutations in each step of a Cloud Spanner batch commit, and how many records fit into\n"+
			"the limit of %d mutations per commit. No database is needed. The exit status is 1 when the records\n"+
			"do not fit.", budget.Limit),
		Example: "  holdfast sync budget\n" +
			"  holdfast sync budget --records 12000 --quota",
		Args: service.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sh.Load(); err != nil {
				return err
			}
			flags := cmd.Flags()
			// The defaults depend on the configuration, which is not yet loaded when the flags are declared.
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
				return service.Usagef("--records: must be from 1 to %d", mostRecords)
			}
			return printBudget(sh, budget.Current(), records, quota)
		},
	}
	cmd.Flags().IntVar(&records, "records", 0, fmt.Sprintf("`N` records in the batch (default: syncstorage.limits.max_total_records on Spanner, otherwise %d)", budget.Records))
	cmd.Flags().BoolVar(&quota, "quota", false, "also count a quota's mutations (default: as configured)")
	return cmd
}

// printBudget prints the steps of a batch commit, and exits with status 1 if the records do not fit. quota includes the
// quota's mutations.
func printBudget(sh *service.Shell, schema budget.Schema, records int, quota bool) error {
	w := sh.Table()
	w.Printf("STEP\tMUTATIONS\tDETAILS\n")
	for _, step := range schema.Steps(quota) {
		w.Printf("%s\t%d\t%s\n", step.Name, step.Mutations, step.Of)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	plan := schema.Commit(quota)
	sh.Printf("\n%s: %s\n", service.Count(int64(records), "record"), service.Columns(plan.Explain(records, budget.Limit)))
	if plan.Mutations(records) > budget.Limit {
		return &service.ExitError{Status: 1}
	}
	return nil
}
