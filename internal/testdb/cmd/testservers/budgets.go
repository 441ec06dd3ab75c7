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
	"path/filepath"
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

// overspent is a package over its budget.
type overspent struct {
	name string
	text string // the figures
}

// overBudget returns each package that used over a fifth more than its budget at the run's pace, or that
// needs a budget. A run of fewer packages, such as that of one service, is not compared.
func overBudget(budgets, used map[string]float64) (over []overspent) {
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
			over = append(over, overspent{name, fmt.Sprintf("%s used %.1f s of processor time and has no budget in %s", name, used[name], budgetFile)})
		case allowed > 0 && used[name] > growth*allowed && used[name]-allowed > negligible*pace:
			over = append(over, overspent{name, fmt.Sprintf("%s used %.1f s of processor time; its budget is %.1f s, on this machine now %.1f s", name, used[name], budgets[name], allowed)})
		}
	}
	return over
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

// budgets are a set's budgets.
type budgets struct {
	path string
	set  string // of testdb.Sets
	// again tests a package alone, and returns the processor seconds that it used.
	again func(name string) (seconds float64, err error)
}

// check compares a run with the budgets and prints the packages that are over them. grown says that the run should fail,
// for a package that uses too much again when it is tested alone: processors that share a core, or a neighbor on the
// machine, can make one package half slower.
func (b *budgets) check(w io.Writer, mode string, used map[string]float64) (grown bool, err error) {
	if mode == writeMeasure {
		return false, writeBudgets(b.path, b.set, used)
	}
	seconds, err := readBudgets(b.path, b.set)
	if err != nil {
		return false, err
	}
	over := overBudget(seconds, used)
	if len(over) == 0 {
		return false, nil
	}
	if mode == failOnGrowth {
		used = maps.Clone(used)
		for _, o := range over {
			if _, err := fmt.Fprintf(w, "%s; testing it again, alone\n", o.text); err != nil {
				return false, err
			}
			second, err := b.again(o.name)
			if err != nil {
				return false, fmt.Errorf("testing %s again: %w", o.name, err)
			}
			used[o.name] = min(used[o.name], second)
		}
		if over = overBudget(seconds, used); len(over) == 0 {
			return false, nil
		}
	}
	var lines strings.Builder
	for _, o := range over {
		fmt.Fprintf(&lines, "  %s\n", o.text)
	}
	_, err = fmt.Fprintf(w, "slower than before by over a fifth:\n%sMake the tests faster, or write the new figure into %s and say why in the commit.\n\n", lines.String(), budgetFile)
	return mode == failOnGrowth, err
}

// testAgain tests a package as each run in times did, and returns the processor seconds that its tests used.
func testAgain(name string, times []took) (seconds float64, err error) {
	dir, err := os.MkdirTemp("", "holdfast-tests-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	this, err := os.Executable()
	if err != nil {
		return 0, err
	}
	second := filepath.Join(dir, "times")
	for _, t := range times {
		if t.Package != name || t.Again == nil {
			continue
		}
		// The last value of a variable counts. The programs that the run built are gone.
		all := append(slices.Clone(t.Again.Env), "TEST_TIMES="+second, "HOLDFAST_TEST_PROGRAMS=")
		code, err := command(slices.Concat([]string{this, "test"}, t.Again.Flags, []string{name}), all)
		if err != nil {
			return 0, err
		}
		if code != 0 {
			return 0, errors.New("its tests failed")
		}
	}
	took, err := readTimes(second)
	return processorTimes(took)[name], err
}
