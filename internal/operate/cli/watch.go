package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// runWatched runs an operation. It draws the progress of a job on a terminal, and prints its rows as JSON.
func (c *command) runWatched(ctx context.Context, o *operate.Operation, values map[string]string) (*operate.Result, error) {
	if o.Kind != operate.Job {
		return o.Run(ctx, values, nil)
	}
	w := &watch{command: c, of: o}
	r, err := o.Run(ctx, values, w.see)
	if w.bar != nil {
		w.bar.End()
	}
	return r, errors.Join(w.err, err)
}

// watch shows the updates of a job.
type watch struct {
	*command
	of   *operate.Operation
	bar  *service.Bar // of the current step; nil: no step has begun
	step string
	said string // the latest reason to wait
	err  error  // of the output
}

func (w *watch) see(u operate.Update) {
	switch {
	case u.Found != nil:
		if w.asJSON && w.err == nil {
			w.err = w.sh.PrintLine(w.of.Found.Row(u.Found).Value)
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
			w.bar, w.step = w.sh.Bar(cmp.Or(u.Step, w.of.Counts), u.Total), u.Step
		}
		w.bar.ShowOf(u.Done, u.Total)
	}
}
