package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
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
	if o.Noun() != "walls" || o.Verb() != "paint" || o.Subject() == nil || o.Subject().Name != "wall" || !slices.Equal(o.Names, []string{"wall"}) {
		t.Errorf("%+v", o)
	}
	r, err := o.Run(t.Context(), map[string]string{"wall": "north", "color": "red", "dry": "true"}, nil)
	if err != nil || (got != paint{"north", "red", 2, true}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if row := r.Rows[0]; r.Notice != "wall north is painted" || row.Subjects["wall"] != "north" || row.Cells[1] != 2 || len(row.Cells) != 3 || row.Offers("paint") {
		t.Errorf("%+v", r)
	}
	for reason, values := range map[string]map[string]string{
		"wall: must not be empty":        {},
		"coats: expected a whole number": {"wall": "a", "coats": "2.5"},
		"dry: expected true or false":    {"wall": "a", "dry": "maybe"},
		"coats: must be at least 1":      {"wall": "a", "coats": "0"},
	} {
		_, err := o.Run(t.Context(), values, nil)
		if checked := o.Check(values); fmt.Sprint(checked) != fmt.Sprint(err) {
			t.Errorf("%v: checked %v, run %v", values, checked, err)
		}
		if wrong, ok := errors.AsType[*operate.InputError](err); !ok || wrong.Error() != reason || !errcode.Is(err, errcode.Invalid) || errcode.Message(err) != reason {
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
	if _, err := o.Run(t.Context(), nil, nil); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	for want, some := range map[string][]wall{
		`{"walls":[]}`: {},
		`{"walls":[{"name":"a","coats":0},{"name":"b","coats":1,"at":"1970-01-01T00:00:00Z"}]}`: {{Name: "a", Inner: "x"}, {Name: "b", Coats: 1, At: time.Unix(0, 0).UTC()}},
	} {
		walls = some
		r, err := o.Run(t.Context(), nil, nil)
		if err != nil || len(r.Rows) != len(some) {
			t.Fatalf("%+v, %v", r, err)
		}
		if text, err := json.Marshal(r.JSON()); err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
		for i, row := range r.Rows {
			if row.Subjects["wall"] != some[i].Name || row.Offers("paint") != (some[i].Coats == 0) {
				t.Errorf("%+v", row)
			}
		}
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	type brick struct {
		House string `subject:"house,flag" value:"NAME" doc:"NAME of the house"`
		Row   int    `subject:"row" doc:"row of the brick"`
		Color string `flag:"color" doc:"its color"`
	}
	type laid struct {
		Row   int    `json:"row" subject:"row"`
		House string `json:"house" title:"House" subject:"house"`
	}
	o := operate.NewRead(operate.About{Path: "bricks/show", Doc: "Show a brick"}, func(_ context.Context, in brick) (laid, error) { return laid{in.Row, in.House}, nil })
	all := o.Subjects()
	if len(all) != 2 || !all[0].IsFlag || all[0].Value != "NAME" || all[1].IsFlag || o.Subject().Name != "row" || len(o.Others()) != 1 || !slices.Equal(o.Names, []string{"row", "house"}) || o.Columns[0].Subject != "house" {
		t.Errorf("%+v", o)
	}
	r, err := o.Run(t.Context(), map[string]string{"house": "a", "row": "7"}, nil)
	if want := map[string]string{"house": "a", "row": "7"}; err != nil || !maps.Equal(r.Rows[0].Subjects, want) {
		t.Errorf("%+v, %v", r, err)
	}
	for want, values := range map[string]map[string]string{
		"house: must not be empty":     {"row": "7"},
		"row: must not be empty":       {"house": "a"},
		"row: expected a whole number": {"house": "a", "row": "x"},
	} {
		if err := o.Check(values); fmt.Sprint(err) != want {
			t.Errorf("%v: %v, want %s", values, err, want)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	type brick struct {
		N      int    `json:"n" cursor:"" title:"Number" zero:"none"`
		Weight weight `json:"weight" title:"Weight"`
	}
	o := operate.With(operate.NewList(operate.About{Path: "walls", Rows: "bricks", Doc: "List"}, func(_ context.Context, in operate.Page[int64]) (all []brick, _ error) {
		for n := int(in.After) + 1; n <= 5 && len(all) < in.Limit; n++ {
			all = append(all, brick{n, 2})
		}
		return all, nil
	}), "total", func(context.Context) (int, error) { return 5, nil })
	if !o.IsPaged() || o.Input("limit").Default != "100" || o.RowsMember() != "bricks" {
		t.Errorf("%+v", o)
	}
	for _, c := range []struct{ after, limit, want string }{
		{"", "", `{"bricks":[{"n":1,"weight":2},{"n":2,"weight":2},{"n":3,"weight":2},{"n":4,"weight":2},{"n":5,"weight":2}],"next":null,"total":5}`},
		{"3", "1", `{"bricks":[{"n":4,"weight":2}],"next":4,"total":5}`},
		{"4", "1", `{"bricks":[{"n":5,"weight":2}],"next":5,"total":5}`},
		{"5", "1", `{"bricks":[],"next":null,"total":5}`},
	} {
		r, err := o.Run(t.Context(), map[string]string{"after": c.after, "limit": c.limit}, nil)
		if err != nil {
			t.Fatal(err)
		}
		value, err := o.JSON(t.Context(), r)
		if text, _ := json.Marshal(value); err != nil || string(text) != c.want {
			t.Errorf("%+v: %s, %v", c, text, err)
		}
	}
	for want, values := range map[string]map[string]string{
		"limit: must be at least 1":      {"limit": "0"},
		"after: must be at least 0":      {"after": "-1"},
		"after: expected a whole number": {"after": "x"},
	} {
		if err := o.Check(values); fmt.Sprint(err) != want {
			t.Errorf("%v: %v, want %s", values, err, want)
		}
	}
	latest := operate.NewList(operate.About{Path: "walls", Doc: "List"}, func(_ context.Context, in operate.Latest) ([]wall, error) { return make([]wall, in.Limit), nil })
	if r, err := latest.Run(t.Context(), map[string]string{"limit": "2"}, nil); err != nil || len(r.Rows) != 2 || r.Next != nil || latest.IsPaged() {
		t.Errorf("%+v, %v", r, err)
	}
}

type weight int

func (w weight) String() string { return fmt.Sprintf("%d kg", int(w)) }

func TestRead(t *testing.T) {
	t.Parallel()
	type detail struct {
		Plan json.RawMessage `json:"plan" text:"Plan"`
		wall
		Color string `json:"color,omitempty" title:"Color" zero:"unknown"`
		Note  string `json:"note" text:"Note"`
	}
	type one struct {
		Wall string `subject:"wall" doc:"name of the wall"`
	}
	o := operate.NewRead(operate.About{Path: "walls/show", Doc: "Show a wall"}, func(_ context.Context, in one) (detail, error) {
		return detail{Plan: json.RawMessage(`{"a":[1]}`), wall: wall{Name: in.Wall}, Note: "x"}, nil
	})
	r, err := o.Run(t.Context(), map[string]string{"wall": "north"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	if want := []operate.Text{{"Plan", "{\n  \"a\": [\n    1\n  ]\n}"}, {"Note", "x"}}; !reflect.DeepEqual(row.Texts, want) || row.Subjects["wall"] != "north" || o.Kind.Changes() {
		t.Errorf("%+v", row)
	}
	if want := []any{"north", 0, time.Time{}, "unknown"}; !reflect.DeepEqual(row.Cells, want) || o.Columns[0].Subject != "wall" || o.Columns[1].Subject != "" {
		t.Errorf("%+v, %+v", row.Cells, o.Columns)
	}
}

// TestMissing checks that a missing input without a default is its type's zero value.
func TestMissing(t *testing.T) {
	t.Parallel()
	type inputs struct {
		Text  string        `flag:"text" doc:"a text"`
		Int64 int64         `flag:"int64" doc:"a number" least:"1"`
		Bool  bool          `flag:"bool" doc:"true or false"`
		Time  time.Duration `flag:"time" doc:"a duration"`
		Words []string      `flag:"words" doc:"a list"`
	}
	got := inputs{Text: "x"}
	o := operate.NewChange(operate.About{Path: "walls/try", Doc: "Try"}, func(_ context.Context, in inputs) (painted, error) {
		got = in
		return painted{}, nil
	})
	if _, err := o.Run(t.Context(), nil, nil); err != nil || got.Text != "" || got.Int64 != 0 || got.Bool || got.Time != 0 || len(got.Words) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := o.Run(t.Context(), map[string]string{"int64": "0"}, nil); err == nil {
		t.Error("a given 0 is below the minimum")
	}
}

func TestJob(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	o := operate.NewJob(operate.About{Path: "walls/paint-all", Doc: "Paint all walls"}, func(_ context.Context, in paintAll, progress operate.Progress) (painted, error) {
		for n := range 3 {
			progress.Report(int64(n), 3)
			if n == in.Until {
				return painted{n}, failed
			}
		}
		return painted{3}, nil
	})
	for until, want := range map[string]struct {
		notice string
		err    error
		seen   []int64
	}{"5": {"3 walls", nil, []int64{0, 1, 2}}, "2": {"2 walls", failed, []int64{0, 1, 2}}, "0": {"", failed, []int64{0}}} {
		var seen []int64
		r, err := o.Run(t.Context(), map[string]string{"until": until}, func(u operate.Update) { seen = append(seen, u.Done) })
		notice := ""
		if r != nil {
			notice = r.Notice
		}
		if notice != want.notice || !errors.Is(err, want.err) || !reflect.DeepEqual(seen, want.seen) {
			t.Errorf("%s: %q, %v, %v", until, notice, err, seen)
		}
	}
	if _, err := o.Run(t.Context(), map[string]string{"until": "5"}, nil); err != nil {
		t.Errorf("nobody watches: %v", err)
	}
}

type paintAll struct {
	Until int `flag:"until" doc:"which wall fails" default:"9"`
}

type painted struct {
	Walls int `json:"walls"`
}

func (p painted) Notice() string {
	if p.Walls == 0 {
		return ""
	}
	return fmt.Sprintf("%d walls", p.Walls)
}

func TestNames(t *testing.T) {
	t.Parallel()
	if got := operate.Camel("revoke-all-dead-letters"); got != "revokeAllDeadLetters" {
		t.Error(got)
	}
	for want, about := range map[string]operate.About{"Paint all": {Path: "walls/paint-all", Doc: "Paint"}, "Paint!": {Path: "walls/paint", Doc: "Paint", Button: "Paint!"}} {
		o := operate.NewChange(about, func(context.Context, operate.None) (wall, error) { return wall{}, nil })
		if o.Label() != want {
			t.Errorf("%s, want %s", o.Label(), want)
		}
	}
	for button, want := range map[string]string{"": "Paint wall w", "Delete wall": "Delete wall w", "Stop paint": "Stop paint: wall w"} {
		o := operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint", Button: button}, func(context.Context, recordInput) (wall, error) { return wall{}, nil })
		if got := o.LabelOf("wall w"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

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
		part struct {
			Wall  string `subject:"wall" doc:"the wall"`
			After string `flag:"after" doc:"next from the previous part"`
		}
		unknown struct {
			Coats float64 `flag:"coats" doc:"how often"`
		}
		misspelled struct {
			Color string `flag:"color" doc:"the color" loged:""`
		}
		embedding struct{ misspelled }
		row       struct {
			Name string `json:"name" titel:"Wall"`
		}
		brick struct {
			Kind string `json:"kind" enums:"clay"`
		}
		bricks struct {
			All []brick `json:"bricks" table:"Bricks"`
		}
	)
	for part, declare := range map[string]func(){
		`operation "walls/paint": expected a noun alone`:                  func() { list[operate.None]("walls/paint", "List") },
		`operation "walls": expected a doc`:                               func() { list[operate.None]("walls", "") },
		"field Color of operate_test.noDoc":                               func() { list[noDoc]("walls", "List") },
		"field Color of operate_test.noName":                              func() { list[noName]("walls", "List") },
		"field Wall of operate_test.late":                                 func() { list[late]("walls", "List") },
		"field Coats of operate_test.noDefault: expected the tag default": func() { list[noDefault]("walls", "List") },
		"field Coats of operate_test.unknown":                             func() { list[unknown]("walls", "List") },
		`operate_test.misspelled: unknown tag "loged": expected flag, `:   func() { list[misspelled]("walls", "List") },
		`operate_test.embedding: unknown tag "loged"`:                     func() { list[embedding]("walls", "List") },
		`operate_test.row: unknown tag "titel": expected json, title, `:   func() { listOf[row]() },
		`operate_test.brick: unknown tag "enums": expected json, title, `: func() { listOf[bricks]() },
		`operation "walls": expected the tag cursor`:                      func() { list[operate.Page[string]]("walls", "List") },
		`operation "walls/show": expected the tag cursor`: func() {
			operate.NewRead(operate.About{Path: "walls/show", Doc: "Show"}, func(context.Context, part) (wall, error) { return wall{}, nil })
		},
		`operation "walls/show": expected the tag`: func() {
			operate.NewRead(operate.About{Path: "walls/show", Doc: "Show"}, func(context.Context, operate.None) (wall, error) { return wall{}, nil })
		},
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

func listOf[Out any]() {
	operate.NewList(operate.About{Path: "walls", Doc: "List"}, func(context.Context, operate.None) ([]Out, error) { return nil, nil })
}

func list[In any](path, doc string) {
	operate.NewList(operate.About{Path: path, Doc: doc}, func(context.Context, In) ([]wall, error) { return nil, nil })
}

type wallName struct {
	Wall string `subject:"wall" doc:"the wall"`
}

func (in wallName) Check() error {
	if in.Wall == "none" {
		return &operate.InputError{Input: "wall", Reason: "expected a wall"}
	}
	return nil
}

type wallColor struct {
	Color string `flag:"color" doc:"the color"`
}

func (in *wallColor) Check() error {
	if in.Color == "none" {
		return &operate.InputError{Input: "color", Reason: "expected a color"}
	}
	return nil
}

// bothChecks lacks a Check method, because both embedded structs promote theirs.
type bothChecks struct {
	wallName
	wallColor
}

// allChecks hides the Check methods of the embedded structs.
type allChecks struct {
	bothChecks
	Coats int `flag:"coats" doc:"how often" default:"1"`
}

func (in allChecks) Check() error {
	if in.Wall == "none" || in.Color == "none" {
		return errors.New("the embedded structs were not checked before")
	}
	if in.Coats == 7 {
		return &operate.InputError{Input: "coats", Reason: "expected fewer"}
	}
	return nil
}

// TestEmbeddedChecks checks that Check is called on each embedded struct in field order, and then on the struct
// itself.
func TestEmbeddedChecks(t *testing.T) {
	t.Parallel()
	about := operate.About{Path: "walls/paint", Doc: "Paint a wall"}
	both := operate.NewChange(about, func(context.Context, bothChecks) (wall, error) { return wall{}, nil })
	all := operate.NewChange(about, func(context.Context, allChecks) (wall, error) { return wall{}, nil })
	for _, c := range []struct {
		o                        *operate.Operation
		wall, color, coats, want string
	}{
		{&both, "a", "red", "", ""},
		{&both, "none", "none", "", "wall: expected a wall"},
		{&both, "a", "none", "", "color: expected a color"},
		{&all, "a", "red", "1", ""},
		{&all, "none", "red", "7", "wall: expected a wall"},
		{&all, "a", "none", "7", "color: expected a color"},
		{&all, "a", "red", "7", "coats: expected fewer"},
	} {
		values := map[string]string{"wall": c.wall, "color": c.color, "coats": c.coats}
		text := ""
		if err := c.o.Check(values); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%v: %q, want %q", values, text, c.want)
		}
	}
}
