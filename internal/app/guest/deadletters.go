package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

func (s *Guest) deadLetterOperations() []operate.Operation {
	const (
		retried = "A running server does it at once. Events that are published again come after newer events of their\nsessions."
		dropped = "They are never published."
	)
	return []operate.Operation{
		operate.NewList(operate.About{
			Path: "dead-letters", Rows: "events", Doc: "List set-aside events", Title: "Dead letters", Empty: "No event was set aside.",
			Group: "Manage events that were set aside because they could not be published",
			Text:  "These events could not be published and were set aside. An event that is queued again comes after newer events of its session.",
		}, s.listDead),
		operate.NewRead(operate.About{Path: "dead-letters/show", Doc: "Show a set-aside event", Title: "Dead letter"}, s.showDead),
		operate.NewChange(operate.About{Path: "dead-letters/retry", Doc: "Publish a set-aside event again", More: retried, Former: []string{"retry --event"}},
			s.onDead("queued again", guest.RetryDead)),
		operate.NewChange(operate.About{
			Path: "dead-letters/drop", Doc: "Delete a set-aside event", More: dropped, Former: []string{"drop --event"}, Danger: true,
			Ask: "The event is never published. This cannot be undone.",
		}, s.onDead("deleted", guest.DropDead)),
		operate.NewJob(operate.About{Path: "dead-letters/retry-all", Doc: "Publish all set-aside events again", More: retried, Former: []string{"retry --all"}},
			s.onAllDead("queued again", guest.RetryDead)),
		operate.NewJob(operate.About{
			Path: "dead-letters/drop-all", Doc: "Delete all set-aside events", More: dropped, Former: []string{"drop --all"}, Danger: true, Confirm: "drop all",
			Title: "Drop all", Text: "The events are never published. This cannot be undone.",
		}, s.onAllDead("deleted", guest.DropDead)),
	}
}

// deadOutput is an event that was set aside.
type deadOutput struct {
	eventOutput
	SetAside time.Time `json:"setAside" title:"Set aside"`
	Attempts int       `json:"attempts" title:"Attempts" least:"1"`
	Error    string    `json:"error" title:"Error" doc:"of the last attempt" example:"the broker did not answer"`
	Seq      int64     `json:"-" cursor:""`
}

func outputOfDead(e *outbox.DeadEvent) deadOutput {
	return deadOutput{outputOfEvent(&e.Event), e.DiedAt, e.Attempts, e.Reason, e.Seq}
}

func (s *Guest) listDead(ctx context.Context, in operate.Page[int64]) (all []deadOutput, err error) {
	st, err := s.store()
	if err != nil {
		return nil, err
	}
	found, err := st.Outbox().ListDead(ctx, outbox.ID{Seq: in.After}, in.Limit)
	for i := range found {
		all = append(all, outputOfDead(&found[i]))
	}
	return all, err
}

// deadDetail is a set-aside event with what lists leave out.
type deadDetail struct {
	Headers json.RawMessage `json:"headers" text:"Headers"`
	deadOutput
}

func (s *Guest) showDead(ctx context.Context, in eventInput) (d deadDetail, err error) {
	st, err := s.store()
	if err != nil {
		return d, err
	}
	id, found, err := st.Outbox().FindDead(ctx, in.Event)
	if err != nil {
		return d, err
	}
	if !found {
		return d, errNoEvent
	}
	events, err := st.Outbox().ListDead(ctx, outbox.ID{Owner: id.Owner, Stream: id.Stream, Seq: id.Seq - 1}, 1)
	if err == nil && (len(events) == 0 || events[0].ID() != id) {
		err = errNoEvent
	}
	if err != nil {
		return d, err
	}
	return deadDetail{events[0].Headers, outputOfDead(&events[0])}, nil
}

// errNoEvent says where the IDs are.
var errNoEvent = fmt.Errorf("%w: holdfast guest dead-letters list lists them", guest.ErrNoEvent)

// deadChanged counts the events that were changed.
type deadChanged struct {
	Events int `json:"events" least:"0"`
	done   string
}

// Notice implements operate.Changed.
func (c deadChanged) Notice() string {
	if c.done == "" {
		return ""
	}
	return service.Count(int64(c.Events), "event") + " " + c.done
}

type doDead func(ctx context.Context, box outbox.Retaining, event string) (int, error)

// onDead returns a change of one event.
func (s *Guest) onDead(done string, do doDead) func(context.Context, eventInput) (deadChanged, error) {
	return func(ctx context.Context, in eventInput) (deadChanged, error) {
		st, err := s.store()
		if err != nil {
			return deadChanged{}, err
		}
		n, err := do(ctx, st.Outbox(), in.Event)
		if errors.Is(err, guest.ErrNoEvent) {
			err = errNoEvent
		}
		return deadChanged{n, done}, err
	}
}

// onAllDead returns a change of all events.
func (s *Guest) onAllDead(done string, do doDead) func(context.Context, operate.None, operate.Progress) (deadChanged, error) {
	return func(ctx context.Context, _ operate.None, _ operate.Progress) (deadChanged, error) {
		st, err := s.store()
		if err != nil {
			return deadChanged{}, err
		}
		n, err := do(ctx, st.Outbox(), "")
		return deadChanged{n, done}, err
	}
}
