package cli

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
)

// log prints the log lines that a running server keeps in memory. Its flags are the inputs of the operation log, which
// the server runs, because a log is not in a database.
func (c *command) log() *cobra.Command {
	o := overview.LogOperation(c.operated)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "log",
		Short: o.Doc,
		Long: o.Doc + ", that the server at server.admin_listen keeps\n" +
			"in memory. --status finds the requests of clients that were refused, with the reason.",
		Example: "  holdfast log --status 4xx\n" +
			"  holdfast log --status 403 --service buckets\n" +
			"  holdfast log --level warn --json",
		Args: service.Args(),
	}
	for _, in := range o.Inputs {
		cmd.Flags().String(in.Name, in.Default, in.Doc)
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON line for each row")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		values, query := map[string]string{}, url.Values{}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if o.Input(f.Name) != nil {
				values[f.Name] = f.Value.String()
				query.Set(f.Name, f.Value.String())
			}
		})
		if err := o.Check(values); err != nil {
			return service.Usagef("--%s", err)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
		defer cancel()
		r, err := c.find(ctx)
		if err != nil {
			return err
		}
		var got struct{ Lines []overview.LogLine }
		if err := r.call(ctx, http.MethodGet, "/log?"+query.Encode(), &got); err != nil {
			return err
		}
		if !asJSON {
			return c.printLog(got.Lines)
		}
		for i := range got.Lines {
			if err := c.shell().PrintLine(&got.Lines[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// printLog prints a table, the latest line first.
func (c *command) printLog(lines []overview.LogLine) error {
	w := c.shell().Table()
	if err := w.Row("TIME (UTC)", "LEVEL", "SERVICE", "STATUS", "MESSAGE", "DETAILS"); err != nil {
		return err
	}
	for i := range lines {
		l := &lines[i]
		status := "-"
		if l.Status != 0 {
			status = strconv.Itoa(l.Status)
		}
		details := strings.TrimSpace(l.Error + " " + l.Attributes)
		if err := w.Row(l.At.UTC().Format(time.DateTime), l.Level, cmp.Or(l.Service, "server"), status, l.Message, details); err != nil {
			return err
		}
	}
	return w.Flush()
}
