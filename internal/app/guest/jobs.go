package guest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
)

func (c *command) jobs() *cobra.Command {
	cmd := &cobra.Command{
		Use: "jobs", Short: "Manage the jobs that delete old data",
		Long: "Manage the jobs that delete old data. A running server runs all of them each guest.sweep_interval.",
	}
	cmd.AddCommand(c.listJobs(), c.runJob())
	return cmd
}

func (c *command) listJobs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the jobs, and how many rows they would delete now", Args: service.Args(),
		RunE: c.withStore(func(ctx context.Context, _ guest.Store, _ []string) error {
			return c.printJobs(ctx, guest.Jobs, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each job")
	return cmd
}

func (c *command) printJobs(ctx context.Context, jobs []guest.Job, asJSON bool) error {
	return c.list(asJSON, []any{"JOB", "DELETES BEFORE (UTC)", "ROWS"}, func(add row) error {
		for _, job := range jobs {
			o, err := c.state.retention.Count(ctx, job)
			if err != nil {
				return err
			}
			rows := strconv.Itoa(o.Rows)
			if o.Rows == guest.MaxCount {
				rows += " or more"
			}
			if err := add(httpapi.ViewOld(o), o.Job, o.Before.Format(time.DateTime), rows); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *command) runJob() *cobra.Command {
	var dry, all bool
	cmd := &cobra.Command{
		Use: "run (JOB | --all)", Short: "Delete the old data of a job", Example: "  holdfast guest jobs run events --dry-run",
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return service.Args()(cmd, args)
			}
			return service.Args("JOB")(cmd, args)
		},
		RunE: c.withStore(func(ctx context.Context, _ guest.Store, args []string) error {
			jobs := guest.Jobs
			if !all {
				job, err := guest.ParseJob(args[0])
				if err != nil {
					return fmt.Errorf("%w: holdfast guest jobs list lists them", err)
				}
				jobs = []guest.Job{job}
			}
			if dry {
				return c.printJobs(ctx, jobs, false)
			}
			var failed error
			for _, job := range jobs {
				n, err := c.state.retention.Run(ctx, job)
				c.Printf("%s: %s deleted\n", job, service.Count(int64(n), "row"))
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: %w", job, err))
				}
			}
			return failed
		}),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count the rows, and delete nothing")
	cmd.Flags().BoolVar(&all, "all", false, "run all jobs")
	return cmd
}
