package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/guest/retention"
	"holdfast/internal/operate"
	"holdfast/internal/outbox"
)

// publishedOperations lists the events that are kept after publication, and publishes them again.
func (s *Guest) publishedOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "events", Doc: "List published events still in the database, ordered by ID", Title: "Published events", Empty: "No published events are kept.", Limit: 100,
			Group: "Show published events, and publish them again",
			Text:  "Published events stay in the database for guest.keep_events and guest.keep_audit_events.",
		}, s.listPublished),
		operate.NewJob(operate.About{
			Path: "events/replay", Doc: "Publish events again, with the same IDs", Title: "Replay events", Counts: "events",
			More: "Events keep their IDs and sequences, and stay in order within a session, so consumers that remember IDs ignore\n" +
				"repeated events. New events wait meanwhile: replay a long time in parts.",
			Example: "--from 2026-11-20T00:00:00Z --dry-run\n--from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z --type wishlist.added.v1\n--from 4711",
		}, s.replay),
	}
}

// publishedOutput is a published event. At is when it was recorded. Sequence is its position in the outbox, which
// increases with each event.
type publishedOutput struct {
	ID        string          `json:"id" title:"Event" example:"evt_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Type      string          `json:"type" title:"Type" example:"melmastoon.bff.consumer.wishlist.added.v1"`
	Key       string          `json:"key" title:"Key" doc:"session; its events stay in order" example:"gms_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Sequence  int64           `json:"sequence" title:"Sequence" least:"1"`
	At        time.Time       `json:"at" title:"Time"`
	Published time.Time       `json:"published" title:"Published"`
	Subject   string          `json:"subject" aside:"" example:"wsh_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Class     string          `json:"retentionClass" aside:"" enum:"operational,audit"`
	Payload   json.RawMessage `json:"payload" text:"Payload"`
	Name      string          `json:"-" cursor:""`
}

// listPublished orders by event ID, which is nearly the order of time.
func (s *Guest) listPublished(ctx context.Context, in operate.Page[string]) (all []publishedOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	if _, ok := guest.ParseID(guest.EventPrefix, in.After); in.After != "" && !ok {
		return nil, &operate.InputError{Input: "after", Reason: "expected an event ID"}
	}
	events, err := p.outbox.ListPublished(ctx, in.After, in.Limit)
	for i := range events {
		e := &events[i]
		all = append(all, publishedOutput{e.Name, e.Topic, e.Owner, e.Position, e.At, e.Published, e.Key, e.Class, e.Payload, e.Name})
	}
	return all, err
}

// replayInput selects events by time, or by sequence from From on.
type replayInput struct {
	From   string `flag:"from" value:"TIME" doc:"start: a time, e.g. 2026-11-20T00:00:00Z, or a sequence, e.g. 4711" example:"2026-11-20T00:00:00Z"`
	To     string `flag:"to" value:"TIME" doc:"end time; default: now" example:"2026-11-21T00:00:00Z"`
	Type   string `flag:"type" doc:"only events of this type, with or without the profile's prefix" example:"wishlist.added.v1"`
	DryRun bool   `flag:"dry-run" doc:"only count the events"`
}

// Check parses both bounds.
func (in replayInput) Check() error {
	_, err := in.span()
	return err
}

// span is a range of events. Either from or sequence is set.
type span struct {
	from, to time.Time // to is exclusive; zero: no limit
	sequence int64
}

// span parses the bounds: a whole number above 0 is a sequence, everything else a time.
func (in replayInput) span() (v span, err error) {
	if n, err := strconv.ParseInt(in.From, 10, 64); err == nil && n > 0 {
		v.sequence = n
	} else if v.from, err = time.Parse(time.RFC3339, in.From); err != nil {
		return v, &operate.InputError{Input: "from", Reason: "expected a time, e.g. 2026-11-20T00:00:00Z, or an event sequence, e.g. 4711"}
	}
	if in.To != "" {
		if v.to, err = time.Parse(time.RFC3339, in.To); err != nil {
			return v, &operate.InputError{Input: "to", Reason: "expected a time, e.g. 2026-11-21T00:00:00Z"}
		}
	}
	return v, nil
}

// Event IDs start with the event's time, except for a consumed handoff's replay event: its ID contains the handoff's
// time, at most a day earlier. Process clocks may also differ slightly.
const (
	idBefore = 25 * time.Hour
	idAfter  = time.Minute
)

// replayed is the result: Queued, or Found in a dry run. The times tell the operator which events can no longer be
// replayed.
type replayed struct {
	Queued    *int      `json:"queued,omitempty" least:"0" doc:"republished events"`
	Found     *int      `json:"found,omitempty" least:"0" doc:"dry run: events it would republish"`
	Kept      time.Time `json:"keptSince" doc:"operational events published before this time are deleted"`
	KeptAudit time.Time `json:"auditKeptSince" doc:"audit events published before this time are deleted"`
}

// Notice is also shown with an error, so that the operator knows how far the job came.
func (r replayed) Notice() string {
	text := ""
	switch {
	case r.Queued != nil:
		text = service.Count(int64(*r.Queued), "event") + " queued again"
	case r.Found != nil:
		text = service.Count(int64(*r.Found), "event") + " to publish again"
	}
	return fmt.Sprintf("%s; events are kept since %s, audit events since %s", text, r.Kept.Format(time.DateTime), r.KeptAudit.Format(time.DateTime))
}

// replayStep is how many events are read and queued at once.
const replayStep = 2000

// replay returns the events queued so far even with an error.
func (s *Guest) replay(ctx context.Context, in replayInput, progress operate.Progress) (r replayed, err error) {
	p, err := s.parts()
	if err != nil {
		return r, err
	}
	of, err := in.span()
	if err != nil {
		return r, err
	}
	// Skip events published meanwhile.
	now := p.clock()
	if of.to.IsZero() || of.to.After(now) {
		of.to = now
	}
	count := 0
	r = replayed{Queued: &count, Kept: p.retention.Before(retention.JobEvents, now).UTC().Truncate(time.Second), KeptAudit: p.retention.Before(retention.JobAuditEvents, now).UTC().Truncate(time.Second)}
	if in.DryRun {
		r.Queued, r.Found = nil, &count
	}
	after, last := guest.BeforeEvents(of.from.Add(-idBefore)), guest.BeforeEvents(of.to.Add(idAfter))
	for {
		page, err := p.outbox.ListPublished(ctx, after, replayStep)
		if err != nil || len(page) == 0 {
			return r, err
		}
		after = page[len(page)-1].Name
		names := of.names(page, in.Type, s.cfg.profile().Types)
		n := len(names)
		if !in.DryRun && n > 0 {
			if n, err = p.outbox.Republish(ctx, names); err != nil {
				return r, err
			}
		}
		count += n
		progress.Report(int64(count), 0)
		if len(page) < replayStep || after >= last {
			return r, nil
		}
	}
}

// names returns the IDs of a page's events in the span. kind is an event type with or without prefix; "" selects all
// types.
func (v span) names(page []outbox.PublishedEvent, kind, prefix string) (names []string) {
	for i := range page {
		e := &page[i]
		if e.Position >= v.sequence && !e.At.Before(v.from) && e.At.Before(v.to) && (kind == "" || e.Topic == kind || e.Topic == prefix+kind) {
			names = append(names, e.Name)
		}
	}
	return names
}
