package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type paint struct {
	Wall string `subject:"wall" doc:"name of the wall"`
	Dry  bool   `flag:"dry" private:"" doc:"wait until it is dry"`
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
	operations := []operate.Operation{
		operate.NewList(operate.About{Path: "walls", Doc: "List", Title: "Walls", Text: "All walls.", Empty: "There are no walls."}, func(context.Context, operate.None) ([]wall, error) {
			return []wall{{"a", 0, time.Unix(0, 0)}, {Name: "b", Coats: 1}}, nil
		}),
		operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint", Ask: "It stays."}, change),
		operate.NewChange(operate.About{Path: "walls/build", Doc: "Build", Button: "Build a wall", NewRow: true, Danger: true}, change),
	}
	all := console.Pages(nil, operations)
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
			Columns: []service.Column{{Title: "Wall", Names: true}, {Title: "Coats", Number: true}, {Title: "Painted"}, {Title: "Action"}},
			Rows: [][]service.Cell{
				{{Text: "a"}, {Text: "0"}, service.TimeCell(time.Unix(0, 0)), {Forms: []service.Form{button}}},
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
	if action.Name != "paint" || !action.Recorded || !reflect.DeepEqual(logged(operations, "walls/paint"), []string{"wall"}) {
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

type brick struct {
	Name string          `json:"name" title:"Brick" subject:"brick" cursor:""`
	At   time.Time       `json:"at,omitzero" title:"Baked" zero:"soon"`
	Note string          `json:"note" title:"Note"`
	Plan json.RawMessage `json:"plan" text:"Plan"`
}

func (b brick) Notice() string          { return "" }
func (b brick) Offers(verb string) bool { return verb != "break" || b.Name != "c" }

type brickInput struct {
	Brick string `subject:"brick" doc:"name of the brick"`
}

func bricks(rows int) []operate.Operation {
	one := func(_ context.Context, in brickInput) (brick, error) {
		return brick{Name: in.Brick, Plan: json.RawMessage(`[]`)}, nil
	}
	job := func(context.Context, operate.None, operate.Progress) (wall, error) { return wall{Name: "x\ny"}, nil }
	return []operate.Operation{
		operate.NewList(operate.About{Path: "bricks", Doc: "List", Title: "Bricks", Empty: "None."}, func(_ context.Context, in operate.Page[string]) (all []brick, _ error) {
			for i := range min(in.Limit, rows) {
				all = append(all, brick{Name: in.After + strconv.Itoa(i)})
			}
			return all, nil
		}),
		operate.NewRead(operate.About{Path: "bricks/show", Doc: "Show", Title: "Brick"}, one),
		operate.NewChange(operate.About{Path: "bricks/break", Doc: "Break", Ask: "It is gone.", Danger: true}, one),
		operate.NewJob(operate.About{Path: "bricks/break-all", Doc: "Break all", Text: "All are gone.", Confirm: "break all"}, job),
		operate.NewChange(operate.About{Path: "kilns/light", Doc: "Light", Title: "Light a kiln", Ask: "It is hot."}, func(_ context.Context, in paint) (wall, error) {
			return wall{Name: in.Wall}, nil
		}),
		operate.NewChange(operate.About{Path: "kilns/cool", Doc: "Cool"}, func(context.Context, operate.None) (wall, error) { return wall{}, nil }),
	}
}

func show(t *testing.T, p *service.Page, values url.Values) *service.View {
	t.Helper()
	view, err := p.Show(t.Context(), &service.PageRequest{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// TestPagesOfRows checks links to the things in rows, and that a full page links to the next.
func TestPagesOfRows(t *testing.T) {
	t.Parallel()
	pages := console.Pages(nil, bricks(100))
	view := show(t, &pages[0], url.Values{"after": {"a"}, "limit": {"5"}})
	table, ok := view.Blocks[0].(*service.Table)
	if !ok || len(table.Rows) != 100 || table.Next != "a99" {
		t.Fatalf("%+v", view.Blocks[0])
	}
	want := []service.Cell{{Text: "a0", To: "bricks/show?brick=a0"}, {Text: "soon"}, {}, {Forms: []service.Form{
		{Action: "break", Submit: "Break", Label: "Break brick a0", Ask: "It is gone.", Danger: true, Keep: map[string]string{"brick": "a0"}},
	}}}
	if !reflect.DeepEqual(table.Rows[0], want) {
		t.Errorf("%+v, want %+v", table.Rows[0], want)
	}
	all := &service.Form{Action: "break-all", Submit: "Break all", Text: "All are gone.", Confirm: "break all"}
	if len(view.Blocks) != 2 || !reflect.DeepEqual(view.Blocks[1], all) {
		t.Errorf("%+v", view.Blocks)
	}
	pages = console.Pages(nil, bricks(0))
	if view = show(t, &pages[0], nil); len(view.Blocks) != 1 {
		t.Errorf("no rows: %+v", view.Blocks)
	}
	pages = console.Pages(nil, bricks(1))
	if table, ok = show(t, &pages[0], nil).Blocks[0].(*service.Table); !ok || table.Next != "" {
		t.Errorf("the last page: %+v", table)
	}
}

func TestReadPage(t *testing.T) {
	t.Parallel()
	page := console.Pages(nil, bricks(1))[1]
	view := show(t, &page, url.Values{"brick": {"b"}})
	want := &service.View{Title: "Brick b", Parents: []service.Link{{Text: "Bricks", To: "bricks"}}, Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{{Name: "Baked", Cell: service.Cell{Text: "soon"}}, {Name: "Note", Cell: service.Cell{Text: "-"}}}},
		&service.Text{Title: "Plan", Body: "[]", Copy: true},
		&service.Form{Page: "bricks", Action: "break", Submit: "Break", Label: "Break brick b", Ask: "It is gone.", Danger: true, Keep: map[string]string{"brick": "b"}},
	}}
	if page.Path != "bricks/show" || page.Listed || !reflect.DeepEqual(view, want) {
		t.Errorf("%+v, want %+v", view, want)
	}
	if view = show(t, &page, url.Values{"brick": {"c"}}); len(view.Blocks) != 2 {
		t.Errorf("a change that is not offered: %+v", view.Blocks)
	}
}

// TestOutcomes checks that a change without a notice shows its result, and that a change to a possibly deleted thing
// leads to the list.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	pages := console.Pages(nil, bricks(1))
	actions := pages[0].Actions
	o, err := actions[0].Run(t.Context(), &service.PageRequest{Values: url.Values{"brick": {"b"}}})
	facts := &service.Facts{Rows: []service.Fact{
		{Name: "Brick", Cell: service.Cell{Text: "b"}}, {Name: "Baked", Cell: service.Cell{Text: "soon"}}, {Name: "Note", Cell: service.Cell{Text: "-"}},
	}}
	if err != nil || o.View == nil || !reflect.DeepEqual(o.View.Blocks, []service.Block{facts}) || !reflect.DeepEqual(logged(bricks(1), pages[0].Path+"/"+actions[0].Name), []string{"brick"}) {
		t.Errorf("%+v, %v", o, err)
	}
	for next, values := range map[string]url.Values{"": {}, "bricks": {"return-page": {"bricks/show"}}} {
		if o, err = actions[1].Run(t.Context(), &service.PageRequest{Values: values}); err != nil || o.Notice != "wall x; y is painted" || o.Next != next {
			t.Errorf("%v: %+v, %v", values, o, err)
		}
	}
}

// TestOwnPages checks that changes' forms are on the service's own page with their noun, if any.
func TestOwnPages(t *testing.T) {
	t.Parallel()
	light := &service.Form{Title: "Light a kiln", Text: "It is hot.", Action: "light", Submit: "Light", Fields: []service.Field{
		{Name: "wall", Label: "Wall", Help: "name of the wall"}, {Name: "dry", Label: "Dry", Help: "wait until it is dry", Optional: true, Checkbox: true},
	}}
	cool := &service.Form{Action: "cool", Submit: "Cool"}
	pages := console.Pages(nil, bricks(1))
	if p := pages[len(pages)-1]; p.Path != "kilns" || p.Title != "Light a kiln" || !p.Listed || !reflect.DeepEqual(show(t, &p, nil).Blocks, []service.Block{light, cool}) || len(p.Actions) != 2 {
		t.Errorf("%+v", p)
	}
	own := []service.Page{{Path: "kilns", Title: "Kilns", Show: func(context.Context, *service.PageRequest) (*service.View, error) {
		return &service.View{Blocks: []service.Block{&service.Text{Body: "Mine."}}}, nil
	}, Actions: []service.Action{{Name: "own"}}}}
	pages = console.Pages(own, bricks(1))
	if p := pages[0]; len(pages) != 3 || p.Title != "Kilns" || !reflect.DeepEqual(show(t, &p, nil).Blocks, []service.Block{&service.Text{Body: "Mine."}, light, cool}) || len(p.Actions) != 3 {
		t.Errorf("%+v", pages)
	}
	if len(own[0].Actions) != 1 {
		t.Error("the page of the service was changed")
	}
}

type shelf struct {
	Wall  string `json:"-" title:"Wall" subject:"wall"`
	Shelf int    `json:"shelf" title:"Shelf" subject:"shelf"`
}

func (s shelf) Notice() string { return fmt.Sprintf("%s %d", s.Wall, s.Shelf) }

type shelfInput struct {
	Wall  string `subject:"wall" doc:"name of the wall"`
	Shelf int    `subject:"shelf" doc:"number of the shelf"`
}

type bookInput struct {
	shelfInput
	Book string `subject:"book" doc:"title of the book"`
}

type book struct {
	Book string `json:"book" title:"Book" subject:"book"`
}

func (b book) Notice() string { return b.Book }

type moveInput struct {
	shelfInput
	To string `flag:"to" doc:"the new wall"`
}

type oneWall struct {
	Wall string `subject:"wall" doc:"name of the wall"`
}

func house() []operate.Operation {
	move := func(_ context.Context, in moveInput) (shelf, error) { return shelf{in.Wall, in.Shelf}, nil }
	return []operate.Operation{
		operate.NewList(operate.About{Path: "walls", Doc: "List", Title: "Walls"}, func(context.Context, operate.None) ([]wall, error) { return []wall{{Name: "a"}}, nil }),
		operate.NewRead(operate.About{Path: "walls/show", Doc: "Show", Title: "Wall"}, func(_ context.Context, in oneWall) (wall, error) { return wall{Name: in.Wall}, nil }),
		operate.NewList(operate.About{Path: "shelves", Doc: "List", Title: "Shelves"}, func(_ context.Context, in oneWall) ([]shelf, error) { return []shelf{{in.Wall, 7}}, nil }),
		operate.NewRead(operate.About{Path: "shelves/show", Doc: "Show", Title: "Shelf"}, func(_ context.Context, in shelfInput) (shelf, error) { return shelf(in), nil }),
		operate.NewChange(operate.About{Path: "shelves/add", Doc: "Add"}, func(_ context.Context, in oneWall) (shelf, error) { return shelf{in.Wall, 8}, nil }),
		operate.NewChange(operate.About{Path: "shelves/move", Doc: "Move"}, move),
		operate.NewChange(operate.About{Path: "shelves/burn", Doc: "Burn"}, func(_ context.Context, in shelfInput) (shelf, error) { return shelf(in), nil }),
		operate.NewList(operate.About{Path: "books", Doc: "List", Title: "Books"}, func(context.Context, shelfInput) ([]book, error) { return []book{{"b"}}, nil }),
		operate.NewChange(operate.About{Path: "books/read", Doc: "Read"}, func(_ context.Context, in bookInput) (book, error) {
			return book{fmt.Sprint(in.Wall, in.Shelf, in.Book)}, nil
		}),
	}
}

// TestListsOfSubjects checks lists that belong to a thing: rows link to them, and their forms and buttons contain the
// list's subjects.
func TestListsOfSubjects(t *testing.T) {
	t.Parallel()
	pages := map[string]service.Page{}
	for _, p := range console.Pages(nil, house()) {
		pages[p.Path] = p
	}
	listed := map[string]bool{"walls": true}
	for path, p := range pages {
		if p.Listed != listed[path] {
			t.Errorf("%s: listed %v", path, p.Listed)
		}
	}
	is := func(path string, values url.Values, want *service.View) {
		t.Helper()
		p := pages[path]
		if view := show(t, &p, values); !reflect.DeepEqual(view, want) {
			t.Errorf("%s: %s\nwant %s", path, dump(view), dump(want))
		}
	}
	one := url.Values{"wall": {"a"}, "shelf": {"7"}}
	is("walls", nil, &service.View{Blocks: []service.Block{&service.Table{
		Columns: []service.Column{{Title: "Wall", Names: true}, {Title: "Coats", Number: true}, {Title: "Painted"}, {Title: "Shelves"}},
		Rows:    [][]service.Cell{{{Text: "a", To: "walls/show?wall=a"}, {Text: "0"}, {Text: "-"}, {Text: "Shelves", To: "shelves?wall=a"}}},
	}}})
	is("walls/show", url.Values{"wall": {"a"}}, &service.View{Title: "Wall a", Parents: []service.Link{{Text: "Walls", To: "walls"}}, Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{{Name: "Coats", Cell: service.Cell{Text: "0"}}, {Name: "Painted", Cell: service.Cell{Text: "-"}}}},
		&service.Links{All: []service.Link{{Text: "Shelves", To: "shelves?wall=a"}}},
	}})
	burn := service.Form{Action: "burn", Submit: "Burn", Label: "Burn shelf 7", Keep: map[string]string{"wall": "a", "shelf": "7"}}
	atWall := []service.Link{{Text: "Walls", To: "walls"}, {Text: "a", To: "walls/show?wall=a"}}
	is("shelves", url.Values{"wall": {"a"}}, &service.View{Title: "Shelves of wall a", Parents: atWall, Blocks: []service.Block{
		&service.Table{
			Columns: []service.Column{{Title: "Wall"}, {Title: "Shelf", Number: true, Names: true}, {Title: "Books"}, {Title: "Action"}}, Keep: []string{"wall"},
			Rows: [][]service.Cell{{
				{Text: "a", To: "walls/show?wall=a"}, {Text: "7", To: "shelves/show?shelf=7&wall=a"}, {Text: "Books", To: "books?shelf=7&wall=a"},
				{Forms: []service.Form{burn}}, // the form that moves the shelf is on its own page
			}},
		},
		&service.Form{Action: "add", Submit: "Add", Keep: map[string]string{"wall": "a"}},
	}})
	onPage := func(f service.Form) *service.Form { f.Page = "shelves"; return &f }
	moveForm := service.Form{Action: "move", Submit: "Move", Keep: burn.Keep, Fields: []service.Field{{Name: "to", Label: "To", Help: "the new wall", Optional: true}}}
	is("shelves/show", one, &service.View{Title: "Shelf 7", Parents: append(atWall, service.Link{Text: "Shelves", To: "shelves?wall=a"}), Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{{Name: "Wall", Cell: service.Cell{Text: "a"}}}},
		&service.Links{All: []service.Link{{Text: "Books", To: "books?shelf=7&wall=a"}}}, onPage(moveForm), onPage(burn),
	}})
	is("books", one, &service.View{
		Title: "Books of shelf 7", Parents: append(atWall, service.Link{Text: "Shelves", To: "shelves?wall=a"}, service.Link{Text: "7", To: "shelves/show?shelf=7&wall=a"}),
		Blocks: []service.Block{&service.Table{
			Columns: []service.Column{{Title: "Book", Names: true}, {Title: "Action"}}, Keep: []string{"wall", "shelf"},
			Rows: [][]service.Cell{{{Text: "b"}, {Forms: []service.Form{
				{Action: "read", Submit: "Read", Label: "Read book b", Keep: map[string]string{"wall": "a", "shelf": "7", "book": "b"}},
			}}}},
		}},
	})
	read := pages["books"].Actions[0]
	r := &service.PageRequest{Values: url.Values{"wall": {"a"}, "shelf": {"7"}, "book": {"b"}, "return-page": {"x"}}}
	if o, err := read.Run(t.Context(), r); err != nil || o.Notice != "a7b" || o.Next != "books?shelf=7&wall=a" || !reflect.DeepEqual(logged(house(), "books/read"), []string{"wall", "shelf", "book"}) {
		t.Errorf("%+v, %v", o, err)
	}
}

func dump(v any) string {
	text, _ := json.MarshalIndent(v, "", " ")
	return string(text)
}

func logged(all []operate.Operation, path string) []string {
	for i := range all {
		if all[i].Path == path {
			return all[i].Logged()
		}
	}
	return nil
}
