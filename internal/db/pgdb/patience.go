package pgdb

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// patience is a context whose deadline moves: it limits each step of a statement, not their sum.
type patience struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// newPatience limits the first step to d.
func newPatience(ctx context.Context, d time.Duration) *patience {
	p := &patience{}
	p.Context, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(d, func() { p.cancel(context.DeadlineExceeded) })
	return p
}

// renew is not safe for concurrent use.
func (p *patience) renew(d time.Duration) { p.timer.Reset(d) }

// pause means no limit until renew.
func (p *patience) pause() { p.timer.Stop() }

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}

// explain adds to err that the step timed out or that its node does not answer. The driver knows only that the
// context was done.
func (p *patience) explain(err error) error {
	cause := context.Cause(p.Context)
	if err != nil && (errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, errSilent)) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
