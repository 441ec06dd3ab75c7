package suite

import (
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
