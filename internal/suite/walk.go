package suite

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Walk takes random steps on a store and its model. start returns a new pair's steps by name; step "" runs after
// every other step and compares the two. A failure reports its seed for -rapid.seed; -rapid.checks and -rapid.steps
// set the number and length of walks.
func Walk(t *testing.T, start func(rt *rapid.T) (steps map[string]func(*rapid.T))) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) { rt.Repeat(start(rt)) })
}

// Main runs a package's tests with fewer walks or inputs than rapid's 100, because its database is slow.
// -rapid.checks takes precedence, and so does RAPID_CHECKS from 100 up; below 100, the lower number applies.
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
