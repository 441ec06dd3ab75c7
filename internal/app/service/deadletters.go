package service

import (
	"context"
	"time"

	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

// DeadLetters shows, retries and drops a service's dead letters. In identifies a dead letter.
type DeadLetters[In any] struct {
	// Box returns the box with the dead letters, or why it cannot be used now.
	Box func(context.Context, operate.None) (outbox.Dead, error)
	// Find returns the ID of the dead letter that an input names.
	Find    func(ctx context.Context, in In) (outbox.ID, error)
	Missing error // error for an event that is not a dead letter

	Event string // noun for an event in texts, e.g. "audit event"
	Key   string // ordering key of events, e.g. "install"
	Delay string // when a running server publishes requeued events, e.g. "at once"
}

// DeadLetterOperations returns the operations that list, show, retry and drop dead letters, one or all. list and show
// are the service's own, because their rows differ.
func DeadLetterOperations[In, Page, Row, Detail any](d DeadLetters[In], list func(context.Context, Page) ([]Row, error), show func(context.Context, In) (Detail, error)) []operate.Operation {
	const (
		noun    = "dead-letters"
		dropped = "They are never published."
	)
	retried := "A running server does it " + d.Delay + ". Republished events come after newer events of their\n" + d.Key + "s."
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: noun, Rows: "events", Doc: "List set-aside " + d.Event + "s", Title: "Dead letters", Empty: "No event was set aside.",
			Group: "Manage " + d.Event + "s that were set aside because they could not be published",
			Text:  "These " + d.Event + "s that could not be published were set aside. A republished event comes after newer events of its " + d.Key + ".",
		}, list),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: noun + "/show", Doc: "Show a set-aside " + d.Event, Title: "Dead letter"}, show),
		operate.NewChange(operate.About{
			Path: noun + "/retry", Doc: "Publish a set-aside " + d.Event + " again", More: retried,
		}, d.one("queued again", outbox.Dead.RetryDead)),
		operate.NewChange(operate.About{
			Path: noun + "/drop", Doc: "Delete a set-aside " + d.Event, More: dropped, Danger: true,
			Ask: "The event is never published. This cannot be undone.",
		}, d.one("deleted", outbox.Dead.DropDead)),
		operate.NewJob(operate.About{
			Path: noun + "/retry-all", Doc: "Publish all set-aside " + d.Event + "s again", More: retried,
		}, d.all("queued again", outbox.Dead.RetryDead)),
		operate.NewJob(operate.About{
			Path: noun + "/drop-all", Doc: "Delete all set-aside " + d.Event + "s", More: dropped, Danger: true, Confirm: "drop all",
			Title: "Drop all", Text: "The events are never published. This cannot be undone.",
		}, d.all("deleted", outbox.Dead.DropDead)),
	}
}

// Read returns the dead letter that an input names, or Missing.
func (d DeadLetters[In]) Read(ctx context.Context, in In) (e outbox.DeadEvent, err error) {
	box, id, err := d.find(ctx, in)
	if err != nil {
		return e, err
	}
	events, err := box.ListDead(ctx, outbox.ID{Owner: id.Owner, Stream: id.Stream, Seq: id.Seq - 1}, 1)
	switch {
	case err != nil:
		return e, err
	case len(events) == 0 || events[0].ID() != id:
		return e, d.Missing
	}
	return events[0], nil
}

func (d DeadLetters[In]) find(ctx context.Context, in In) (box outbox.Dead, id outbox.ID, err error) {
	if box, err = d.Box(ctx, operate.None{}); err == nil {
		id, err = d.Find(ctx, in)
	}
	return box, id, err
}

// DeadChanged is the result of retrying or dropping dead letters.
type DeadChanged struct {
	Events int `json:"events" least:"0"`
	done   string
}

func (c DeadChanged) Notice() string {
	if c.done == "" {
		return ""
	}
	return Count(int64(c.Events), "event") + " " + c.done
}

type deadChange func(box outbox.Dead, ctx context.Context, id outbox.ID) (bool, error)

// one changes a single dead letter.
func (d DeadLetters[In]) one(done string, do deadChange) func(context.Context, In) (DeadChanged, error) {
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

// The result counts the events changed so far, even after an error.
func (d DeadLetters[In]) all(done string, do deadChange) func(context.Context, operate.None, operate.Progress) (DeadChanged, error) {
	return func(ctx context.Context, _ operate.None, progress operate.Progress) (DeadChanged, error) {
		box, err := d.Box(ctx, operate.None{})
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

// DeadCell shows the number of dead letters on the overview.
func DeadCell(n int) Cell {
	c := Cell{Text: Count(int64(n), "event"), To: "dead-letters"}
	if n == outbox.MaxDead {
		c.Text += " or more"
	}
	if n > 0 {
		c.State = Warning
	}
	return c
}

// mostWaiting limits WaitingCell's count, because it reads the events.
const mostWaiting = 512

// WaitingCell shows the number of unpublished events on the overview.
func WaitingCell(ctx context.Context, box outbox.Box, now time.Time) (c Cell, err error) {
	q := outbox.Query{Limit: mostWaiting, Now: now.Add(100 * 365 * 24 * time.Hour)} // includes events that wait for a retry
	for p := range outbox.Partitions {
		q.Parts |= outbox.PartsOf(p)
	}
	waiting, more, err := box.Next(ctx, q)
	if err != nil {
		return c, err
	}
	c = TextCell(Count(int64(len(waiting)), "event"))
	if more != 0 {
		c.Text += " or more"
	}
	return c, nil
}
