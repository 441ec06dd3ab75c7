package main

import (
	"bufio"
	"cmp"
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
	"time"

	"holdfast/internal/testdb"
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
	this, err := os.Executable()
	if err != nil {
		return 0, err
	}
	limit := fmt.Sprintf("-timeout=%v", testdb.Patient(limitOfPackage(os.Getenv("TEST_CITUS_URL"))))
	cmd := exec.Command("go", append([]string{"test", "-json", "-exec", this + " exec", limit}, args...)...)
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
	for i := range times {
		if times[i].Test == "" {
			times[i].Again = &testRun{Flags: withoutPackages(args), Env: os.Environ()}
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = max(exit.ExitCode(), 1), nil // -1 if ended by a signal
	}
	if err = errors.Join(err, reading); err != nil {
		return 0, err
	}
	return code, appendTimes(times)
}

// withoutPackages returns go test's arguments up to the first package. The value of a flag follows "=", as in -p=1.
func withoutPackages(args []string) []string {
	for i, a := range args {
		if !strings.HasPrefix(a, "-") {
			return args[:i]
		}
	}
	return args
}

// Limits that end a hanging package's tests, on an idle machine. Several packages run at once. With a Citus
// cluster, a package with a store runs its suite once more there, and each statement takes several messages between
// servers whose load the machine's pace does not show.
const (
	packageLimit   = 20 * time.Minute
	limitWithCitus = 3 * packageLimit
)

// limitOfPackage returns the limit; citus is the cluster's URL, or "".
func limitOfPackage(citus string) time.Duration {
	if citus != "" {
		return limitWithCitus
	}
	return packageLimit
}

// took is how long a package or a test took.
type took struct {
	Package string
	Test    string   // "" for the whole package
	Seconds float64  // until its last test ended, without compiling
	CPU     float64  // processor seconds of a package, in a line of its own
	Again   *testRun // how to test the package again; nil in other lines
}

// testRun is a run of go test.
type testRun struct {
	Flags []string // without the packages
	Env   []string
}

// printTests reads events and prints the lines that a person needs. It returns the times of packages and of top-level tests.
func printTests(w io.Writer, r io.Reader) (times []took, err error) {
	p := printer{to: w, held: map[string]map[string][]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" { // not from a test, such as a message of the go command
			p.write(lines.Text() + "\n")
			continue
		}
		switch e.Action {
		case "build-output":
			p.write(e.Output)
		case "output":
			p.output(&e)
		case "pass", "fail", "skip":
			p.end(&e)
		}
	}
	return p.times, errors.Join(p.err, lines.Err())
}

// printer holds back the output of tests that have not ended.
type printer struct {
	to    io.Writer
	held  map[string]map[string][]string // package, test, lines
	times []took
	err   error // of writing
}

// write prints lines, but not those that say that a test begins or continues.
func (p *printer) write(lines ...string) {
	for _, l := range lines {
		if !strings.HasPrefix(l, "=== ") {
			_, err := io.WriteString(p.to, l)
			p.err = errors.Join(p.err, err)
		}
	}
}

// output holds the output of a test back, and prints that of a package except for what go test hides without -v.
func (p *printer) output(e *event) {
	if e.Test != "" {
		if p.held[e.Package] == nil {
			p.held[e.Package] = map[string][]string{}
		}
		p.held[e.Package][e.Test] = append(p.held[e.Package][e.Test], e.Output)
		return
	}
	if e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "? ") && !strings.HasPrefix(e.Output, "testing: warning: no tests to run") {
		p.write(e.Output)
	}
}

// end prints the output of a failed test, and at the end of a failed package that of tests that did not end.
func (p *printer) end(e *event) {
	tests := p.held[e.Package]
	switch {
	case e.Action == "fail" && e.Test != "":
		p.write(tests[e.Test]...)
	case e.Action == "fail":
		for _, name := range slices.Sorted(maps.Keys(tests)) {
			p.write(tests[name]...)
		}
	}
	delete(tests, e.Test)
	if !strings.Contains(e.Test, "/") {
		p.times = append(p.times, took{Package: e.Package, Test: e.Test, Seconds: e.Elapsed})
	}
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

// readTimes reads the file that appendTimes writes. It returns no times if the file does not exist.
func readTimes(path string) (times []took, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the command ran no tests
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(f); ; {
		var t took
		if err := lines.Decode(&t); errors.Is(err, io.EOF) {
			return times, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		times = append(times, t)
	}
}

// processorTimes returns the processor seconds of each package.
func processorTimes(times []took) (used map[string]float64) {
	used = map[string]float64{}
	for _, t := range times {
		if t.CPU > 0 {
			used[t.Package] += t.CPU // twice if some of its tests run with the race detector
		}
	}
	return used
}

// summary prints the slowest packages and tests.
func summary(w io.Writer, times []took) error {
	used := processorTimes(times)
	busy := 0.0
	var packages, tests []took
	for _, t := range times {
		switch {
		case t.CPU > 0:
			busy += t.CPU
		case t.Test != "":
			tests = append(tests, t)
		default:
			packages = append(packages, t)
		}
	}
	longest := func(a, b took) int { return cmp.Compare(b.Seconds, a.Seconds) }
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
	fmt.Fprintf(&text, "\n%d packages took %.0f s, some at the same time, and %.0f s of processor time\n", len(packages), total, busy)
	for _, p := range packages[:min(slowPackages, len(packages))] {
		fmt.Fprintf(&text, "%7.1f s %7.1f s  %s\n", p.Seconds, used[p.Package], p.Package)
	}
	fmt.Fprintf(&text, "%7.1f s            all others\n\nthe slowest tests\n", rest)
	for _, t := range tests[:min(slowTests, len(tests))] {
		fmt.Fprintf(&text, "%7.1f s  %s %s\n", t.Seconds, t.Package, t.Test)
	}
	_, err := io.WriteString(w, text.String()+"\n")
	return err
}
