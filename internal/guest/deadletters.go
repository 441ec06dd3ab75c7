package guest

import (
	"context"

	"holdfast/internal/fault"
	"holdfast/internal/outbox"
)

// ErrNoEvent is returned for an event that was not set aside.
var ErrNoEvent = fault.New(fault.NotFound, "no such set-aside event")

// RetryDead queues a set-aside event again, or all of them if its ID is "", and returns
// their number.
func RetryDead(ctx context.Context, box outbox.Retaining, event string) (int, error) {
	return eachDead(ctx, box, event, box.RetryDead)
}

// DropDead deletes a set-aside event, or all of them if its ID is "", and returns their
// number.
func DropDead(ctx context.Context, box outbox.Retaining, event string) (int, error) {
	return eachDead(ctx, box, event, box.DropDead)
}

func eachDead(ctx context.Context, box outbox.Retaining, event string, do func(context.Context, outbox.ID) (bool, error)) (n int, err error) {
	one := func(id outbox.ID) error {
		found, err := do(ctx, id)
		if found {
			n++
		}
		return err
	}
	if event == "" {
		err := outbox.EachDead(ctx, box, func(d *outbox.DeadEvent) error { return one(d.ID()) })
		return n, err
	}
	id, found, err := box.FindDead(ctx, event)
	if err == nil && found {
		err = one(id)
	}
	if err == nil && n == 0 {
		err = ErrNoEvent
	}
	return n, err
}
