package suite

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Walk takes random steps on a store and on its model. start makes a new pair and
// returns the steps by name; the one called "" runs after every other, and
// compares the two. A walk that fails is reported with its seed, for
// -rapid.seed; -rapid.checks and -rapid.steps set how many walks there are and
// how long they take.
func Walk(t *testing.T, start func(rt *rapid.T) (steps map[string]func(*rapid.T))) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) { rt.Repeat(start(rt)) })
}

// Main runs the tests of a package in which a random test takes fewer walks or inputs
// than rapid's 100: its database is slower than the others, on which the same tests
// run. -rapid.checks still sets their number, and so does RAPID_CHECKS unless it is below
// rapid's 100: then the lower of the two does.
func Main(m *testing.M, checks string) {
	flag.Parse()
	few, _ := strconv.Atoi(checks)
	many, err := strconv.Atoi(os.Getenv("RAPID_CHECKS"))
	set := err == nil && (many >= 100 || many <= few)
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		if err := flag.Set("rapid.checks", checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
