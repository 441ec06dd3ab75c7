package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// budgetFile lists the processor seconds of the packages' tests, a line for each set of tests and package:
//
//	quick holdfast/internal/app 41.5
//
// Processor time depends less on the load of the machine than elapsed time does. The figures are relative: a run's pace
// is the median of used seconds to budgeted seconds over all packages, so on a machine of half the speed all budgets are
// doubled. A change that slows all packages by the same factor is therefore not seen.
const budgetFile = "test/budgets.txt"

// Limits of the comparison.
const (
	growth       = 1.2 // of a budget at the run's pace
	negligible   = 2.0 // seconds: packages below it need no budget, and smaller growth is chance
	enoughToPace = 10  // packages with a budget that a run needs, so that their median says something about the machine
)

// readBudgets returns the seconds of each package in a set of tests.
func readBudgets(path, set string) (seconds map[string]float64, err error) {
	seconds = map[string]float64{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return seconds, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) == 0 || strings.HasPrefix(field[0], "#") {
			continue
		}
		if len(field) != 3 {
			return nil, fmt.Errorf("%s: the line %q must be SET PACKAGE SECONDS", path, lines.Text())
		}
		s, err := strconv.ParseFloat(field[2], 64)
		if err != nil || s <= 0 {
			return nil, fmt.Errorf("%s: the line %q must end with seconds above 0", path, lines.Text())
		}
		if field[0] == set {
			seconds[field[1]] = s
		}
	}
	return seconds, lines.Err()
}

// overBudget returns a line for each package that used over a fifth more than its budget at the run's pace, or that
// needs a budget. A run of fewer packages, such as that of one service, is not compared.
func overBudget(budgets, used map[string]float64) (lines []string) {
	var paces []float64
	for name, seconds := range used {
		if budgets[name] > 0 {
			paces = append(paces, seconds/budgets[name])
		}
	}
	if len(paces) < enoughToPace {
		return nil
	}
	slices.Sort(paces)
	pace := paces[len(paces)/2]
	for _, name := range slices.Sorted(maps.Keys(used)) {
		allowed := budgets[name] * pace
		switch {
		case allowed == 0 && used[name] > negligible*pace:
			lines = append(lines, fmt.Sprintf("%s used %.1f s of processor time and has no budget in %s", name, used[name], budgetFile))
		case allowed > 0 && used[name] > growth*allowed && used[name]-allowed > negligible*pace:
			lines = append(lines, fmt.Sprintf("%s used %.1f s of processor time; its budget is %.1f s, on this machine now %.1f s", name, used[name], budgets[name], allowed))
		}
	}
	return lines
}

// writeBudgets replaces a set's lines by the seconds of a run.
func writeBudgets(path, set string, used map[string]float64) error {
	var kept []string
	switch old, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		for line := range strings.Lines(string(old)) {
			if !strings.HasPrefix(line, set+" ") {
				kept = append(kept, line)
			}
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(used), func(a, b string) int { return cmp.Compare(used[b], used[a]) }) {
		if used[name] >= negligible/2 {
			kept = append(kept, fmt.Sprintf("%s %s %.1f\n", set, name, used[name]))
		}
	}
	return os.WriteFile(path, []byte(strings.Join(kept, "")), 0o644)
}

// Values of TEST_BUDGETS.
const (
	failOnGrowth = "fail"  // packages over their budgets fail the run
	writeMeasure = "write" // the run's times become the budgets
)

// checkBudgets compares a run with the set's budgets and prints the packages that are over them. grown says that the run
// should fail.
func checkBudgets(w io.Writer, path, set, mode string, used map[string]float64) (grown bool, err error) {
	if mode == writeMeasure {
		return false, writeBudgets(path, set, used)
	}
	budgets, err := readBudgets(path, set)
	if err != nil {
		return false, err
	}
	over := overBudget(budgets, used)
	if len(over) == 0 {
		return false, nil
	}
	_, err = fmt.Fprintf(w, "slower than before by over a fifth:\n  %s\nMake the tests faster, or write the new figure into %s and say why in the commit.\n\n", strings.Join(over, "\n  "), budgetFile)
	return mode == failOnGrowth, err
}
