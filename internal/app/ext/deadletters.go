package ext

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

// deadHint is logged when an audit event is set aside.
const deadHint = "run holdfast ext dead-letters list to list such events, and holdfast ext dead-letters retry-all to publish them"

func (s *Extensions) deadLetterOperations() []operate.Operation {
	const (
		retried = "A running server does it within half a minute. They come after newer events of their installs."
		dropped = "They are never published."
	)
	letters := s.deadLetters()
	return []operate.Operation{
		operate.NewList(operate.About{
			Path: "dead-letters", Rows: "events", Doc: "List set-aside audit events", Title: "Dead letters", Empty: "No event was set aside.",
			Group: "Manage audit events that were set aside because they could not be published", Former: []operate.Former{{Words: "ext audit", Noun: true}, {Words: "ext audit dead"}},
			Text: "These audit events could not be published and were set aside. An event that is queued again comes after newer events of its install.",
		}, s.listDead),
		operate.NewRead(operate.About{Path: "dead-letters/show", Doc: "Show a set-aside audit event", Title: "Dead letter"}, s.showDead),
		operate.NewChange(operate.About{
			Path: "dead-letters/retry", Doc: "Publish a set-aside audit event again", More: retried,
		}, letters.One("queued again", outbox.Dead.RetryDead)),
		operate.NewChange(operate.About{
			Path: "dead-letters/drop", Doc: "Delete a set-aside audit event", More: dropped, Danger: true, Ask: "The event is never published. This cannot be undone.",
		}, letters.One("deleted", outbox.Dead.DropDead)),
		operate.NewJob(operate.About{
			Path: "dead-letters/retry-all", Doc: "Publish all set-aside audit events again", More: retried, Former: []operate.Former{{Words: "ext audit retry", Flag: "all"}},
		}, letters.All("queued again", outbox.Dead.RetryDead)),
		operate.NewJob(operate.About{
			Path: "dead-letters/drop-all", Doc: "Delete all set-aside audit events", More: dropped, Former: []operate.Former{{Words: "ext audit drop", Flag: "all"}}, Danger: true,
			Confirm: "drop all", Title: "Drop all", Text: "The events are never published. This cannot be undone.",
		}, letters.All("deleted", outbox.Dead.DropDead)),
	}
}

// deadInput names a set-aside event.
type deadInput struct {
	installInput
	Seq int64 `subject:"seq,flag" value:"NUMBER" doc:"NUMBER of the event in the list" example:"1" least:"0"`
}

func (in deadInput) id() outbox.ID {
	o, _ := in.owner() // Check has parsed it
	return outbox.ID{Owner: string(o.Tenant), Stream: string(o.Install), Seq: in.Seq}
}

// deadOutput is a set-aside event.
type deadOutput struct {
	Tenant   string    `json:"tenant" title:"Tenant" subject:"tenant"`
	Install  string    `json:"install" title:"Install" subject:"install"`
	Seq      int64     `json:"seq" title:"Seq" subject:"seq"`
	Topic    string    `json:"topic" title:"Topic" example:"extstorage.put"`
	Key      string    `json:"key"`
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts" title:"Attempts" least:"1"`
	SetAside time.Time `json:"setAside" title:"Set aside"`
	Error    string    `json:"error" title:"Error" doc:"of the last attempt" example:"the broker did not answer"`

	Payload json.RawMessage `json:"payload" text:"Payload"`
	Cursor  string          `json:"-" cursor:""`
}

func outputOfDead(e *outbox.DeadEvent) deadOutput {
	return deadOutput{
		e.Owner, e.Stream, e.Seq, e.Topic, e.Key, e.At, e.Attempts, e.DiedAt, e.Reason, e.Payload,
		strings.Join([]string{e.Owner, e.Stream, strconv.FormatInt(e.Seq, 10)}, " "),
	}
}

// afterDead returns the event that a cursor names.
func afterDead(cursor string) (id outbox.ID, err error) {
	if cursor == "" {
		return id, nil
	}
	words := strings.Fields(cursor)
	if len(words) == 3 {
		in := deadInput{installInput: installInput{words[0], words[1]}}
		if in.Seq, err = strconv.ParseInt(words[2], 10, 64); err == nil && in.Check() == nil {
			return in.id(), nil
		}
	}
	return id, &operate.InputError{Input: "after", Reason: "expected next of the page before"}
}

func (s *Extensions) listDead(ctx context.Context, in operate.Page[string]) (all []deadOutput, err error) {
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	after, err := afterDead(in.After)
	if err != nil {
		return nil, err
	}
	found, err := s.audit.ListDead(ctx, after, in.Limit)
	for i := range found {
		all = append(all, outputOfDead(&found[i]))
	}
	return all, err
}

var errNoEvent = errcode.New(errcode.NotFound, "no such set-aside event; holdfast ext dead-letters list lists them")

func (s *Extensions) showDead(ctx context.Context, in deadInput) (d deadOutput, err error) {
	e, err := s.deadLetters().Event(ctx, in)
	if err != nil {
		return d, err
	}
	return outputOfDead(&e), nil
}

// deadLetters names set-aside events by install and number.
func (s *Extensions) deadLetters() service.DeadLetters[deadInput] {
	find := func(_ context.Context, in deadInput) (outbox.ID, error) { return in.id(), nil }
	return service.DeadLetters[deadInput]{Box: s.auditBox, Find: find, Missing: errNoEvent}
}

// auditBox returns the audit of the open service.
func (s *Extensions) auditBox() (outbox.Dead, error) {
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	return s.audit, nil
}
