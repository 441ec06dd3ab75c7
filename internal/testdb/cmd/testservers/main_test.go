//test:unraced its goroutines share nothing

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "engines")
	lines := []string{
		"sqlite\tran\t/a\tTestOne",
		"sqlite\tran\t/a\tTestOne",
		"sqlite\tran\t/b\tTestOne",
		"citus\tabsent\t/a\tset TEST_CITUS_URL",
	}
	if err := os.WriteFile(log, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(&out, log); err != nil {
		t.Fatal(err)
	}
	want := "sqlite    2 tests ran\n" +
		"postgres  no test ran: none uses it\n" +
		"citus     no test ran: set TEST_CITUS_URL\n" +
		"spanner   no test ran: none uses it\n" +
		"pgbouncer no test ran: none uses it\n" +
		"redis     no test ran: none uses it\n" +
		"pubsub    no test ran: none uses it\n" +
		"nats      no test ran: none uses it\n" +
		"mariadb   no test ran: none uses it\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestExitCodeIsTheCommands(t *testing.T) {
	t.Parallel()
	code, err := command([]string{"sh", "-c", `test "$X" = y && exit 7`}, append(os.Environ(), "X=y"))
	if err != nil || code != 7 {
		t.Errorf("code %d, %v", code, err)
	}
}

// TestPrintTests checks the text made from go test -json: all output of a failed test, also if it did not end,
// and nothing else.
func TestPrintTests(t *testing.T) {
	t.Parallel()
	in := strings.Join([]string{
		`{"Action":"build-output","ImportPath":"c","Output":"c.go:1: syntax error\n"}`,
		`{"Action":"run","Package":"a","Test":"TestGood"}`,
		`{"Action":"output","Package":"a","Test":"TestGood","Output":"=== RUN   TestGood\n"}`,
		`{"Action":"output","Package":"a","Test":"TestGood","Output":"    a_test.go:1: a detail\n"}`,
		`{"Action":"output","Package":"a","Test":"TestBad/part","Output":"=== RUN   TestBad/part\n"}`,
		`{"Action":"output","Package":"a","Test":"TestBad/part","Output":"    a_test.go:2: wrong\n"}`,
		`{"Action":"pass","Package":"a","Test":"TestGood","Elapsed":1.5}`,
		`{"Action":"fail","Package":"a","Test":"TestBad/part","Elapsed":0.25}`,
		`{"Action":"output","Package":"a","Test":"TestBad","Output":"--- FAIL: TestBad (0.25s)\n"}`,
		`{"Action":"fail","Package":"a","Test":"TestBad","Elapsed":0.25}`,
		`{"Action":"output","Package":"a","Test":"TestHung","Output":"panic: test timed out\n"}`,
		`{"Action":"output","Package":"a","Output":"FAIL\ta\t2.000s\n"}`,
		`{"Action":"fail","Package":"a","Elapsed":2}`,
		`{"Action":"output","Package":"b","Output":"PASS\n"}`,
		`{"Action":"output","Package":"b","Output":"ok  \tb\t(cached)\n"}`,
		`{"Action":"pass","Package":"b","Elapsed":0.01}`,
		`go: a message`,
	}, "\n")
	var out strings.Builder
	times, err := printTests(&out, strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	want := "c.go:1: syntax error\n    a_test.go:2: wrong\n--- FAIL: TestBad (0.25s)\nFAIL\ta\t2.000s\npanic: test timed out\nok  \tb\t(cached)\ngo: a message\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	all := []took{{Package: "a", Test: "TestGood", Seconds: 1.5, CPU: 0}, {Package: "a", Test: "TestBad", Seconds: 0.25, CPU: 0}, {Package: "a", Test: "", Seconds: 2, CPU: 0}, {Package: "b", Test: "", Seconds: 0.01, CPU: 0}}
	if !reflect.DeepEqual(times, all) {
		t.Errorf("times %v, want %v", times, all)
	}
}

// TestSummary checks the summary's order.
func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "times")
	t.Setenv("TEST_TIMES", path)
	for _, times := range [][]took{{{Package: "a", Test: "TestOne", Seconds: 1.5, CPU: 0}, {Package: "a", Test: "", Seconds: 2, CPU: 0}}, {{Package: "b", Test: "TestTwo", Seconds: 3, CPU: 0}, {Package: "b", Test: "", Seconds: 4, CPU: 0}}, {{Package: "b", Test: "", Seconds: 0, CPU: 1.5}, {Package: "b", Test: "", Seconds: 0, CPU: 2}}} {
		if err := appendTimes(times); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	times, err := readTimes(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := summary(&out, times); err != nil {
		t.Fatal(err)
	}
	used := processorTimes(times)
	if !maps.Equal(used, map[string]float64{"b": 3.5}) {
		t.Errorf("processor seconds %v", used)
	}
	want := "\n2 packages took 6 s, some at the same time, and 4 s of processor time\n" +
		"    4.0 s     3.5 s  b\n    2.0 s     0.0 s  a\n    0.0 s            all others\n\nthe slowest tests\n    3.0 s  b TestTwo\n    1.5 s  a TestOne\n\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestBudgets checks that growth is found by name on a machine of any speed, and that neither a small difference nor one
// that a second measurement does not show fails the run.
func TestBudgets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "budgets")
	allowed := map[string]float64{}
	for i := range 12 {
		allowed[fmt.Sprint("p", i)] = float64(10 + i)
	}
	for _, set := range []string{"quick", "both"} {
		if grown, err := (&budgets{path: path, set: set}).check(&strings.Builder{}, writeMeasure, allowed); grown || err != nil {
			t.Fatal(grown, err)
		}
	}
	read, err := readBudgets(path, "quick")
	if err != nil || !maps.Equal(read, allowed) {
		t.Fatalf("%v, %v", read, err)
	}
	for name, c := range map[string]struct {
		change func(used map[string]float64)
		over   string // package; "" for none
	}{
		"as before":             {func(map[string]float64) {}, ""},
		"an eighth more":        {func(used map[string]float64) { used["p3"] *= 1.125 }, ""},
		"a quarter more":        {func(used map[string]float64) { used["p3"] *= 1.25 }, "p3 used"},
		"a small package":       {func(used map[string]float64) { used["new"] = 1.5 * used["p0"] / 10 }, ""},
		"without a budget":      {func(used map[string]float64) { used["new"] = 4 * used["p0"] / 10 }, "new used"},
		"a package was removed": {func(used map[string]float64) { delete(used, "p3") }, ""},
		"few packages": {func(used map[string]float64) {
			used["p3"] *= 3
			for i := 4; i < 12; i++ {
				delete(used, fmt.Sprint("p", i))
			}
		}, ""},
	} {
		for _, pace := range []float64{0.5, 1, 3} {
			used := map[string]float64{}
			for name, seconds := range allowed {
				used[name] = seconds * pace
			}
			c.change(used)
			testBudget(t, fmt.Sprintf("%s, pace %v", name, pace), path, c.over, used, func(name string) float64 { return allowed[name] * pace })
		}
	}
}

// testBudget checks a run over a budget or within it. Each package is tested again: it uses as much, or what allowed returns.
func testBudget(t *testing.T, name, path, over string, used map[string]float64, allowed func(name string) float64) {
	t.Helper()
	// Alone, the package uses as much again, or its budget.
	for _, chance := range []bool{false, true} {
		again := func(name string) (float64, error) {
			if chance {
				return allowed(name), nil
			}
			return used[name], nil
		}
		b := budgets{path: path, set: "both", again: again}
		var out strings.Builder
		grown, err := b.check(&out, failOnGrowth, used)
		if err != nil || grown != (over != "" && !chance) || !strings.Contains(out.String(), over) {
			t.Errorf("%s: %v, %v, %q", name, grown, err, out.String())
		}
		if grown, err := b.check(&out, "", used); grown || err != nil {
			t.Errorf("%s: without TEST_BUDGETS the run fails: %v", name, err)
		}
	}
}

// TestExec checks that a test's processor time is noted for its package and its exit code returned, without GOGC.
func TestExec(t *testing.T) {
	path := filepath.Join(t.TempDir(), "times")
	t.Setenv("TEST_TIMES", path)
	t.Setenv("GOGC", "400")
	code, err := execTest([]string{"sh", "-c", `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit ${GOGC:-7}`})
	if err != nil || code != 7 {
		t.Fatalf("code %d, %v", code, err)
	}
	times, err := readTimes(path)
	used := processorTimes(times)
	if err != nil || len(used) != 1 || used["holdfast/internal/testdb/cmd/testservers"] <= 0 {
		t.Errorf("%v, %v", used, err)
	}
}
