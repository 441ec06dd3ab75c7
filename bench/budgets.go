package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// budgetFiles are the files whose functions are the budgets: slots, turns at the
// database, bytes in flight, and the pools behind them.
var budgetFiles = []string{"holdfast/internal/web/gate.go", "holdfast/internal/web/memory.go", "holdfast/internal/fair/"}

const (
	budgetCallers = 16
	budgetGoal    = 0.03 // of the server's CPU
	budgetSamples = 1000 // in which the budgets must be found, or their files have moved
)

func budgetsHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "CPU profiles of %v at %d connections. The goal is less than %.0f %%.\n\n", 2*o.window, budgetCallers, 100*budgetGoal)
	fmt.Fprintln(out, "| work | engine | server CPU in the budgets | samples |")
	fmt.Fprintln(out, "|---|---|--:|--:|")
}

// measureBudgets fills the table for one engine: a write and a read of each service.
func measureBudgets(ctx context.Context, o *options, e *engine, out io.Writer) error {
	sync, ext := newSync(), newExt()
	for _, s := range []struct {
		service
		works []string
	}{{sync, []string{workPut, workPage}}, {ext, []string{workExtPut, workExtGet}}} {
		callers := min(budgetCallers, slices.Max(o.connections))
		err := onServer(ctx, o, e, s.settings(e), func(srv *server) error {
			owners, err := srv.newOwners(s.service, callers)
			if err != nil {
				return err
			}
			if err := s.fill(ctx, e, owners); err != nil {
				return err
			}
			for _, op := range s.operations() {
				if !slices.Contains(s.works, op.name) {
					continue
				}
				if err := op.budgets(ctx, o, srv, owners, out); err != nil {
					return fmt.Errorf("%s: %w", op.name, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// budgets fills one row.
func (op *operation) budgets(ctx context.Context, o *options, s *server, owners []credentials, out io.Writer) error {
	data, err := s.profiled(ctx, 2*o.window, func(more more) error {
		_, err := op.load(ctx, s, owners, more)
		return err
	})
	if err != nil {
		return err
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return err
	}
	in, all := inBudgets(p)
	if all == 0 || in == 0 && all >= budgetSamples {
		return fmt.Errorf("none of %d samples is in %s", all, strings.Join(budgetFiles, ", "))
	}
	share, missed := float64(in)/float64(all), ""
	if all >= budgetSamples && share >= budgetGoal {
		missed = "**missed** "
	}
	fmt.Fprintf(out, "| %s | %s | %s%.1f %% | %d |\n", op.name, s.engine.name, missed, 100*share, all)
	return nil
}

// inBudgets counts the samples whose innermost function of ours belongs to the budgets,
// and all samples. What the runtime does for a goroutine that has stopped has no caller,
// so that switching between goroutines counts only in the sum.
func inBudgets(p *profile.Profile) (in, all int64) {
	for _, s := range p.Sample {
		all += s.Value[0]
		if file := innermost(s); slices.ContainsFunc(budgetFiles, func(prefix string) bool { return strings.HasPrefix(file, prefix) }) {
			in += s.Value[0]
		}
	}
	return in, all
}

// innermost is the file of the innermost function of Holdfast in a sample's stack; "": none.
func innermost(s *profile.Sample) string {
	for _, l := range s.Location {
		for _, line := range l.Line { // inlined functions come first
			if line.Function != nil && strings.HasPrefix(line.Function.Name, "holdfast/") {
				return line.Function.Filename
			}
		}
	}
	return ""
}
