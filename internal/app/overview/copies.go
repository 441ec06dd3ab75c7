package overview

import (
	"context"
	"fmt"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/copying"
	"holdfast/internal/db/rows"
	"holdfast/internal/operate"
	"holdfast/internal/readonly"
)

const (
	copiesLive = 2 * time.Second  // between page refreshes; copies record progress as often
	silent     = 15 * time.Second // a copy without a heartbeat for this long may have stopped
)

// copyOperations lists copies and imports. They run as other processes, so their state is read from the databases.
func copyOperations(w *readonly.Switch) []operate.Operation {
	return []operate.Operation{operate.NewList(operate.About{
		Access: operate.ForViewers, Path: "copies", Doc: "List copies and imports that use this server's databases", Group: "Follow copies and imports",
		Title: "Copies", Empty: "No copy or import uses this server's databases.", Live: copiesLive,
		Text: "holdfast copy and holdfast import run as separate processes, perhaps on other machines. They record their progress in the databases twice a second.",
	}, listCopies(w))}
}

// copyOutput is a copy or an import that uses a service's database, as its source or its target.
type copyOutput struct {
	Service string     `json:"service" title:"Service"`
	State   shownState `json:"-" title:"State"`
	Running bool       `json:"running" doc:"progress is recent"`
	Kind    string     `json:"kind" title:"Kind" enum:"copy,import"`
	Role    string     `json:"role" title:"This database is" enum:"source,target"`
	From    string     `json:"from,omitempty" title:"From" zero:"-" doc:"the source, without credentials"`
	To      string     `json:"to,omitempty" title:"To" zero:"-" doc:"the target, without credentials"`
	Shown   copyStep   `json:"-" title:"Progress"`
	Step    string     `json:"step,omitempty" example:"rows" doc:"current step"`
	Done    int64      `json:"done" least:"0" doc:"done in this step"`
	Total   int64      `json:"total,omitempty" least:"0" doc:"total for this step; missing: unknown"`
	By      string     `json:"by,omitempty" title:"Process" zero:"-" example:"process 812 on host db1"`
	Began   time.Time  `json:"began,omitzero" title:"Began"`
	At      time.Time  `json:"at,omitzero" title:"Latest sign" doc:"last progress, by the copying machine's clock"`
	Problem string     `json:"problem,omitempty" doc:"error reading the database"`
}

// copyStep shows the progress as a bar.
type copyStep struct{ copying.Step }

func (s copyStep) String() string {
	switch {
	case s.Doing == "":
		return "-"
	case s.Total > 0:
		return fmt.Sprintf("%s: %d of %d", s.Doing, s.Done, s.Total)
	}
	return fmt.Sprintf("%s: %d", s.Doing, s.Done)
}

func (s copyStep) Cell() service.Cell {
	return service.Cell{Text: s.String(), Share: float64(s.Done), Most: float64(s.Total), Whole: true}
}

// listCopies reads all databases in parallel, because a hanging database would delay the others.
func listCopies(w *readonly.Switch) func(context.Context, operate.None) ([]copyOutput, error) {
	return func(ctx context.Context, _ operate.None) (copies []copyOutput, err error) {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		all := make([]*copyOutput, len(w.Services))
		var reads sync.WaitGroup
		for i, s := range w.Services {
			if db := s.Rows(); db != nil {
				reads.Go(func() { all[i] = readCopy(ctx, s.Name, db) })
			}
		}
		reads.Wait()
		for _, c := range all {
			if c != nil {
				copies = append(copies, *c)
			}
		}
		return copies, nil
	}
}

// ofMillis returns the zero time for 0.
func ofMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// readCopy returns nil if no copy uses the database. A database that cannot be read is a row with a problem, so that
// other services' rows are shown. A partial copy without a process is an interrupted copy.
func readCopy(ctx context.Context, name string, db rows.Database) *copyOutput {
	var state copying.State
	if err := db.View(ctx, func(v rows.View) (err error) { state, err = copying.ReadState(v, name); return err }); err != nil {
		return &copyOutput{Service: name, State: shownState{service.Wrong, failureText(err)}, Problem: failureText(err)}
	}
	if state.Claim == nil && !state.IsPart() {
		return nil
	}
	o := &copyOutput{Service: name, Kind: "copy", Role: "source"}
	if state.IsImport() {
		o.Kind = "import"
	}
	if state.Target {
		o.Role = "target"
	}
	if state.Claim == nil {
		o.State = shownState{service.Warning, "interrupted: run the command again to continue it"}
		return o
	}
	c := state.Claim
	o.Kind = c.Kind
	o.From, o.To, o.By, o.Began, o.At = c.From, c.To, c.By, ofMillis(c.Began), ofMillis(c.At)
	o.Shown, o.Step, o.Done, o.Total = copyStep{c.Step}, c.Doing, c.Done, c.Total
	if age := time.Since(o.At); age.Abs() < silent { // clocks of two machines differ slightly
		o.Running, o.State = true, shownState{service.OK, "running"}
	} else {
		o.State = shownState{service.Warning, "no sign for " + formatSpan(age.Abs()) + ": if the process has stopped, run the command again"}
	}
	return o
}
