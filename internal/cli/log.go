package cli

import (
	"context"
	"net/http"
	"net/url"
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
	all := overview.Operations(c.operated)
	o := &all[0]
	for i := range all {
		if all[i].Path == "log" {
			o = &all[i]
		}
	}
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
		return c.printLog(got.Lines, asJSON)
	}
	return cmd
}

// printLog prints lines, the latest first. An error without a message of its own is the message.
func (c *command) printLog(lines []overview.LogLine, asJSON bool) error {
	sh := c.shell()
	w := sh.Table()
	if !asJSON {
		if err := w.Row("TIME (UTC)", "LEVEL", "SERVICE", "STATUS", "MESSAGE", "DETAILS"); err != nil {
			return err
		}
	}
	for i := range lines {
		l := &lines[i]
		if asJSON {
			if err := sh.PrintLine(l); err != nil {
				return err
			}
			continue
		}
		status := any("-")
		if l.Status != 0 {
			status = l.Status
		}
		of := l.Service
		if of == "" {
			of = "server"
		}
		details := strings.TrimSpace(l.Error + " " + l.Attributes)
		if err := w.Row(l.At.UTC().Format(time.DateTime), l.Level, of, status, l.Message, details); err != nil {
			return err
		}
	}
	return w.Flush()
}
