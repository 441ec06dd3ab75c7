package console_test

import (
	"context"
	"log/slog"
	"net/url"
	"reflect"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type crack struct {
	Where string `json:"where" title:"Where"`
}

type inspected struct {
	Bricks int `json:"bricks" title:"Bricks"`
}

type inspect struct {
	Loud   bool   `flag:"loud" doc:"say it"`
	Pass   string `flag:"pass" doc:"what opens the gate" secret:""`
	Hidden bool   `flag:"hidden" doc:"only of the command" local:""`
}

func (inspected) Notice() string { return "inspected" }

// TestRuns checks that a running job's page shows its progress and a stop button instead of the start form.
func TestRuns(t *testing.T) {
	t.Parallel()
	progress, end := make(chan operate.Progress), make(chan struct{})
	all := operate.InBackground([]operate.Operation{operate.WithFound[crack](
		operate.NewJob(operate.About{Path: "inspections/run", Doc: "Inspect", Title: "Inspections", Button: "Start", Background: true, Begun: "the inspection has begun", Stop: "Stop the inspection"},
			func(_ context.Context, _ inspect, p operate.Progress) (inspected, error) {
				progress <- p
				<-end
				return inspected{7}, nil
			}), "Cracks", "There are no cracks so far.",
	)})
	now := time.Unix(0, 0)
	runs := operate.RunsOf(all)
	runs.Begin(t.Context(), func() time.Time { return now }, slog.New(slog.DiscardHandler))
	t.Cleanup(runs.End)
	pages := console.Pages(nil, all)
	form := &service.Form{Action: "run", Title: "Inspections", Submit: "Start", Fields: []service.Field{{Name: "loud", Label: "Loud", Help: "say it", Optional: true, Checkbox: true}, {Name: "pass", Label: "Pass", Help: "what opens the gate", Optional: true, Secret: true}}}
	if blocks := show(t, &pages[0], nil).Blocks; !reflect.DeepEqual(blocks, []service.Block{form}) {
		t.Errorf("before: %+v", blocks)
	}
	start := pages[0].Actions[0]
	if names := logged(all, pages[0].Path+"/"+start.Name); !reflect.DeepEqual(names, []string{"loud"}) {
		t.Errorf("logged: %v", names)
	}
	o, err := start.Run(t.Context(), &service.PageRequest{Values: url.Values{"loud": {"yes"}}})
	if err != nil || o.Notice != "the inspection has begun" || o.View != nil {
		t.Fatalf("%+v, %v", o, err)
	}
	p := <-progress
	p.Step("walls", 1, 4)
	p.Find(crack{"north"})
	began := service.Fact{Name: "Began", Cell: service.TimeCell(now)}
	table := &service.Table{Title: "Cracks", Empty: "There are no cracks so far.", Columns: []service.Column{{Title: "Where"}}, Rows: [][]service.Cell{{{Text: "north"}}}}
	run, _ := all[0].Latest()
	want := []service.Block{
		&service.Live{Every: time.Second, Blocks: []service.Block{&service.Facts{Rows: []service.Fact{
			{Name: "State", Cell: service.Cell{State: service.OK, Text: "running"}}, began,
			{Name: "Progress", Cell: service.Cell{Text: "walls 1 of 4", Share: 1, Most: 4, Whole: true}},
		}}, table}},
		&service.Form{Page: "runs", Action: "stop", Submit: "Stop the inspection", Danger: true, Keep: map[string]string{"run": run.ID}},
	}
	if blocks := show(t, &pages[0], nil).Blocks; !reflect.DeepEqual(blocks, want) {
		t.Errorf("%+v, want %+v", blocks, want)
	}
	close(end)
	for !run.HasEnded() {
		if t.Context().Err() != nil {
			t.Fatal("it does not end")
		}
		run, _ = all[0].Latest()
	}
	want = []service.Block{&service.Facts{Rows: []service.Fact{
		{Name: "State", Cell: service.Cell{State: service.OK, Text: "ended"}}, began, {Name: "Ended", Cell: service.TimeCell(now)}, {Name: "Bricks", Cell: service.TextCell("7")},
	}}, table, form}
	if blocks := show(t, &pages[0], nil).Blocks; !reflect.DeepEqual(blocks, want) {
		t.Errorf("%+v, want %+v", blocks, want)
	}
}
