package guest

import (
	"context"
	"encoding/json"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

func (s *Guest) deadLetterOperations() []operate.Operation {
	const (
		retried = "A running server does it at once. Events that are published again come after newer events of their\nsessions."
		dropped = "They are never published."
	)
	letters := s.deadLetters()
	return []operate.Operation{
		operate.NewList(operate.About{
			Path: "dead-letters", Rows: "events", Doc: "List set-aside events", Title: "Dead letters", Empty: "No event was set aside.",
			Group: "Manage events that were set aside because they could not be published",
			Text:  "These events could not be published and were set aside. An event that is queued again comes after newer events of its session.",
		}, s.listDead),
		operate.NewRead(operate.About{Path: "dead-letters/show", Doc: "Show a set-aside event", Title: "Dead letter"}, s.showDead),
		operate.NewChange(operate.About{Path: "dead-letters/retry", Doc: "Publish a set-aside event again", More: retried, Former: []operate.Former{{Words: "guest dead-letters retry", Flag: "event", Value: true}}},
			letters.One("queued again", outbox.Dead.RetryDead)),
		operate.NewChange(operate.About{
			Path: "dead-letters/drop", Doc: "Delete a set-aside event", More: dropped, Former: []operate.Former{{Words: "guest dead-letters drop", Flag: "event", Value: true}}, Danger: true,
			Ask: "The event is never published. This cannot be undone.",
		}, letters.One("deleted", outbox.Dead.DropDead)),
		operate.NewJob(operate.About{Path: "dead-letters/retry-all", Doc: "Publish all set-aside events again", More: retried, Former: []operate.Former{{Words: "guest dead-letters retry", Flag: "all"}}},
			letters.All("queued again", outbox.Dead.RetryDead)),
		operate.NewJob(operate.About{
			Path: "dead-letters/drop-all", Doc: "Delete all set-aside events", More: dropped, Former: []operate.Former{{Words: "guest dead-letters drop", Flag: "all"}}, Danger: true, Confirm: "drop all",
			Title: "Drop all", Text: "The events are never published. This cannot be undone.",
		}, letters.All("deleted", outbox.Dead.DropDead)),
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
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	found, err := p.outbox.ListDead(ctx, outbox.ID{Seq: in.After}, in.Limit)
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
	e, err := s.deadLetters().Event(ctx, in)
	if err != nil {
		return d, err
	}
	return deadDetail{e.Headers, outputOfDead(&e)}, nil
}

// deadLetters finds set-aside events by their IDs.
func (s *Guest) deadLetters() service.DeadLetters[eventInput] {
	return service.DeadLetters[eventInput]{Box: s.outboxOfDead, Find: s.findDead, Missing: errNoEvent}
}

// errNoEvent says where the IDs are.
var errNoEvent = errcode.New(errcode.NotFound, "no such set-aside event: holdfast guest dead-letters list lists them")

// outboxOfDead returns the outbox of the open service.
func (s *Guest) outboxOfDead() (outbox.Dead, error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	return p.outbox, nil
}

// findDead returns the set-aside event that an input names.
func (s *Guest) findDead(ctx context.Context, in eventInput) (outbox.ID, error) {
	p, err := s.parts()
	if err != nil {
		return outbox.ID{}, err
	}
	id, found, err := p.outbox.FindDead(ctx, in.Event)
	if err == nil && !found {
		err = errNoEvent
	}
	return id, err
}
