package pgdb

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// patience bounds steps that follow one another, each by a time of its own, with one
// context and one timer.
type patience struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// newPatience returns a context that ends with ctx, after end, and when a step takes
// longer than it may: the first one longer than d.
func newPatience(ctx context.Context, d time.Duration) *patience {
	p := &patience{}
	p.Context, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(d, func() { p.cancel(context.DeadlineExceeded) })
	return p
}

// renew begins the next step. It must not run beside another call.
func (p *patience) renew(d time.Duration) { p.timer.Reset(d) }

// pause ends a step whose next one nobody waits for yet.
func (p *patience) pause() { p.timer.Stop() }

// end frees what the context holds.
func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}

// explain adds to the error of a step that it took too long: the driver knows only
// that its context ended.
func (p *patience) explain(err error) error {
	if err != nil && errors.Is(context.Cause(p.Context), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}
