package blobs

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/errcode"
)

// errStalled marks a node that made no progress for Options.Stall or ReadStall.
var errStalled = errcode.New(errcode.Unavailable, "storage node does not respond")

// within returns errStalled if an operation takes too long. The operation then continues in the background, because a
// system call on a hanging disk cannot be interrupted.
func within[T any](ctx context.Context, c *Cluster, stall time.Duration, run func(context.Context) (T, error)) (value T, err error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, 1)
	c.work.Go(func() {
		value, err := run(ctx)
		results <- result{value, err}
	})
	timer := time.NewTimer(stall)
	defer timer.Stop()
	select {
	case r := <-results:
		return r.value, r.err
	case <-timer.C:
		return value, errStalled
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// blame records the result of a node operation. The node is not at fault if the caller gave up, the body is missing,
// or the request is wrong.
func (c *Cluster) blame(ctx context.Context, m *member, err error) {
	if err != nil && (ctx.Err() != nil || IsSourceError(err) || errcode.Is(err, errcode.NotFound) || errcode.Is(err, errcode.Invalid)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.stalled = errors.Is(err, errStalled)
	switch {
	case err == nil:
		m.err, m.avoidUntil = nil, time.Time{}
	case errors.Is(err, ErrNotEnoughSpace):
		m.err, m.hasSpace, m.space.Free = err, true, 0 // no space until the next Refresh
	default:
		m.err, m.avoidUntil = err, c.Clock().Add(c.Avoid)
	}
}

// isAvoided reports whether a node failed recently. Setting the clock back does not prolong this. The caller holds
// c.mu.
func (c *Cluster) isAvoided(m *member) bool {
	left := m.avoidUntil.Sub(c.Clock())
	return left > 0 && left <= c.Avoid
}

// report remembers the copy as bad and passes the finding on.
func (c *Cluster) report(f Finding) {
	if f.Problem != Unframed {
		c.bad.Add(badCopy{f.Node, f.Path}, struct{}{})
	}
	c.tell(f)
}

// tell passes a finding on.
func (c *Cluster) tell(f Finding) {
	if c.Report != nil {
		c.Report(f)
	}
}
