package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/durable"
	"holdfast/internal/importing"
)

const printedRows = 5 // of each kind

// problems prints some rows, and writes all of them to the file list, if set. actions are the kinds that need action,
// and findings the kinds that `holdfast check` repeats.
func (c *command) problems(ctx context.Context, m *importing.Import, list string) (actions string, findings importing.Findings, err error) {
	var all problemKinds
	collect := func(w io.Writer) error {
		all, findings = nil, importing.Findings{}
		out := bufio.NewWriter(w)
		for _, p := range m.Parts {
			if err := p.Source.Problems(ctx, func(problem service.Problem) {
				all.add(problem)
				findings.Add(problem)
				fmt.Fprintf(out, "%s: %s: %s\n", verb(problem), problem.What, problem.Row)
			}); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	if list == "" {
		err = collect(io.Discard)
	} else {
		err = durable.Replace(list, collect)
	}
	if err != nil {
		return "", findings, err
	}
	where := "all rows are in " + list
	switch {
	case list == "":
		where = "--list FILE writes all rows to a file"
	case !all.isLong():
		if err := os.Remove(list); err != nil {
			return "", findings, err
		}
	}
	notes, actions := all.texts(where)
	_, err = fmt.Fprint(c.env.Stdout, service.PrintableLines(notes))
	return actions, findings, err
}

// problemKind is all rows with the same problem.
type problemKind struct {
	service.Problem
	n    int64    // rows with this problem
	rows []string // the first ones, at most printedRows
}

type problemKinds []*problemKind

// add counts a row. Memory stays bounded: rows beyond printedRows are only in the file.
func (all *problemKinds) add(problem service.Problem) {
	i := slices.IndexFunc(*all, func(k *problemKind) bool { return k.What == problem.What && k.Left == problem.Left })
	if i < 0 {
		i, *all = len(*all), append(*all, &problemKind{Problem: problem})
	}
	k := (*all)[i]
	if k.n++; len(k.rows) < printedRows {
		k.rows = append(k.rows, problem.Row)
	}
}

// isLong reports whether rows were left out of the output, so that the file is worth keeping.
func (all problemKinds) isLong() bool {
	return slices.ContainsFunc(all, func(k *problemKind) bool { return k.n > printedRows })
}

// texts returns all notes and actions. where says how to get the unprinted rows.
func (all problemKinds) texts(where string) (notes, actions string) {
	var noted, needed strings.Builder
	for _, k := range all {
		b := &noted
		if k.Fix != "" {
			b = &needed
		}
		fmt.Fprintf(b, "%s, %s: %s\n", verb(k.Problem), service.Count(k.n, "row"), k.What)
		for _, row := range k.rows {
			fmt.Fprintln(b, "  "+row)
		}
		if left := k.n - int64(len(k.rows)); left > 0 {
			fmt.Fprintf(b, "  and %d more: %s\n", left, where)
		}
		if k.Fix != "" {
			fmt.Fprintln(b, "  "+k.Fix)
		}
	}
	return noted.String(), needed.String()
}

// verb names the fate of a row with a problem.
func verb(p service.Problem) string {
	if p.Left {
		return "skipped"
	}
	return "imported"
}
