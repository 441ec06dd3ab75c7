package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/internal/fault"
	"holdfast/internal/operate"
)

type paint struct {
	Wall  string `subject:"wall" doc:"name of the wall"`
	Color string `flag:"color" doc:"the new color"`
	Coats int    `flag:"coats" doc:"how often" default:"2"`
	Dry   bool   `flag:"dry" doc:"wait until it is dry"`
}

func (p paint) Check() error {
	if p.Coats < 1 {
		return &operate.InputError{Input: "coats", Reason: "must be at least 1"}
	}
	return nil
}

type wall struct {
	Name  string    `json:"name" title:"Wall" subject:"wall"`
	Coats int       `json:"coats" title:"Coats"`
	At    time.Time `json:"at,omitzero" title:"Painted"`
	Inner string    `json:"-"`
}

func (w wall) Notice() string          { return "wall " + w.Name + " is painted" }
func (w wall) Offers(verb string) bool { return verb == "paint" && w.Coats == 0 }

func TestChange(t *testing.T) {
	t.Parallel()
	var got paint
	o := operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint a wall"}, func(_ context.Context, in paint) (wall, error) {
		got = in
		return wall{Name: in.Wall, Coats: in.Coats}, nil
	})
	if o.Noun() != "walls" || o.Verb() != "paint" || o.Subject() == nil || o.Subject().Name != "wall" || o.Names != "wall" {
		t.Errorf("%+v", o)
	}
	r, err := o.Run(t.Context(), map[string]string{"wall": "north", "color": "red", "dry": "true"})
	if err != nil || (got != paint{"north", "red", 2, true}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if row := r.Rows[0]; r.Notice != "wall north is painted" || row.Subject != "north" || row.Cells[1] != 2 || len(row.Cells) != 3 || row.Offers("paint") {
		t.Errorf("%+v", r)
	}
	for reason, values := range map[string]map[string]string{
		"wall: must not be empty":        {},
		"coats: expected a whole number": {"wall": "a", "coats": "2.5"},
		"dry: expected true or false":    {"wall": "a", "dry": "maybe"},
		"coats: must be at least 1":      {"wall": "a", "coats": "0"},
	} {
		_, err := o.Run(t.Context(), values)
		if wrong, ok := errors.AsType[*operate.InputError](err); !ok || wrong.Error() != reason || !fault.Is(err, fault.Invalid) || fault.Message(err) != reason {
			t.Errorf("%v: %v, want %s", values, err, reason)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	var walls []wall
	failed := errors.New("failed")
	o := operate.NewList(operate.About{Path: "walls", Doc: "List the walls"}, func(context.Context, operate.None) ([]wall, error) {
		if walls == nil {
			return nil, failed
		}
		return walls, nil
	})
	if o.Noun() != "walls" || o.Verb() != "list" || o.Subject() != nil || len(o.Columns) != 3 || !o.Columns[1].IsNumber() || !o.Columns[2].IsTime() {
		t.Errorf("%+v", o)
	}
	if _, err := o.Run(t.Context(), nil); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	for want, some := range map[string][]wall{
		`{"walls":[]}`: {},
		`{"walls":[{"name":"a","coats":0},{"name":"b","coats":1,"at":"1970-01-01T00:00:00Z"}]}`: {{Name: "a", Inner: "x"}, {Name: "b", Coats: 1, At: time.Unix(0, 0).UTC()}},
	} {
		walls = some
		r, err := o.Run(t.Context(), nil)
		if err != nil || len(r.Rows) != len(some) {
			t.Fatalf("%+v, %v", r, err)
		}
		if text, err := json.Marshal(r.Value); err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
		for i, row := range r.Rows {
			if row.Subject != some[i].Name || row.Offers("paint") != (some[i].Coats == 0) {
				t.Errorf("%+v", row)
			}
		}
	}
}

// A wrong declaration panics, and says what is wrong.
func TestWrongDeclarations(t *testing.T) {
	t.Parallel()
	type (
		noDoc struct {
			Color string `flag:"color"`
		}
		noName struct {
			Color string `doc:"the color"`
		}
		late struct {
			Color string `flag:"color" doc:"the color"`
			Wall  string `subject:"wall" doc:"the wall"`
		}
		noDefault struct {
			Coats int `flag:"coats" doc:"how often"`
		}
		unknown struct {
			Coats float64 `flag:"coats" doc:"how often"`
		}
	)
	for part, declare := range map[string]func(){
		`operation "walls/paint": expected a noun`: func() { list[operate.None]("walls/paint", "List") },
		`operation "walls": expected a noun`:       func() { list[operate.None]("walls", "") },
		"field Color of operate_test.noDoc":        func() { list[noDoc]("walls", "List") },
		"field Color of operate_test.noName":       func() { list[noName]("walls", "List") },
		"field Wall of operate_test.late":          func() { list[late]("walls", "List") },
		"field Coats of operate_test.noDefault":    func() { list[noDefault]("walls", "List") },
		"field Coats of operate_test.unknown":      func() { list[unknown]("walls", "List") },
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.Contains(text, part) {
					t.Errorf("%q, want %s", text, part)
				}
			}()
			declare()
		}()
	}
}

func list[In any](path, doc string) {
	operate.NewList(operate.About{Path: path, Doc: doc}, func(context.Context, In) ([]wall, error) { return nil, nil })
}
