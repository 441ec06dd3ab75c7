package pgdb

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPulse checks that a server counts as hung if no statement ended within the limit and a probe got no answer.
func TestPulse(t *testing.T) {
	t.Parallel()
	unanswered := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, tc := range map[string]struct {
		ask   func(context.Context) error
		beats bool
		want  bool
	}{
		"hung":                 {ask: unanswered, want: true},
		"slow to connect to":   {ask: unanswered, beats: true},
		"locked":               {ask: func(context.Context) error { return nil }},
		"without a connection": {ask: func(context.Context) error { return errors.New("too many connections") }},
	} {
		synctest.Test(t, func(t *testing.T) {
			life, end := context.WithCancel(t.Context())
			defer end()
			var continues atomic.Bool
			p := &pulse{life: life, limit: 3 * time.Second, ask: func(ctx context.Context) error {
				if continues.Load() {
					return nil
				}
				return tc.ask(ctx)
			}}
			p.beat()
			for step := range 4 {
				if got := p.hung(time.Now()); got != (tc.want && step == 3) {
					t.Errorf("%s: %t after %d s", name, got, step)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if tc.beats {
					p.beat()
				}
			}
			continues.Store(true)
			p.beat()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			p.hung(time.Now())
			synctest.Wait()
			if p.hung(time.Now()) {
				t.Errorf("%s: hung after it has answered", name)
			}
		})
	}
}
