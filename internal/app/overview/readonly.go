package overview

import (
	"context"
	"slices"
	"time"

	"holdfast/internal/alerts"
	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/changes"
	"holdfast/internal/copying"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	"holdfast/internal/obs"
	"holdfast/internal/operate"
	"holdfast/internal/readonly"
)

const readyTimeout = 2 * time.Second // for a question to a database, so that one that hangs does not block the page

// Operated is the state used by the server's own operations. Commands are made before the services are open, so package
// app fills it in later.
type Operated struct {
	ReadOnly readonly.Switch // its Services and Setting are set when services are open
	Alerts   alerts.Alerts
	Backups  backup.Scheduler
	Copies   Copies
	Sweeps   Sweeps
	Log      *obs.Tail                               // nil until the services are open
	Changes  *changes.Log                            // nil until the services are open
	Reload   func(context.Context) (Reloaded, error) // nil until the services are open
}

// Operations returns the server's own operations. Their routes, pages and commands have no service name.
func Operations(o *Operated) []operate.Operation {
	return operate.InBackground(slices.Concat(
		readOnlyOperations(&o.ReadOnly), copyOperations(&o.ReadOnly), alertOperations(&o.Alerts), backupOperations(o), databaseOperations(&o.Backups), sweepOperations(&o.Sweeps), []operate.Operation{LogOperation(o)}, changeOperations(o), settingOperations(o),
	))
}

// readOnlyOperations returns the operations that stop and resume a service's writes.
func readOnlyOperations(w *readonly.Switch) []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "read-only", Doc: "List which services are read-only, and by whom", Rows: "services",
			Group: "Make a service read-only, e.g. before database maintenance", Title: "Read-only", Empty: "No service can be read-only.",
			Text: "A read-only service answers writes with 503 and Retry-After, on every server that uses its database. Reads go on. holdfast copy makes its source read-only for its last pass, and leaves it so when everything is copied.",
		}, listReadOnly(w)),
		operate.NewChange(operate.About{
			Path: "read-only/on", Doc: "Make a service read-only, on every server that uses its database", Button: "Stop writes", Danger: true,
			Ask: "Client writes get 503 until you accept them again.",
		}, setReadOnly(w, true)),
		operate.NewChange(operate.About{Path: "read-only/off", Doc: "Accept writes to a service again", Button: "Accept writes"}, setReadOnly(w, false)),
	}
}

// readOnlyState is a state with its explanation, like shownState.
type readOnlyState struct {
	state service.State
	text  string
}

func (s readOnlyState) String() string { return s.text }

func (s readOnlyState) Cell() service.Cell { return service.Cell{State: s.state, Text: s.text} }

// copyBy is the process that copies the database.
type copyBy string

func (c copyBy) String() string {
	return "in progress, by " + string(c) + "; the page Copies follows it"
}

// readOnlyOutput is a service's state, which is stored in its database.
type readOnlyOutput struct {
	Service  string        `json:"service" title:"Service" subject:"service"`
	State    readOnlyState `json:"-" title:"State"`
	ReadOnly *bool         `json:"readOnly,omitempty" doc:"missing: database not readable"`
	By       string        `json:"by,omitempty" doc:"operator who made it read-only" example:"an operator"`
	Since    time.Time     `json:"since,omitzero" doc:"when it became read-only"`
	Until    time.Time     `json:"until,omitzero" doc:"end, unless a running copy extends it"`
	Copy     copyBy        `json:"copy,omitempty" title:"Copy" zero:"-" doc:"process copying the database"`
	Problem  string        `json:"problem,omitempty" doc:"other reason for refusing writes, or for an unknown state"`
	Fix      string        `json:"fix,omitempty" title:"Fix" zero:"-" doc:"how to end read-only if read-only/off does not"`

	offers string // the row button's verb; "": none
}

func (o readOnlyOutput) Offers(verb string) bool { return verb == o.offers }

// listReadOnly leaves out services without tables, which cannot be read-only.
func listReadOnly(w *readonly.Switch) func(context.Context, operate.None) ([]readOnlyOutput, error) {
	return func(ctx context.Context, _ operate.None) (all []readOnlyOutput, err error) {
		for _, s := range w.Services {
			if db := s.Rows(); db != nil {
				all = append(all, readOnlyRow(ctx, w, s.Name, db))
			}
		}
		return all, nil
	}
}

// readOnlyRow reads who made the service read-only. Only after an operator stopped it a button resumes it; after
// a copy, or with server.read_only, Fix gives the way out.
func readOnlyRow(ctx context.Context, w *readonly.Switch, name string, db rows.Database) readOnlyOutput {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var copied copying.State
	hold, err := db.ReadOnly(ctx, name)
	if err == nil {
		err = db.View(ctx, func(v rows.View) (err error) { copied, err = copying.ReadState(v, name); return err })
	}
	o := readOnlyOutput{Service: name, State: readOnlyState{service.OK, "accepts writes"}}
	if copied.Claim != nil {
		o.Copy = copyBy(copied.Claim.By)
	}
	if err != nil {
		o.Problem = failureText(err)
		o.State = readOnlyState{service.Wrong, o.Problem}
		return o
	}
	isReadOnly := hold.Holder != ""
	o.ReadOnly, o.By, o.Since, o.Until = &isReadOnly, hold.Holder, hold.Since, hold.Until
	switch {
	case copied.IsPart():
		o.Problem = copying.ErrPart.Error()
		o.State = readOnlyState{service.Wrong, o.Problem}
	case !isReadOnly && copied.Claim != nil: // the copy makes it read-only itself
	case !isReadOnly && w.Setting.Load():
		o.State.text += ": server.read_only is not applied yet"
	case !isReadOnly:
		o.offers = "on"
	default:
		o.State = readOnlyState{service.Warning, w.Describe(name, hold)}
		switch {
		case hold.Holder == readonly.ByOperator && !w.Setting.Load():
			o.offers = "off"
		case hold.Until.IsZero():
			o.Fix = readonly.End(name, hold.Holder)
		default:
			o.Fix = "wait until the copy ends and prints the settings to change"
		}
	}
	return o
}

type readOnlyInput struct {
	Service string `subject:"service" doc:"service name, as in the configuration"`
}

type readOnlyChange struct {
	Service  string `json:"service"`
	ReadOnly bool   `json:"readOnly"`
}

func (c readOnlyChange) Notice() string {
	if c.ReadOnly {
		return c.Service + " is read-only"
	}
	return c.Service + " accepts writes again"
}

// setReadOnly makes a service read-only, or ends it.
func setReadOnly(w *readonly.Switch, to bool) func(context.Context, readOnlyInput) (readOnlyChange, error) {
	return func(ctx context.Context, in readOnlyInput) (readOnlyChange, error) {
		return readOnlyChange{in.Service, to}, w.Set(ctx, in.Service, to)
	}
}

// readyCell is the state on the service's card: ready, read-only, or its database's error.
func readyCell(ctx context.Context, s *service.Running) service.Cell {
	ready, db := service.Cell{State: service.OK, Text: "ready"}, s.Rows()
	if db == nil {
		return ready
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	hold, err := db.ReadOnly(ctx, s.Name)
	switch {
	case err != nil: // the database became unreachable
		return service.Cell{State: service.Wrong, Text: failureText(err)}
	case hold.Holder != "":
		return service.Cell{State: service.Warning, Text: readonly.Describe(hold, ""), To: "read-only"}
	}
	return ready
}

// failureText returns the message for operators, or an error's whole text without one.
func failureText(err error) string {
	if text := errcode.Message(err); text != "" {
		return text
	}
	return err.Error()
}
