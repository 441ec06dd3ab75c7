// Package hotstatetest tests the contract of backend.Hot.
//
// Callers must not rely on behavior outside this suite. Cases share a store but use new sessions and keys, except
// cases about global data.
package hotstatetest

import (
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
)

type Harness struct {
	Hot backend.Hot

	// Pass lets time pass for expiry, which may be earlier than by the store's clock.
	Pass func(t suite.TB, d time.Duration)

	// Wait advances the store's clock by milliseconds.
	Wait func(d time.Duration)
}

// Run runs the suite.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	suite.Suite[*client]{
		Groups: []suite.Group[*client]{
			{Name: "Sessions", Cases: sessionChecks(), Own: true},
			{Name: "Mirror", Cases: mirrorChecks(), Own: true},
			{Name: "Answers", Cases: answerChecks(), Own: true},
			{Name: "Cache", Cases: cacheChecks(), Own: true},
			{Name: "Limits", Cases: limitChecks(), Own: true},
			{Name: "Bots", Cases: botChecks(), Own: true},
			{Name: "Erase", Cases: eraseChecks(), Own: true},
			{Name: "Suspensions", Cases: suspensionChecks(), Own: true},
			{Name: "Model", Cases: modelChecks(), Own: true},
		},
		New: func(t *testing.T, _ suite.Group[*client]) *client { return newClient(t, open(t)) },
	}.Run(t)
}

type check = suite.Case[*client]

type client struct {
	Harness
	t  suite.TB
	id guest.ID
}

func newClient(t suite.TB, h Harness) *client {
	return &client{Harness: h, t: t, id: guest.NewID(guest.SessionPrefix, clock.System())}
}

func key() string { return "key:" + ident.New() }

func must[T any](c *client, v T, err error) T {
	c.t.Helper()
	suite.Must(c.t, "Hot", err)
	return v
}

func (c *client) ok(err error) {
	c.t.Helper()
	suite.Must(c.t, "Hot", err)
}

func (c *client) concurrently(n int, fn func(i int)) {
	done := make(chan struct{})
	for i := range n {
		go func() { fn(i); done <- struct{}{} }()
	}
	for range n {
		<-done
	}
}
