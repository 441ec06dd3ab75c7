package cli

import (
	"cmp"
	"context"
	"fmt"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// runWatched runs an operation that is neither a list nor a download, with a progress bar if it is a job. If rows
// cannot be printed, it stops the job and returns that error.
func (c *command) runWatched(ctx context.Context, values map[string]string, args []string) (*operate.Result, error) {
	switch c.Kind {
	case operate.Upload:
		name := "-"
		if n := len(c.typedSubjects()); len(args) > n {
			name = args[n]
		}
		return c.upload(ctx, values, name)
	case operate.Job:
	default:
		return c.Run(ctx, values, nil)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &watch{command: c, stop: stop}
	r, err := c.Run(ctx, values, w.see)
	if w.bar != nil {
		w.bar.End()
	}
	if w.err != nil {
		return nil, w.err
	}
	return r, err
}

// watch shows a job's progress.
type watch struct {
	*command
	bar  *service.Bar // for the current step; nil: no update yet
	step string
	said string // the last reason to wait, which is printed once
	err  error  // why a row could not be printed
	stop func() // cancels the job; nil for a download, which reports no rows
}

// see is the job's operate.Progress.
func (w *watch) see(u operate.Update) {
	switch {
	case u.Found != nil:
		if w.err == nil {
			w.found(u.Found)
		}
	case u.Waits != "":
		if u.Waits != w.said {
			w.said = u.Waits
			fmt.Fprintln(w.sh.Stderr, "holdfast: "+service.PrintableLines(u.Waits))
		}
	default:
		if w.bar == nil || u.Step != w.step {
			if w.bar != nil {
				w.bar.End()
			}
			w.bar, w.step = w.sh.Bar(cmp.Or(u.Step, w.Counts), u.Total), u.Step
		}
		w.bar.Bytes = u.Bytes
		w.bar.ShowOf(u.Done, u.Total)
	}
}

// found prints a row that the job reports.
func (w *watch) found(row any) {
	if w.asJSON {
		w.err = w.sh.PrintLine(w.Found.Row(row).Value)
	} else if p, ok := row.(operate.Printed); ok {
		_, w.err = fmt.Fprint(w.sh.Stdout, service.PrintableLines(p.Text()))
	}
	if w.err != nil {
		w.stop()
	}
}
