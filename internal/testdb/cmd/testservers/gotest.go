package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
)

// event is a line of `go test -json`; see `go doc cmd/test2json`.
type event struct {
	Action  string  // run, pass, fail, skip, output, build-output, …
	Package string  // "" for the output of a build
	Test    string  // "" for the package itself
	Output  string  // with its line end
	Elapsed float64 // seconds
}

// goTest runs `go test -json` with arguments, and prints what `go test` without -json prints: a line for each package,
// and the output of failed tests. It appends the times to the file TEST_TIMES, for the summary at the end.
func goTest(args []string) (code int, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // from a terminal, go test gets it too, and ends
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	times, reading := printTests(os.Stdout, out)
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = max(exit.ExitCode(), 1), nil // -1 if ended by a signal
	}
	if err = errors.Join(err, reading); err != nil {
		return 0, err
	}
	return code, appendTimes(times)
}

// took is how long a package or a test took.
type took struct {
	Package string
	Test    string  // "" for the whole package
	Seconds float64 // until its last test ended, without compiling
	Cached  bool    // the package did not run, because nothing changed
}

// printTests reads events and prints what a person needs. It returns the times of packages and of top-level tests.
func printTests(w io.Writer, r io.Reader) (times []took, err error) {
	held := map[string]map[string][]string{} // output of tests that have not ended: package, test, lines
	cached := map[string]bool{}
	print := func(lines ...string) {
		for _, l := range lines {
			if !strings.HasPrefix(l, "=== ") {
				_, writing := io.WriteString(w, l)
				err = errors.Join(err, writing)
			}
		}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" { // not from a test, such as a message of the go command
			print(lines.Text() + "\n")
			continue
		}
		tests := held[e.Package]
		switch {
		case e.Action == "build-output":
			print(e.Output)
		case e.Action == "output" && e.Test != "":
			if tests == nil {
				tests = map[string][]string{}
				held[e.Package] = tests
			}
			tests[e.Test] = append(tests[e.Test], e.Output)
		case e.Action == "output":
			cached[e.Package] = cached[e.Package] || strings.HasSuffix(e.Output, "(cached)\n")
			if e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "? ") && !strings.HasPrefix(e.Output, "testing: warning: no tests to run") {
				print(e.Output)
			}
		case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
			if e.Action == "fail" && e.Test != "" {
				print(tests[e.Test]...)
			}
			if e.Test == "" && e.Action == "fail" { // of tests that did not end
				for _, name := range slices.Sorted(maps.Keys(tests)) {
					print(tests[name]...)
				}
			}
			delete(tests, e.Test)
			if !strings.Contains(e.Test, "/") {
				times = append(times, took{e.Package, e.Test, e.Elapsed, cached[e.Package]})
			}
		}
	}
	return times, errors.Join(err, lines.Err())
}

// appendTimes appends to the file TEST_TIMES, if it is set, in one write: several runs share the file.
func appendTimes(times []took) error {
	path := os.Getenv("TEST_TIMES")
	if path == "" {
		return nil
	}
	var text strings.Builder
	for _, t := range times {
		line, err := json.Marshal(t)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text.String())
	return errors.Join(err, f.Close())
}

// Lengths of the summary.
const (
	slowPackages = 12
	slowTests    = 10
)

// summary prints the slowest packages and tests.
func summary(w io.Writer, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the command ran no tests
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var packages, tests []took
	cached := 0
	for lines := json.NewDecoder(f); ; {
		var t took
		if err := lines.Decode(&t); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case t.Test != "":
			tests = append(tests, t)
		case t.Cached:
			cached++
		default:
			packages = append(packages, t)
		}
	}
	longest := func(a, b took) int { return int(1000 * (b.Seconds - a.Seconds)) }
	slices.SortStableFunc(packages, longest)
	slices.SortStableFunc(tests, longest)
	var total, rest float64
	for i, p := range packages {
		total += p.Seconds
		if i >= slowPackages {
			rest += p.Seconds
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n%d packages took %.0f s, some at the same time; %d did not change and were not run again\n", len(packages), total, cached)
	for _, p := range packages[:min(slowPackages, len(packages))] {
		fmt.Fprintf(&text, "%7.1f s  %s\n", p.Seconds, p.Package)
	}
	fmt.Fprintf(&text, "%7.1f s  all others\n\nthe slowest tests\n", rest)
	for _, t := range tests[:min(slowTests, len(tests))] {
		fmt.Fprintf(&text, "%7.1f s  %s %s\n", t.Seconds, t.Package, t.Test)
	}
	_, err = io.WriteString(w, text.String()+"\n")
	return err
}
