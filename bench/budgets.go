package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

var budgetFiles = []string{"holdfast/internal/web/gate.go", "holdfast/internal/web/memory.go", "holdfast/internal/fairshare/"}

const (
	// budgetCallers is below the number of PostgreSQL connections. Otherwise requests would wait here instead of in
	// the driver's pool, which costs the budgets nothing.
	budgetCallers = 8
	budgetGoal    = 0.03
	budgetSamples = 1000 // if no sample is in the budgets, the files were moved
)

func budgetsHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "CPU profiles of %v at %d connections. The goal is less than %.0f %%.\n\n", 2*o.window, budgetCallers, 100*budgetGoal)
	fmt.Fprintln(out, "| work | engine | server CPU in the budgets | samples |")
	fmt.Fprintln(out, "|---|---|--:|--:|")
}

func measureBudgets(ctx context.Context, o *options, e *engine, out io.Writer) error {
	for _, s := range []struct {
		service
		works []string
	}{{o.service("load"), []string{workPut, workPage}}, {o.service("ext"), []string{workExtPut, workExtGet}}} {
		callers := min(budgetCallers, slices.Max(o.connections))
		err := onFilled(ctx, o, e, s.service, callers, func(srv *server, owners []credentials) error {
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

func (op *operation) budgets(ctx context.Context, o *options, s *server, owners []credentials, out io.Writer) error {
	data, err := s.profiled(ctx, 2*o.window, func(more more) error {
		_, err := op.load(ctx, s, owners, more)
		return err
	})
	if err != nil {
		return err
	}
	if err := o.saveProfile("budgets "+op.name+" "+s.engine.name, data); err != nil {
		return err
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return err
	}
	in, all := inBudgets(p)
	if all == 0 || in == 0 && all >= budgetSamples {
		return fmt.Errorf("no sample of %d is in %s: use a longer -window, or correct budgetFiles", all, strings.Join(budgetFiles, ", "))
	}
	share, missed := float64(in)/float64(all), ""
	if all >= budgetSamples && share >= budgetGoal {
		missed = "**missed** "
	}
	fmt.Fprintf(out, "| %s | %s | %s%.1f %% | %d |\n", op.name, s.engine.name, missed, 100*share, all)
	return nil
}

// Runtime work for a blocked goroutine has no caller, so goroutine switches count only in the total.
func inBudgets(p *profile.Profile) (in, all int64) {
	for _, s := range p.Sample {
		all += s.Value[0]
		if file := innermost(s); slices.ContainsFunc(budgetFiles, func(prefix string) bool { return strings.HasPrefix(file, prefix) }) {
			in += s.Value[0]
		}
	}
	return in, all
}

func innermost(s *profile.Sample) string {
	for _, l := range s.Location {
		for _, line := range l.Line { // inlined functions first
			if line.Function != nil && strings.HasPrefix(line.Function.Name, "holdfast/") {
				return line.Function.Filename
			}
		}
	}
	return ""
}
