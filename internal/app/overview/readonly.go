package overview

import (
	"context"
	"fmt"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/copying"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	"holdfast/internal/readonly"
)

// readyTimeout limits how long the database of a service may take to say whether it is read-only.
const readyTimeout = 2 * time.Second

// readOnlyPage is the page that shows which services are read-only and why, and switches it.
func (o *Overview) readOnlyPage() service.Page {
	change := func(name, notice string, to bool) service.Action {
		return service.Action{Name: name, Logged: []string{"service"}, Run: func(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
			return service.Outcome{Notice: fmt.Sprintf(notice, r.Value("service"))}, o.ReadOnly.Set(ctx, r.Value("service"), to)
		}}
	}
	return service.Page{Path: "read-only", Title: "Read-only", Listed: true, Show: o.showReadOnly, Actions: []service.Action{
		change("begin", "%s is read-only", true), change("end", "%s accepts writes again", false),
	}}
}

// readOnlyBy says who made a service read-only, and until when.
func readOnlyBy(holder string, until time.Time) string {
	if readonly.IsByCopy(holder) {
		holder = "holdfast copy"
	}
	if !until.IsZero() {
		holder += ", until " + service.TimeCell(until).Text + " if it is not prolonged"
	}
	return "read-only, by " + holder
}

// readyCell is the state of a service that is ready, for the overview.
func readyCell(ctx context.Context, s *service.Running) service.Cell {
	ready, db := service.Cell{State: service.OK, Text: "ready"}, s.Rows()
	if db == nil {
		return ready
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	holder, until, err := db.ReadOnly(ctx, s.Name)
	switch {
	case err != nil: // the database has just been lost
		return service.Cell{State: service.Wrong, Text: failureText(err)}
	case holder != "":
		return service.Cell{State: service.Warning, Text: readOnlyBy(holder, until), To: "read-only"}
	}
	return ready
}

// failureText returns the message of an error for operators.
func failureText(err error) string {
	if text := errcode.Message(err); text != "" {
		return text
	}
	return err.Error()
}

func (o *Overview) showReadOnly(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	t := &service.Table{
		Columns: []service.Column{{Title: "Service"}, {Title: "State"}, {Title: "Copy"}, {Title: "What to do"}, {Title: "Action"}},
		Empty:   "No service can be read-only.",
	}
	for _, s := range o.Services {
		if db := s.Rows(); db != nil {
			t.Rows = append(t.Rows, o.readOnlyRow(ctx, s.Name, db))
		}
	}
	return &service.View{Blocks: []service.Block{&service.Text{
		Body: "A read-only service answers writes with 503 and Retry-After, on every server that uses its database. Reads go on. holdfast copy makes its source read-only for its last pass, and leaves it so when everything is copied.",
	}, t}}, nil
}

// readOnlyRow shows whether a service accepts writes, and the copy that uses its database.
func (o *Overview) readOnlyRow(ctx context.Context, name string, db rows.Database) []service.Cell {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var copied copying.State
	holder, until, err := db.ReadOnly(ctx, name)
	if err == nil {
		err = db.View(ctx, func(v rows.View) (err error) { copied, err = copying.ReadState(v, name); return err })
	}
	state, running, fix, action := service.Cell{State: service.OK, Text: "accepts writes"}, "-", "-", service.Cell{}
	if copied.Claim != nil {
		running = "in progress, by " + copied.Claim.By + ", whose terminal shows its progress"
	}
	keep := map[string]string{"service": name}
	switch {
	case err != nil:
		state = service.Cell{State: service.Wrong, Text: failureText(err)}
	case copied.IsPart():
		state = service.Cell{State: service.Wrong, Text: copying.ErrPart.Error()}
	case holder == "" && copied.Claim != nil: // the copy makes it read-only itself
	case holder == "" && !o.ReadOnly.Setting:
		action.Forms = []service.Form{{
			Action: "begin", Submit: "Stop writes", Label: "Stop writes to " + name, Danger: true, Keep: keep,
			Ask: "Writes of clients get 503 until you accept them again.",
		}}
	case holder == "":
		state.Text += ": server.read_only is not applied yet"
	default:
		state = service.Cell{State: service.Warning, Text: readOnlyBy(holder, until)}
		fix = readonly.End(name, holder)
		if !until.IsZero() {
			fix = "wait for the end of the copy, which prints what to set"
		}
		if holder == readonly.ByAdmin && !o.ReadOnly.Setting {
			fix = "-"
			action.Forms = []service.Form{{Action: "end", Submit: "Accept writes", Label: "Accept writes to " + name, Keep: keep}}
		}
	}
	return []service.Cell{service.TextCell(name), state, service.TextCell(running), service.TextCell(fix), action}
}
