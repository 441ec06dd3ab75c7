package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// liveEvery is how often the console asks for a running job's progress.
const liveEvery = time.Second

// runs returns the jobs shown as running, so that the page does not offer to start a job that ends meanwhile.
func (p *page) runs() (blocks []service.Block, running []*operate.Operation) {
	var shown, stops []service.Block
	for _, o := range p.changes {
		run, ok := o.Latest()
		if !ok {
			continue
		}
		shown = append(shown, runBlocks(o, &run)...)
		if !run.HasEnded() {
			running = append(running, o)
			stops = append(stops, &service.Form{
				Page: "runs", Action: "stop", Submit: cmp.Or(o.Stop, "Stop the job"), Danger: true, Keep: map[string]string{"run": run.ID},
			})
		}
	}
	if len(stops) > 0 {
		shown = []service.Block{&service.Live{Every: liveEvery, Blocks: shown}}
	}
	return append(shown, stops...), running
}

// runBlocks returns the facts of a run, and its rows if the job reports rows.
func runBlocks(o *operate.Operation, run *operate.Run) []service.Block {
	f := &service.Facts{Rows: []service.Fact{{Name: "State", Cell: runState(run)}, {Name: "Began", Cell: service.TimeCell(run.Began)}}}
	if s := o.Subject(); s != nil {
		f.Title = o.Label() + " " + s.Name + " " + run.Inputs[s.Name]
	}
	switch {
	case !run.HasEnded():
		progress := service.Cell{Text: run.Progress()}
		if u := &run.Latest; u.Total > 0 {
			progress.Share, progress.Most, progress.Whole = float64(u.Done), float64(u.Total), true
		}
		f.Rows = append(f.Rows, service.Fact{Name: "Progress", Cell: progress})
	default:
		f.Rows = append(f.Rows, service.Fact{Name: "Ended", Cell: service.TimeCell(run.Ended)})
		if run.Result != nil && run.Err == nil {
			f.Rows = append(f.Rows, facts(run.Result, "").Rows...)
		}
	}
	if o.Found == nil {
		return []service.Block{f}
	}
	t := &service.Table{Title: o.Found.Title, Empty: o.Found.Empty}
	for _, c := range o.Found.Columns {
		t.Columns = append(t.Columns, service.Column{Title: c.Title, Number: c.IsNumber()})
	}
	for i := range run.Found {
		var cells []service.Cell
		for _, v := range run.Found[i].Cells {
			cells = append(cells, cell(v))
		}
		t.Rows = append(t.Rows, cells)
	}
	if len(run.Found) == operate.MaxFound {
		t.Title = fmt.Sprintf("The first %d %s; the command lists all with --json", operate.MaxFound, strings.ToLower(t.Title))
	}
	return []service.Block{f, t}
}

// runState returns a run's state with its color and its reason.
func runState(run *operate.Run) service.Cell {
	switch run.State {
	case operate.Waiting:
		return service.Cell{State: service.Warning, Text: run.Latest.Waits}
	case operate.Incomplete:
		if run.Operation.Found == nil {
			return service.Cell{State: service.Warning, Text: "ended, and something is left to do"}
		}
		return service.Cell{State: service.Warning, Text: "ended with findings"}
	case operate.Stopped, operate.Failed:
		return service.Cell{State: service.Wrong, Text: run.Reason()}
	case operate.Done:
		return service.Cell{State: service.OK, Text: "ended"}
	}
	return service.Cell{State: service.OK, Text: string(run.State)}
}
