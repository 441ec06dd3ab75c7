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

// deadLetterOperations returns the shared operations, with the rows below.
func (s *Guest) deadLetterOperations() []operate.Operation {
	return service.DeadLetterOperations(s.deadLetters(), s.listDead, s.showDead)
}

// deadOutput is an event that was set aside. Seq is the position of the next page.
type deadOutput struct {
	eventOutput
	SetAside time.Time `json:"setAside" title:"Set aside"`
	Attempts int       `json:"attempts" title:"Attempts" least:"1"`
	Error    string    `json:"error" title:"Error" doc:"from the last attempt" example:"the broker did not answer"`
	Seq      int64     `json:"-" cursor:""`
}

// outputOfDead copies a dead letter's fields, in the order of deadOutput.
func outputOfDead(e *outbox.DeadEvent) deadOutput {
	return deadOutput{outputOfEvent(&e.Event), e.DiedAt, e.Attempts, e.Reason, e.Seq}
}

// listDead orders by position, so older events come first.
func (s *Guest) listDead(ctx context.Context, in operate.Page[int64]) (all []deadOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	events, err := p.outbox.ListDead(ctx, outbox.ID{Seq: in.After}, in.Limit)
	for i := range events {
		all = append(all, outputOfDead(&events[i]))
	}
	return all, err
}

// deadDetail adds the broker headers, with which the event was offered.
type deadDetail struct {
	Headers json.RawMessage `json:"headers" text:"Headers"`
	deadOutput
}

// showDead finds an event by its ID, which lists and logs show.
func (s *Guest) showDead(ctx context.Context, in eventInput) (d deadDetail, err error) {
	e, err := s.deadLetters().Read(ctx, in)
	if err != nil {
		return d, err
	}
	return deadDetail{e.Headers, outputOfDead(&e)}, nil
}

// deadLetters describes the events for the shared operations. Events of a session are published in order, so the
// session is their key.
func (s *Guest) deadLetters() service.DeadLetters[eventInput] {
	return service.DeadLetters[eventInput]{
		Box: s.outboxOfDead, Find: s.findDead, Missing: errNoEvent, Event: "event", Key: "session", Delay: "at once",
	}
}

var errNoEvent = errcode.New(errcode.NotFound, "no such set-aside event: holdfast guest dead-letters list lists them")

// outboxOfDead returns the outbox, or errDisabled.
func (s *Guest) outboxOfDead(context.Context, operate.None) (outbox.Dead, error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	return p.outbox, nil
}

// findDead translates an event ID into the outbox's position, or returns errNoEvent.
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
