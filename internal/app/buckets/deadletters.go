package buckets

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

// deadHint is logged with each new dead letter.
const deadHint = "run holdfast buckets dead-letters list to list such events, and holdfast buckets dead-letters retry-all to publish them"

// deadLetterOperations returns the shared operations, with the rows below.
func (s *Buckets) deadLetterOperations() []operate.Operation {
	return service.DeadLetterOperations(s.deadLetters(), on(s, s.listDead), on(s, s.showDead))
}

// errNoEvent is also returned for an ID that is not valid.
var errNoEvent = errcode.New(errcode.NotFound, "no such set-aside event: holdfast buckets dead-letters list lists them")

// deadLetters describes the events for the shared operations. An object's events are published in order, so the object
// is their key.
func (s *Buckets) deadLetters() service.DeadLetters[eventInput] {
	return service.DeadLetters[eventInput]{
		Box: on(s, s.deadEvents), Missing: errNoEvent, Event: "notification", Key: "object", Delay: "within half a minute",
		Find: func(_ context.Context, in eventInput) (outbox.ID, error) {
			id, ok := parseEventID(in.Event)
			if !ok {
				return id, errNoEvent
			}
			return id, nil
		},
	}
}

// deadEvents returns the set-aside events for all destinations.
func (s *Buckets) deadEvents(context.Context, operate.None) (outbox.Dead, error) {
	return s.publisher.dead, nil
}

type eventInput struct {
	Event string `subject:"event" doc:"event ID"`
}

// eventID returns a short text for an event: its owner, stream and number, 40 bytes in base64. It returns "" if the
// owner or the stream is not a UUID.
func eventID(id outbox.ID) string {
	bytes, err := hex.DecodeString(strings.ReplaceAll(id.Owner+id.Stream, "-", ""))
	if err != nil {
		return ""
	}
	return eventPrefix + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(bytes, uint64(id.Seq)))
}

const eventPrefix = "evt_"

// parseEventID parses eventID.
func parseEventID(text string) (id outbox.ID, ok bool) {
	text, ok = strings.CutPrefix(text, eventPrefix)
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(b) != 40 {
		return id, false
	}
	format := func(b []byte) string { return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16]) }
	id = outbox.ID{Owner: format(b[:16]), Stream: format(b[16:32]), Seq: int64(binary.BigEndian.Uint64(b[32:]))}
	return id, id.Seq > 0
}

// deadOutput is a notification that was set aside. At is when the object changed.
type deadOutput struct {
	ID          string    `json:"id" title:"Event" subject:"event" example:"evt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQ"`
	Object      string    `json:"object" title:"Object" doc:"bucket and object" example:"photos/2026/harbour.jpg"`
	Type        string    `json:"type" title:"Type" example:"s3:ObjectCreated:Put"`
	Destination string    `json:"destination" title:"Destination" example:"thumbnails"`
	Account     string    `json:"account,omitempty" title:"Account" zero:"-" example:"main" doc:"missing: account deleted"`
	At          time.Time `json:"at"`
	SetAside    time.Time `json:"setAside" title:"Set aside"`
	Attempts    int       `json:"attempts" title:"Attempts" least:"1"`
	Error       string    `json:"error" title:"Error" doc:"from the last attempt" example:"the webhook answered with status 400"`
	Cursor      string    `json:"-" cursor:""`
}

// outputOfDead also returns the record that would be sent. names caches account names.
func (s *Buckets) outputOfDead(ctx context.Context, e *outbox.DeadEvent, names map[string]string) (o deadOutput, record json.RawMessage, err error) {
	o = deadOutput{ID: eventID(e.ID()), Object: e.Key, Destination: e.Topic, At: e.At, SetAside: e.DiedAt, Attempts: e.Attempts, Error: e.Reason}
	o.Cursor = o.ID
	if o.Type, record, err = buckets.EventRecord(e.Payload, e.Seq, buckets.At(e.At)); err != nil {
		return o, nil, err
	}
	name, known := names[e.Owner]
	if !known {
		a, err := s.opened.AccountByID(ctx, buckets.AccountID(e.Owner))
		if err != nil && !errors.Is(err, buckets.ErrNoAccount) {
			return o, nil, err
		}
		name, names[e.Owner] = a.Name, a.Name
	}
	o.Account = name
	return o, record, nil
}

// listDead orders by account, stream and number.
func (s *Buckets) listDead(ctx context.Context, in operate.Page[string]) (all []deadOutput, err error) {
	var after outbox.ID
	if in.After != "" {
		var ok bool
		if after, ok = parseEventID(in.After); !ok {
			return nil, &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
		}
	}
	dead, err := s.publisher.dead.ListDead(ctx, after, in.Limit)
	names := map[string]string{}
	for i := range dead {
		o, _, err := s.outputOfDead(ctx, &dead[i], names)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, err
}

// deadDetail is a notification with its record.
type deadDetail struct {
	deadOutput
	Record json.RawMessage `json:"record" text:"Record" doc:"request body sent to the destination"`
}

// showDead returns errNoEvent if the event was published or dropped meanwhile.
func (s *Buckets) showDead(ctx context.Context, in eventInput) (d deadDetail, err error) {
	e, err := s.deadLetters().Read(ctx, in)
	if err == nil {
		d.deadOutput, d.Record, err = s.outputOfDead(ctx, &e, map[string]string{})
	}
	return d, err
}
