package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"holdfast/internal/errcode"
)

// operations returns the operations on runs. They have no commands, because only the server process knows its runs.
func (r *Runs) operations() []Operation {
	return []Operation{
		NewList(About{
			Access: ForViewers, Path: "runs", Doc: "List background jobs since the server started", ServerOnly: true,
			Group: "Manage background jobs", Title: "Background jobs", Empty: "No background job has run since the server started.",
		}, func(context.Context, None) (all []runOutput, _ error) {
			for _, run := range r.list() {
				all = append(all, run.output())
			}
			return all, nil
		}),
		NewRead(About{Access: ForViewers, Path: "runs/show", Doc: "Show a background job and its result", Title: "Background job", ServerOnly: true}, func(_ context.Context, in runInput) (RunDetail, error) {
			run, err := r.find(in.Run)
			if err != nil {
				return RunDetail{}, err
			}
			return run.Detail()
		}),
		NewChange(About{Path: "runs/stop", Doc: "Stop a background job", ServerOnly: true, Danger: true}, func(_ context.Context, in runInput) (runStop, error) {
			run, err := r.find(in.Run)
			switch {
			case err != nil:
				return runStop{}, err
			case run.HasEnded():
				return runStop{}, errcode.New(errcode.Conflict, "the job has already ended")
			}
			run.stop()
			return runStop{run.ID}, nil
		}),
	}
}

type runInput struct {
	Run string `subject:"run" doc:"run ID"`
}

type runStop struct {
	ID string `json:"id" subject:"run" example:"k7f2m4zq3vtb5wnx6y2jd7ecoa"`
}

func (runStop) Notice() string { return "the job is being stopped" }

type runOutput struct {
	ID        string          `json:"id" title:"Run" subject:"run" example:"k7f2m4zq3vtb5wnx6y2jd7ecoa"`
	Operation string          `json:"operation" title:"Job" example:"toys/paint"`
	Inputs    json.RawMessage `json:"inputs" doc:"input values, by name"`
	State     RunState        `json:"state" title:"State" enum:"running,waiting,done,incomplete,stopped,failed"`
	Step      string          `json:"step,omitempty" doc:"current step"`
	Done      int64           `json:"done" least:"0" doc:"done in this step"`
	Total     int64           `json:"total,omitempty" least:"0" doc:"total for this step; missing: unknown"`
	Progress  string          `json:"-" title:"Progress"`
	Waits     string          `json:"waits,omitempty" title:"Waits" doc:"resource it waits for"`
	Began     time.Time       `json:"began" title:"Began"`
	Ended     time.Time       `json:"ended,omitzero" title:"Ended"`
	Error     string          `json:"error,omitempty" title:"Error" doc:"error"`
}

// Offers lets a run be stopped until it ended.
func (o runOutput) Offers(string) bool { return o.Ended.IsZero() }

// RunDetail is a run with its rows and its result. The API sends it for a started job, and package openapi describes
// it.
type RunDetail struct {
	runOutput
	Found  []json.RawMessage `json:"found" doc:"the first 100 rows found"`
	Result json.RawMessage   `json:"result,omitempty" text:"Result" doc:"the operation's result, once it has ended"`
}

// output returns a run's row. Secret inputs are left out.
func (r *Run) output() runOutput {
	shown := map[string]string{}
	for _, in := range r.Operation.Inputs {
		if value, ok := r.Inputs[in.Name]; ok && !in.Secret {
			shown[in.Name] = value
		}
	}
	inputs, _ := json.Marshal(shown)
	o := runOutput{
		ID: r.ID, Operation: r.Operation.Path, Inputs: inputs, State: r.State, Step: r.Latest.Step, Done: r.Latest.Done, Total: r.Latest.Total,
		Waits: r.Latest.Waits, Began: r.Began, Ended: r.Ended, Error: r.Reason(),
	}
	if !r.HasEnded() {
		o.Progress = r.Progress()
	}
	return o
}

// Progress returns the amounts as text, e.g. "bucket photos 3 of 7".
func (r *Run) Progress() string {
	u := &r.Latest
	text := strconv.FormatInt(u.Done, 10)
	if u.Total > 0 {
		text = fmt.Sprintf("%d of %d", u.Done, u.Total)
	}
	if u.Step != "" {
		text = u.Step + " " + text
	}
	return text
}

// Detail returns the run as the API sends it. The error comes from encoding its rows or its result as JSON.
func (r *Run) Detail() (d RunDetail, err error) {
	d = RunDetail{runOutput: r.output(), Found: []json.RawMessage{}}
	for _, row := range r.Found {
		text, err := json.Marshal(row.Value)
		if err != nil {
			return d, err
		}
		d.Found = append(d.Found, text)
	}
	if r.Result != nil {
		d.Result, err = json.Marshal(r.Result.JSON())
	}
	return d, err
}
