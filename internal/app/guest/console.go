package guest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/fault"
	"holdfast/internal/guest"
	"holdfast/internal/outbox"
)

// consoleRows is how many rows a page of the console has.
const consoleRows = 100

// console returns the pages of the service.
func (s *Guest) console() *service.Console {
	return &service.Console{Title: "Guest", Backlogs: s.backlogs, Pages: []service.Page{
		{Path: "outbox", Title: "Outbox", Listed: true, Show: s.showOutbox},
		{Path: "dead-letters", Title: "Dead letters", Listed: true, Show: s.showDeadLetters, Actions: []service.Action{
			s.deadAction("retry", "queued again", guest.RetryDead), s.deadAction("drop", "deleted", guest.DropDead),
			s.deadAction("retry-all", "queued again", guest.RetryDead), s.deadAction("drop-all", "deleted", guest.DropDead),
		}},
		{Path: "event", Title: "Event", Show: s.showEvent},
		{Path: "dead-letter", Title: "Dead letter", Show: s.showDeadLetter},
		{Path: "session", Title: "Sessions of guests", Listed: true, Show: s.showSessionForm, Actions: []service.Action{{Name: "find", Reads: true, Run: s.findSession}}},
		{Path: "refusals", Title: "Refused handoffs", Listed: true, Show: s.showRefusals},
	}}
}

// backlogs counts the events that are not published, up to a page of them.
func (s *Guest) backlogs(ctx context.Context) ([]service.Fact, error) {
	waiting, err := s.opened.Outbox().ListWaiting(ctx, 0, consoleRows)
	if err != nil {
		return nil, err
	}
	dead, err := s.opened.Outbox().CountDead(ctx)
	if err != nil {
		return nil, err
	}
	n := service.Count(int64(len(waiting)), "event")
	if len(waiting) == consoleRows {
		n += " or more"
	}
	letters := service.Cell{Text: service.Count(int64(dead), "event"), To: "dead-letters"}
	if dead > 0 {
		letters.State = service.Warning
	}
	return []service.Fact{{Name: "Events to publish", Cell: service.Cell{Text: n, To: "outbox"}}, {Name: "Dead letters", Cell: letters}}, nil
}

func (s *Guest) showOutbox(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	after, err := strconv.ParseInt(cmp.Or(r.Value("after"), "0"), 10, 64)
	if err != nil {
		return nil, fault.New(fault.Invalid, "after: expected a whole number")
	}
	page, err := s.opened.Outbox().ListWaiting(ctx, after, consoleRows)
	if err != nil {
		return nil, err
	}
	t := &service.Table{
		Title: "Events that are not published yet", Empty: "All events are published.",
		Columns: []service.Column{{Title: "Event"}, {Title: "Type"}, {Title: "Key"}, {Title: "Time"}, {Title: "Attempts", Number: true}, {Title: "Next attempt"}, {Title: "Error"}},
	}
	for i := range page {
		e := &page[i]
		t.Rows = append(t.Rows, []service.Cell{
			{Text: e.Name, To: service.PageLink("event", "event", e.Name, "position", strconv.FormatInt(e.Position, 10))}, service.TextCell(e.Topic), service.TextCell(e.Owner),
			service.TimeCell(e.At), service.TextCell(strconv.Itoa(e.Attempts)), nextCell(e), service.TextCell(e.Reason),
		})
	}
	if len(page) == consoleRows {
		t.Next = strconv.FormatInt(page[consoleRows-1].Position, 10)
	}
	return &service.View{Blocks: []service.Block{t}}, nil
}

// nextCell says when an event is tried next.
func nextCell(e *outbox.WaitingEvent) service.Cell {
	if e.Next.IsZero() {
		return service.TextCell("now")
	}
	return service.TimeCell(e.Next)
}

// errPublished means that an event does not wait any more.
var errPublished = fault.New(fault.NotFound, "the event does not wait any more: it was published or set aside")

// showEvent shows an event that is not published yet.
func (s *Guest) showEvent(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	at, err := strconv.ParseInt(r.Value("position"), 10, 64)
	if err != nil {
		return nil, fault.New(fault.Invalid, "position: expected a whole number")
	}
	found, err := s.opened.Outbox().ListWaiting(ctx, at-1, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Name != r.Value("event") {
		return nil, errPublished
	}
	e := &found[0]
	return &service.View{Title: "Event " + e.Name, Parents: []service.Link{{Text: "Outbox", To: "outbox"}}, Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{
			{Name: "Type", Cell: service.TextCell(e.Topic)}, {Name: "Key", Cell: service.TextCell(e.Owner)}, {Name: "Time", Cell: service.TimeCell(e.At)},
			{Name: "Attempts", Cell: service.TextCell(strconv.Itoa(e.Attempts))}, {Name: "Next attempt", Cell: nextCell(e)}, {Name: "Error", Cell: service.TextCell(cmp.Or(e.Reason, "-"))},
		}},
		&service.Text{Title: "Headers", Body: indented(e.Headers), Copy: true}, &service.Text{Title: "Payload", Body: indented(e.Payload), Copy: true},
	}}, nil
}

func (s *Guest) showDeadLetters(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	var after outbox.ID
	if text := r.Value("after"); text != "" {
		var found bool
		var err error
		if after, found, err = s.opened.Outbox().FindDead(ctx, text); err != nil {
			return nil, err
		} else if !found {
			return nil, guest.ErrNoEvent
		}
	}
	page, err := s.opened.Outbox().ListDead(ctx, after, consoleRows)
	if err != nil {
		return nil, err
	}
	t := &service.Table{
		Empty:   "No event was set aside.",
		Columns: []service.Column{{Title: "Event"}, {Title: "Type"}, {Title: "Key"}, {Title: "Set aside"}, {Title: "Attempts", Number: true}, {Title: "Error"}, {Title: "Action"}},
	}
	for i := range page {
		d := &page[i]
		t.Rows = append(t.Rows, []service.Cell{
			{Text: d.Name, To: service.PageLink("dead-letter", "event", d.Name)}, service.TextCell(d.Topic), service.TextCell(d.Owner), service.TimeCell(d.DiedAt),
			service.TextCell(strconv.Itoa(d.Attempts)), service.TextCell(d.Reason), {Forms: deadForms(d.Name)},
		})
	}
	if len(page) == consoleRows {
		t.Next = page[consoleRows-1].Name
	}
	view := &service.View{Blocks: []service.Block{&service.Text{Body: "These events could not be published and were set aside. An event that is queued again comes after newer events of its session."}, t}}
	if len(page) > 0 {
		view.Blocks = append(view.Blocks,
			&service.Form{Action: "retry-all", Submit: "Retry all"},
			&service.Form{Title: "Drop all", Text: "The events are never published. This cannot be undone.", Action: "drop-all", Submit: "Drop all", Danger: true, Confirm: "drop all"})
	}
	return view, nil
}

// deadForms are the buttons of a set-aside event.
func deadForms(event string) []service.Form {
	keep := map[string]string{"event": event}
	return []service.Form{
		{Page: "dead-letters", Action: "retry", Submit: "Retry", Label: "Retry event " + event, Keep: keep},
		{Page: "dead-letters", Action: "drop", Submit: "Drop", Label: "Drop event " + event, Keep: keep, Danger: true, Ask: "The event is never published. This cannot be undone."},
	}
}

// deadAction returns an action on a set-aside event, or on all of them without a name.
func (s *Guest) deadAction(name, done string, do func(context.Context, outbox.Kept, string) (int, error)) service.Action {
	isAll := name == "retry-all" || name == "drop-all"
	return service.Action{Name: name, Logged: []string{"event"}, Run: func(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
		event := r.Value("event")
		if isAll == (event != "") {
			return o, guest.ErrNoEvent
		}
		n, err := do(ctx, s.opened.Outbox(), event)
		o.Notice, o.Next = service.Count(int64(n), "event")+" "+done, "dead-letters"
		return o, err
	}}
}

func (s *Guest) showDeadLetter(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	id, found, err := s.opened.Outbox().FindDead(ctx, r.Value("event"))
	if err != nil {
		return nil, err
	}
	var d *outbox.DeadEvent
	if found { // ListDead begins after an event
		before := id
		before.Seq--
		page, err := s.opened.Outbox().ListDead(ctx, before, 1)
		if err != nil {
			return nil, err
		}
		if len(page) == 1 && page[0].ID() == id {
			d = &page[0]
		}
	}
	if d == nil {
		return nil, guest.ErrNoEvent
	}
	forms := deadForms(d.Name)
	return &service.View{Title: "Dead letter " + d.Name, Parents: []service.Link{{Text: "Dead letters", To: "dead-letters"}}, Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{
			{Name: "Type", Cell: service.TextCell(d.Topic)}, {Name: "Key", Cell: service.TextCell(d.Owner)}, {Name: "Time", Cell: service.TimeCell(d.At)},
			{Name: "Set aside", Cell: service.TimeCell(d.DiedAt)}, {Name: "Attempts", Cell: service.TextCell(strconv.Itoa(d.Attempts))}, {Name: "Error", Cell: service.TextCell(d.Reason)},
		}},
		&service.Text{Title: "Headers", Body: indented(d.Headers), Copy: true}, &service.Text{Title: "Payload", Body: indented(d.Payload), Copy: true},
		&forms[0], &forms[1],
	}}, nil
}

// indented returns JSON with line breaks, for people.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// showRefusals shows attempts to consume handoffs again.
func (s *Guest) showRefusals(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	if err := s.service.FlushRefusals(ctx); err != nil {
		return nil, err
	}
	all, err := s.opened.Refusals(ctx, consoleRows)
	if err != nil {
		return nil, err
	}
	t := &service.Table{
		Title: "Attempts to consume a handoff that were refused", Empty: "No handoff was consumed twice.",
		Columns: []service.Column{{Title: "Handoff"}, {Title: "Reason"}, {Title: "Attempts", Number: true}, {Title: "First"}, {Title: "Last"}},
	}
	for _, r := range all {
		t.Rows = append(t.Rows, []service.Cell{
			service.TextCell(string(r.Handoff)), service.TextCell(r.Reason), service.TextCell(strconv.FormatInt(r.Attempts, 10)),
			service.TimeCell(r.First), service.TimeCell(r.Last),
		})
	}
	return &service.View{Blocks: []service.Block{t}}, nil
}
