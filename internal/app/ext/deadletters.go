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

// deadHint is logged with each new dead letter.
const deadHint = "run holdfast ext dead-letters list to list such events, and holdfast ext dead-letters retry-all to publish them"

// deadLetterOperations returns the shared operations, with the rows below.
func (s *Extensions) deadLetterOperations() []operate.Operation {
	return service.DeadLetterOperations(s.deadLetters(), s.listDead, s.showDead)
}

// deadInput names an audit event by its install and its number there.
type deadInput struct {
	installInput
	Seq int64 `subject:"seq,flag" value:"NUMBER" doc:"event NUMBER in the list" example:"1" least:"0"`
}

// id ignores an invalid owner, because Check has refused it.
func (in deadInput) id() outbox.ID {
	o, _ := in.owner()
	return outbox.ID{Owner: string(o.Tenant), Stream: string(o.Install), Seq: in.Seq}
}

// deadOutput is an audit event that was set aside. At is when the change was made, and Topic is the kind of change.
type deadOutput struct {
	Tenant   string    `json:"tenant" title:"Tenant" subject:"tenant"`
	Install  string    `json:"install" title:"Install" subject:"install"`
	Seq      int64     `json:"seq" title:"Seq" subject:"seq"`
	Topic    string    `json:"topic" title:"Topic" example:"extstorage.put"`
	Key      string    `json:"key"`
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts" title:"Attempts" least:"1"`
	SetAside time.Time `json:"setAside" title:"Set aside"`
	Error    string    `json:"error" title:"Error" doc:"from the last attempt" example:"the broker did not answer"`

	Payload json.RawMessage `json:"payload" text:"Payload"`
	Cursor  string          `json:"-" cursor:""`
}

// outputOfDead copies a dead letter's fields, in the order of deadOutput. The cursor consists of tenant, install and
// number.
func outputOfDead(e *outbox.DeadEvent) deadOutput {
	return deadOutput{
		e.Owner, e.Stream, e.Seq, e.Topic, e.Key, e.At, e.Attempts, e.DiedAt, e.Reason, e.Payload,
		strings.Join([]string{e.Owner, e.Stream, strconv.FormatInt(e.Seq, 10)}, " "),
	}
}

// afterDead parses deadOutput.Cursor; "" begins the list.
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
	return id, &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
}

// listDead orders by tenant, install and number.
func (s *Extensions) listDead(ctx context.Context, in operate.Page[string]) (all []deadOutput, err error) {
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	after, err := afterDead(in.After)
	if err != nil {
		return nil, err
	}
	events, err := s.audit.ListDead(ctx, after, in.Limit)
	for i := range events {
		all = append(all, outputOfDead(&events[i]))
	}
	return all, err
}

var errNoEvent = errcode.New(errcode.NotFound, "no such set-aside event; holdfast ext dead-letters list lists them")

// showDead returns errNoEvent if the event was published or dropped meanwhile.
func (s *Extensions) showDead(ctx context.Context, in deadInput) (d deadOutput, err error) {
	e, err := s.deadLetters().Read(ctx, in)
	if err != nil {
		return d, err
	}
	return outputOfDead(&e), nil
}

// deadLetters describes the events for the shared operations. An install's events are published in order, so the
// install is their key.
func (s *Extensions) deadLetters() service.DeadLetters[deadInput] {
	find := func(_ context.Context, in deadInput) (outbox.ID, error) { return in.id(), nil }
	return service.DeadLetters[deadInput]{
		Box: s.auditBox, Find: find, Missing: errNoEvent, Event: "audit event", Key: "install", Delay: "within half a minute",
	}
}

// auditBox returns the outbox with audit events, or errDisabled.
func (s *Extensions) auditBox(context.Context, operate.None) (outbox.Dead, error) {
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	return s.audit, nil
}
