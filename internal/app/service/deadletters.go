package service

import (
	"context"

	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

// DeadLetters shows, retries and drops the dead letters of a service. In names a dead letter.
type DeadLetters[In any] struct {
	Box     func() (outbox.Dead, error)                         // of the open service
	Find    func(ctx context.Context, in In) (outbox.ID, error) // returns Missing or the event that is named
	Missing error                                               // the event was not set aside
}

// Event reads the event that an input names.
func (d DeadLetters[In]) Event(ctx context.Context, in In) (e outbox.DeadEvent, err error) {
	box, id, err := d.find(ctx, in)
	if err != nil {
		return e, err
	}
	found, err := box.ListDead(ctx, outbox.ID{Owner: id.Owner, Stream: id.Stream, Seq: id.Seq - 1}, 1)
	switch {
	case err != nil:
		return e, err
	case len(found) == 0 || found[0].ID() != id:
		return e, d.Missing
	}
	return found[0], nil
}

func (d DeadLetters[In]) find(ctx context.Context, in In) (box outbox.Dead, id outbox.ID, err error) {
	if box, err = d.Box(); err == nil {
		id, err = d.Find(ctx, in)
	}
	return box, id, err
}

// DeadChanged counts the events that were changed.
type DeadChanged struct {
	Events int `json:"events" least:"0"`
	done   string
}

// Notice implements operate.Changed.
func (c DeadChanged) Notice() string {
	if c.done == "" {
		return ""
	}
	return Count(int64(c.Events), "event") + " " + c.done
}

// DeadChange is outbox.Dead.RetryDead or outbox.Dead.DropDead.
type DeadChange func(box outbox.Dead, ctx context.Context, id outbox.ID) (bool, error)

// One returns an operation on a single event. done ends the notice, such as "deleted".
func (d DeadLetters[In]) One(done string, do DeadChange) func(context.Context, In) (DeadChanged, error) {
	return func(ctx context.Context, in In) (DeadChanged, error) {
		box, id, err := d.find(ctx, in)
		if err != nil {
			return DeadChanged{}, err
		}
		found, err := do(box, ctx, id)
		if err == nil && !found {
			err = d.Missing
		}
		return DeadChanged{1, done}, err
	}
}

// All returns an operation on all events. After an error, the result counts the events changed so far.
func (d DeadLetters[In]) All(done string, do DeadChange) func(context.Context, operate.None, operate.Progress) (DeadChanged, error) {
	return func(ctx context.Context, _ operate.None, progress operate.Progress) (DeadChanged, error) {
		box, err := d.Box()
		if err != nil {
			return DeadChanged{}, err
		}
		changed := DeadChanged{done: done}
		err = outbox.EachDead(ctx, box, func(e *outbox.DeadEvent) error {
			found, err := do(box, ctx, e.ID())
			if found {
				changed.Events++
				progress.Report(int64(changed.Events), 0)
			}
			return err
		})
		return changed, err
	}
}
