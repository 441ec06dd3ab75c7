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

// outboxOperations shows events that wait. There is no change: the relay publishes them in their order, or sets them
// aside.
func (s *Guest) outboxOperations() []operate.Operation {
	return []operate.Operation{
		operate.With(operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "outbox", Rows: "events", Limit: 100, Doc: "List events that are not published yet, in their order", Title: "Outbox", Empty: "All events are published.",
			Group: "Show events that are not published yet", Text: "Events that are not published yet.",
		}, s.listWaiting), "backlog", s.backlog),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "outbox/show", Doc: "Show an event that is not published yet", Title: "Event"}, s.showWaiting),
	}
}

type eventInput struct {
	Event string `subject:"event" doc:"event ID"`
}

// eventOutput is an event in the outbox. Subject is the ID of the changed thing, and Class decides how long the event
// is kept.
type eventOutput struct {
	ID      string          `json:"id" title:"Event" subject:"event" example:"evt_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Type    string          `json:"type" title:"Type" example:"melmastoon.bff.consumer.wishlist.added.v1"`
	Key     string          `json:"key" title:"Key" doc:"session; its events stay in order" example:"gms_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Subject string          `json:"subject" example:"wsh_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Class   string          `json:"retentionClass" enum:"operational,audit"`
	At      time.Time       `json:"at" title:"Time"`
	Payload json.RawMessage `json:"payload" text:"Payload"`
}

// outputOfEvent copies an event's fields. The outbox calls them by other names: the ordering key is the owner, and the
// subject is the key.
func outputOfEvent(e *outbox.Event) eventOutput {
	return eventOutput{e.Name, e.Topic, e.Owner, e.Key, e.Class, e.At, e.Payload}
}

// waitingOutput is an event that is not published yet. Attempts counts refusals; Next is missing unless a refused event
// waits.
type waitingOutput struct {
	eventOutput
	Attempts int       `json:"attempts" title:"Attempts" least:"0"`
	Next     time.Time `json:"nextAttempt,omitzero" title:"Next attempt" zero:"now" doc:"missing: now"`
	Error    string    `json:"error,omitempty" title:"Error" doc:"from the last attempt" example:"the broker did not answer"`
	Position int64     `json:"-" cursor:""`
}

// outputOfWaiting copies a waiting event's fields, in the order of waitingOutput.
func outputOfWaiting(e *outbox.WaitingEvent) waitingOutput {
	return waitingOutput{outputOfEvent(&e.Event), e.Attempts, e.Next, e.Reason, e.Position}
}

// listWaiting orders by position: the order in which a session's events are published.
func (s *Guest) listWaiting(ctx context.Context, in operate.Page[int64]) (all []waitingOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	events, err := p.outbox.ListWaiting(ctx, in.After, in.Limit)
	for i := range events {
		all = append(all, outputOfWaiting(&events[i]))
	}
	return all, err
}

// backlogOutput counts all waiting events. Oldest is missing if none waits.
type backlogOutput struct {
	Events int       `json:"events" least:"0" doc:"all waiting events; 1000000: at least that many"`
	Oldest time.Time `json:"oldest,omitzero"`
}

// backlog adds the count to the list's JSON, because a page shows only the first events.
func (s *Guest) backlog(ctx context.Context) (b backlogOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return b, err
	}
	b.Events, b.Oldest, err = p.outbox.Backlog(ctx)
	return b, err
}

var errPublished = errcode.New(errcode.NotFound, "the event does not wait any more: it was published or set aside")

// waitingDetail adds the headers for the broker.
type waitingDetail struct {
	Headers json.RawMessage `json:"headers" text:"Headers"`
	waitingOutput
}

// showWaiting finds an event by its ID. The event may be published between the two reads, which is errPublished, too.
func (s *Guest) showWaiting(ctx context.Context, in eventInput) (d waitingDetail, err error) {
	p, err := s.parts()
	if err != nil {
		return d, err
	}
	at, found, err := p.outbox.FindWaiting(ctx, in.Event)
	if err != nil {
		return d, err
	}
	if !found {
		return d, errPublished
	}
	events, err := p.outbox.ListWaiting(ctx, at-1, 1)
	if err == nil && (len(events) == 0 || events[0].Position != at) {
		err = errPublished
	}
	if err != nil {
		return d, err
	}
	return waitingDetail{events[0].Headers, outputOfWaiting(&events[0])}, nil
}

// shownBacklog limits the count on the overview, because it reads the events.
const shownBacklog = 100

// backlogs returns the counts for the overview, with links to the lists.
func (s *Guest) backlogs(ctx context.Context) ([]service.Fact, error) {
	waiting, err := s.opened.outbox.ListWaiting(ctx, 0, shownBacklog)
	if err != nil {
		return nil, err
	}
	dead, err := s.opened.outbox.CountDead(ctx)
	if err != nil {
		return nil, err
	}
	n := service.Count(int64(len(waiting)), "event")
	if len(waiting) == shownBacklog {
		n += " or more"
	}
	return []service.Fact{{Name: "Events to publish", Cell: service.Cell{Text: n, To: "outbox"}}, {Name: "Dead letters", Cell: service.DeadCell(dead)}}, nil
}
