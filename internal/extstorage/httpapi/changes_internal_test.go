package httpapi

import "testing"

// Those that wait for changes have no place at the gate, but there is a bound.
func TestPollsAreBounded(t *testing.T) {
	t.Parallel()
	var p polls
	for range maxPolls {
		if !p.enter() {
			t.Fatal("there is no place")
		}
	}
	for range 3 {
		if p.enter() {
			t.Fatal("there are too many")
		}
		p.leave()
		if !p.enter() {
			t.Fatal("a place was not given back")
		}
	}
}
