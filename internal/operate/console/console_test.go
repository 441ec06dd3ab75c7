package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type paint struct {
	Wall string `subject:"wall" doc:"name of the wall"`
	Dry  bool   `flag:"dry" doc:"wait until it is dry"`
}

type wall struct {
	Name  string    `json:"name" title:"Wall" subject:"wall"`
	Coats int       `json:"coats" title:"Coats"`
	At    time.Time `json:"at,omitzero" title:"Painted"`
}

func (w wall) Notice() string          { return "wall " + w.Name + " is painted" }
func (w wall) Offers(verb string) bool { return verb != "paint" || w.Coats == 0 }

var errWall = errors.New("there is no such wall")

func TestPages(t *testing.T) {
	t.Parallel()
	change := func(_ context.Context, in paint) (wall, error) {
		if in.Wall == "none" {
			return wall{}, errWall
		}
		return wall{Name: fmt.Sprint(in)}, nil
	}
	all := console.Pages([]operate.Operation{
		operate.NewList(operate.About{Path: "walls", Doc: "List", Title: "Walls", Text: "All walls.", Empty: "There are no walls."}, func(context.Context, operate.None) ([]wall, error) {
			return []wall{{"a", 0, time.Unix(0, 0)}, {Name: "b", Coats: 1}}, nil
		}),
		operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint", Ask: "It stays."}, change),
		operate.NewChange(operate.About{Path: "walls/build", Doc: "Build", Button: "Build a wall", NewRow: true, Danger: true}, change),
	})
	if len(all) != 1 || all[0].Path != "walls" || all[0].Title != "Walls" || !all[0].Listed || len(all[0].Actions) != 2 {
		t.Fatalf("%+v", all)
	}
	view, err := all[0].Show(t.Context(), &service.PageRequest{})
	if err != nil {
		t.Fatal(err)
	}
	button := service.Form{Action: "paint", Submit: "Paint", Label: "Paint wall a", Ask: "It stays.", Keep: map[string]string{"wall": "a"}}
	want := []service.Block{
		&service.Text{Body: "All walls."},
		&service.Table{
			Empty:   "There are no walls.",
			Columns: []service.Column{{Title: "Wall"}, {Title: "Coats", Number: true}, {Title: "Painted"}, {Title: "Action"}},
			Rows: [][]service.Cell{
				{{Text: "a"}, {Text: "0"}, {Text: "1970-01-01 00:00:00 UTC"}, {Forms: []service.Form{button}}},
				{{Text: "b"}, {Text: "1"}, {Text: "-"}, {}},
			},
		},
		&service.Form{Action: "build", Submit: "Build a wall", Danger: true, Fields: []service.Field{
			{Name: "wall", Label: "Wall", Help: "name of the wall"}, {Name: "dry", Label: "Dry", Help: "wait until it is dry", Optional: true, Checkbox: true},
		}},
	}
	if !reflect.DeepEqual(view.Blocks, want) {
		t.Errorf("%+v, want %+v", view.Blocks, want)
	}
	action := all[0].Actions[0]
	if action.Name != "paint" || !reflect.DeepEqual(action.Logged, []string{"wall"}) {
		t.Errorf("%+v", action)
	}
	r := &service.PageRequest{Values: url.Values{"wall": {"a"}, "dry": {"yes"}}}
	if o, err := action.Run(t.Context(), r); err != nil || o.Notice != "wall {a true} is painted" || r.Value("wall") != "{a true}" {
		t.Errorf("%+v, %v, %v", o, err, r.Values)
	}
	if _, err := action.Run(t.Context(), &service.PageRequest{Values: url.Values{"wall": {"none"}}}); !errors.Is(err, errWall) {
		t.Errorf("%v", err)
	}
}
