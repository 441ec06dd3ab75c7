package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var createsFunction = regexp.MustCompile(`CREATE (?:OR REPLACE )?FUNCTION (?:\w+\.)?(\w+)\(`)

// TestCallsNameTheirArguments checks that statements pass arguments to migration functions by name, and that a service
// test compares the names with the catalog.
func TestCallsNameTheirArguments(t *testing.T) {
	t.Parallel()
	backends, err := filepath.Glob(filepath.Join("..", "..", "internal", "*", "postgres", "migrations"))
	if err != nil {
		t.Fatal(err)
	}
	services := 0
	for _, migrations := range backends {
		functions := functionsOf(t, migrations)
		if len(functions) == 0 {
			continue
		}
		services++
		folder := filepath.Dir(migrations)
		calls := 0
		found := statementsOf(t, strings.TrimPrefix(folder, filepath.Join("..", "..")))
		for _, s := range found {
			n, positional := callsOf(functions, s.text())
			calls += n
			for _, call := range positional {
				t.Errorf("%s: %s has arguments without names: %s", s.at, s.name, call)
			}
		}
		if calls == 0 {
			t.Errorf("%s: no call of %d functions found", folder, len(functions))
		}
		test, err := os.ReadFile(filepath.Join(folder, "calls_test.go"))
		if err != nil || !strings.Contains(string(test), "opened.WantNamedCalls(") {
			t.Errorf("%s/calls_test.go has no opened.WantNamedCalls (%v)", folder, err)
		}
	}
	if services < 4 {
		t.Errorf("only %d services have functions", services)
	}
}

func functionsOf(t *testing.T, migrations string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(migrations, "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range createsFunction.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	return names
}

// callsOf counts a statement's calls to the functions, and returns the calls with positional arguments.
func callsOf(functions []string, sql string) (n int, positional []string) {
	calls := regexp.MustCompile(`\b(?:` + strings.Join(functions, "|") + `)\(([^()]*)\)?`)
	for _, found := range calls.FindAllStringSubmatch(sql, -1) {
		n++
		for arg := range strings.SplitSeq(found[1], ",") {
			if arg != "" && arg != "..." && !strings.Contains(arg, " => ") {
				positional = append(positional, found[0])
				break
			}
		}
	}
	return n, positional
}

func TestCallsNameTheirArgumentsBite(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][2]int{
		`SELECT f_v1(...)`: {1, 0},
		`SELECT g(a => $1::uuid, b => $2::text), f_v1(), h(1)`:     {2, 0},
		`SELECT f_v1($1::uuid, b => $2::text)`:                     {1, 1},
		`SELECT true AND (f_v1(a => $1)).x, g($1::timestamptz(3))`: {2, 1},
	} {
		if n, positional := callsOf([]string{"f_v1", "g"}, sql); n != want[0] || len(positional) != want[1] {
			t.Errorf("%s: %d calls, with positions: %v", sql, n, positional)
		}
	}
}
