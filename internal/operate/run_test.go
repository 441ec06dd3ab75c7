package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

type built struct {
	Bricks int `json:"bricks" title:"Bricks"`
	Left   int `json:"-"`
}

func (built) Notice() string    { return "built" }
func (b built) IsPartial() bool { return b.Left > 0 }

type crack struct {
	Where string `json:"where" title:"Where"`
}

type build struct {
	Left int    `flag:"left" doc:"bricks to leave" default:"0"`
	Pass string `flag:"pass" doc:"what opens the gate" secret:""`
}

// site is a background job that ends when the test sends an error or stops it.
type site struct {
	progress chan operate.Progress
	end      chan error
	all      []operate.Operation
	now      time.Time
}

var errPanic = errors.New("panic")

func newSite() *site {
	s := &site{progress: make(chan operate.Progress), end: make(chan error), now: time.Unix(1, 0)}
	job := operate.NewJob(operate.About{Path: "houses/build", Doc: "Build", Background: true}, func(ctx context.Context, in build, p operate.Progress) (built, error) {
		s.progress <- p
		select {
		case <-ctx.Done():
			return built{}, ctx.Err()
		case err := <-s.end:
			if errors.Is(err, errPanic) {
				panic("no mortar")
			}
			return built{7, in.Left}, err
		}
	})
	s.all = operate.InBackground([]operate.Operation{operate.WithFound[crack](job, "Cracks", "There are no cracks.")})
	return s
}

func (s *site) begin(t *testing.T) *operate.Runs {
	t.Helper()
	runs := operate.RunsOf(s.all)
	runs.Begin(t.Context(), func() time.Time { return s.now }, slog.New(slog.DiscardHandler))
	t.Cleanup(runs.End)
	return runs
}

func (s *site) call(t *testing.T, path, run string) (text string, err error) {
	t.Helper()
	at := slices.IndexFunc(s.all, func(o operate.Operation) bool { return o.Path == path })
	r, err := s.all[at].Run(t.Context(), map[string]string{"run": run}, nil)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(r.JSON())
	return string(body), err
}

func (s *site) await(t *testing.T) operate.Run {
	t.Helper()
	for {
		if run, ok := s.all[0].Latest(); ok && run.HasEnded() {
			return run
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the job does not end")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestRuns checks that only one background job runs at a time, and that it reports its progress and findings.
func TestRuns(t *testing.T) {
	t.Parallel()
	s := newSite()
	job := &s.all[0]
	if _, err := job.Start(t.Context(), nil); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("before the server has started: %v", err)
	}
	runs := s.begin(t)
	if _, ok := job.Latest(); ok {
		t.Error("a run before the first one")
	}
	if _, err := job.Start(t.Context(), map[string]string{"left": "x"}); err == nil {
		t.Error("a wrong input is accepted")
	}
	run, err := job.Start(t.Context(), map[string]string{"left": "0", "pass": "sesame"})
	if err != nil || run.State != operate.Running || run.HasEnded() || run.ID == "" {
		t.Fatalf("%+v, %v", run, err)
	}
	p := <-s.progress
	if _, err := job.Start(t.Context(), nil); !errcode.Is(err, errcode.Conflict) {
		t.Errorf("a second one: %v", err)
	}
	p.Step("walls", 3, 10)
	for range operate.MaxFound + 1 {
		p.Find(crack{"north"})
	}
	if run, _ = job.Latest(); run.Progress() != "walls 3 of 10" || len(run.Found) != operate.MaxFound || run.Found[0].Cells[0] != "north" {
		t.Errorf("%+v", run)
	}
	p.Wait("rain")
	if run, _ = job.Latest(); run.State != operate.Waiting || run.Latest.Waits != "rain" {
		t.Errorf("%+v", run)
	}
	s.end <- nil
	if run = s.await(t); run.State != operate.Done || run.Err != nil || run.Result == nil || !run.Ended.Equal(s.now) {
		t.Errorf("%+v", run)
	}
	text, err := s.call(t, "runs/show", run.ID)
	if err != nil {
		t.Error(err)
	}
	var shown struct {
		ID, Operation, State string
		Inputs               map[string]string
		Found                []crack
		Result               built
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil || shown.ID != run.ID || shown.Operation != "houses/build" || shown.State != "done" || len(shown.Found) != operate.MaxFound || shown.Result.Bricks != 7 || len(shown.Inputs) != 1 || shown.Inputs["left"] != "0" {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := s.call(t, "runs/stop", run.ID); !errcode.Is(err, errcode.Conflict) {
		t.Errorf("a job that has ended is stopped: %v", err)
	}
	if _, err := s.call(t, "runs/show", "other"); !errcode.Is(err, errcode.NotFound) {
		t.Errorf("an unknown run: %v", err)
	}
	runs.End()
	if _, err := job.Start(t.Context(), nil); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	for state, end := range map[operate.RunState]func(*site, *operate.Runs, string){
		operate.Done:       func(s *site, _ *operate.Runs, _ string) { s.end <- nil },
		operate.Incomplete: func(s *site, _ *operate.Runs, _ string) { s.end <- nil },
		operate.Failed:     func(s *site, _ *operate.Runs, _ string) { s.end <- errors.New("no bricks") },
		operate.Stopped: func(s *site, _ *operate.Runs, id string) {
			if _, err := s.call(t, "runs/stop", id); err != nil {
				t.Error(err)
			}
		},
	} {
		s := newSite()
		runs := s.begin(t)
		left := "0"
		if state == operate.Incomplete {
			left = "3"
		}
		run, err := s.all[0].Start(t.Context(), map[string]string{"left": left})
		if err != nil {
			t.Fatal(err)
		}
		<-s.progress
		end(s, runs, run.ID)
		if run = s.await(t); run.State != state || (run.Reason() != "") != (state == operate.Failed || state == operate.Stopped) {
			t.Errorf("%s: %+v", state, run)
		}
	}
	s := newSite()
	runs := s.begin(t)
	if _, err := s.all[0].Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	<-s.progress
	s.end <- errPanic
	if run := s.await(t); run.State != operate.Failed || run.Reason() != "internal error: see the server log" || !strings.Contains(run.Err.Error(), "no mortar") {
		t.Errorf("a panic: %+v", run)
	}
	if _, err := s.all[0].Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	<-s.progress
	runs.End()
	if run, ok := s.all[0].Latest(); !ok || run.State != operate.Stopped {
		t.Errorf("the server ends: %+v", run)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	type disk struct {
		Used int64  `json:"used" title:"Used" of:"Size"`
		Size *int64 `json:"size" title:"Size"`
	}
	size := int64(10)
	o := operate.NewList(operate.About{Path: "disks", Doc: "List"}, func(context.Context, operate.None) ([]disk, error) { return []disk{{3, &size}, {4, nil}}, nil })
	r, err := o.Run(t.Context(), nil, nil)
	if err != nil || r.Rows[0].Cells[0] != (operate.Share{Value: int64(3), Part: 3, Whole: 10}) || r.Rows[1].Cells[0] != int64(4) || !r.Columns[0].IsNumber() {
		t.Errorf("%+v, %v", r, err)
	}
}
