//test:unraced its goroutines share nothing

package main

import (
	"os"
	"path/filepath"
	"slices"
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
	all := []took{{"a", "TestGood", 1.5, false}, {"a", "TestBad", 0.25, false}, {"a", "", 2, false}, {"b", "", 0.01, true}}
	if !slices.Equal(times, all) {
		t.Errorf("times %v, want %v", times, all)
	}
}

// TestSummary checks the summary's order.
func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "times")
	t.Setenv("TEST_TIMES", path)
	for _, times := range [][]took{{{"a", "TestOne", 1.5, false}, {"a", "", 2, false}}, {{"b", "TestTwo", 3, false}, {"b", "", 4, false}, {"c", "", 0, true}}} {
		if err := appendTimes(times); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := summary(&out, path); err != nil {
		t.Fatal(err)
	}
	want := "\n2 packages took 6 s, some at the same time; 1 did not change and were not run again\n" +
		"    4.0 s  b\n    2.0 s  a\n    0.0 s  all others\n\nthe slowest tests\n    3.0 s  b TestTwo\n    1.5 s  a TestOne\n\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
