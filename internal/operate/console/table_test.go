package console_test

import (
	"context"
	"net/url"
	"reflect"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type load int

func (l load) Cell() service.Cell { return service.Cell{Text: "full", Share: float64(l), Most: 9} }

type room struct {
	Room string `json:"room" title:"Room" subject:"room" cursor:"" sort:"name"`
	Load load   `json:"load" title:"Load" sort:"load"`
	Beds []bed  `json:"beds" table:"Beds" empty:"There are no beds."`
}

func (r room) Notice() string          { return "room " + r.Room }
func (r room) Offers(verb string) bool { return verb != "lock" || r.Room != "open" }

type bed struct {
	Kind string `json:"kind" title:"Kind"`
	Load load   `json:"load" title:"Load"`
}

type roomsInput struct {
	Begins  string `flag:"begins" doc:"how it begins" title:"Begins with"`
	Empty   bool   `flag:"empty" doc:"without guests"`
	Sort    string `flag:"sort" doc:"order" default:"name"`
	Reverse bool   `flag:"reverse" doc:"reverse the order"`
	operate.Page[string]
}

type roomInput struct {
	Room string `subject:"room" doc:"name of the room"`
}

type cleanInput struct {
	roomInput
	With string `flag:"with" doc:"what to use" arg:"SOAP"`
}

func hotel() []operate.Operation {
	change := func(_ context.Context, in roomInput) (room, error) { return room{Room: in.Room}, nil }
	return []operate.Operation{
		operate.NewList(operate.About{Path: "rooms", Doc: "List", Title: "Rooms"}, func(_ context.Context, in roomsInput) ([]room, error) {
			return []room{{Room: in.Sort + in.Begins, Load: 3}}, nil
		}),
		operate.NewRead(operate.About{Path: "rooms/show", Doc: "Show", Title: "Room", Finds: "Show room", Offers: []string{"doors/lock", "doors/open"}}, func(_ context.Context, in roomInput) (room, error) {
			if in.Room == "none" {
				return room{}, errWall
			}
			return room{Room: in.Room, Beds: []bed{{"wide", 2}}}, nil
		}),
		operate.NewChange(operate.About{Path: "rooms/clean", Doc: "Clean", Stays: true}, func(_ context.Context, in cleanInput) (room, error) { return room{Room: in.With + in.Room}, nil }),
		operate.NewChange(operate.About{Path: "rooms/raze", Doc: "Raze", Title: "Raze a room", Text: "It is gone.", Retypes: true}, change),
		operate.NewList(operate.About{Path: "calls", Doc: "List", Title: "Calls", Offers: []string{"doors/open"}}, func(context.Context, operate.Page[string]) ([]room, error) { return []room{{Room: "a"}}, nil }),
		operate.NewChange(operate.About{Path: "doors/lock", Doc: "Lock", NewRow: true, Danger: true}, change),
		operate.NewChange(operate.About{Path: "doors/open", Doc: "Open"}, change),
	}
}

// TestFilters checks that a list's inputs become a search and sorted columns, and that a form finds a thing by name.
func TestFilters(t *testing.T) {
	t.Parallel()
	pages := console.Pages(nil, hotel())
	cell := service.Cell{Text: "full", Share: 3, Most: 9}
	find := &service.Form{Action: "find", Submit: "Show room", Fields: []service.Field{{Name: "room", Label: "Room", Help: "Name of the room.", Kind: "room", Typed: true}}}
	want := &service.View{Blocks: []service.Block{find, &service.Table{
		Columns: []service.Column{{Title: "Room", Sort: "name", Names: true}, {Title: "Load", Sort: "load", Number: true}}, Sort: "load",
		Search: []service.Field{{Name: "begins", Label: "Begins with", Help: "how it begins"}, {Name: "empty", Label: "Empty", Help: "without guests", Checkbox: true}},
		Rows:   [][]service.Cell{{{Text: "loada", To: "rooms/show?room=loada"}, cell}},
	}}}
	if view := show(t, &pages[0], url.Values{"sort": {"load"}, "begins": {"a"}}); !reflect.DeepEqual(view, want) {
		t.Errorf("%s\nwant %s", dump(view), dump(want))
	}
	if view := show(t, &pages[0], nil); view.Blocks[1].(*service.Table).Sort != "name" {
		t.Errorf("the default order: %s", dump(view))
	}
	action := pages[0].Actions[len(pages[0].Actions)-1]
	if o, err := action.Run(t.Context(), &service.PageRequest{Values: url.Values{"room": {" b "}}}); err != nil || o.Next != "rooms/show?room=b" || action.Name != "find" || !action.Reads {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := action.Run(t.Context(), &service.PageRequest{Values: url.Values{"room": {"none"}}}); err != errWall {
		t.Errorf("%v", err)
	}
}

// TestOffers checks that pages offer other nouns' changes, and that a thing's page contains its tables and forms.
func TestOffers(t *testing.T) {
	t.Parallel()
	pages := map[string]service.Page{}
	for _, p := range console.Pages(nil, hotel()) {
		pages[p.Path] = p
	}
	keep := map[string]string{"room": "open"}
	open := service.Form{Action: "open", Page: "doors", Submit: "Open", Label: "Open room open", Keep: keep}
	want := &service.View{Title: "Room open", Parents: []service.Link{{Text: "Rooms", To: "rooms"}}, Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{{Name: "Load", Cell: service.Cell{Text: "full", Most: 9}}}},
		&service.Table{
			Title: "Beds", Empty: "There are no beds.", Columns: []service.Column{{Title: "Kind"}, {Title: "Load", Number: true}},
			Rows: [][]service.Cell{{{Text: "wide"}, {Text: "full", Share: 2, Most: 9}}},
		},
		&service.Form{Action: "clean", Page: "rooms", Submit: "Clean", Keep: keep, Fields: []service.Field{{Name: "with", Label: "With", Help: "what to use", Optional: true}}},
		&service.Form{Title: "Raze a room", Text: "It is gone.", Action: "raze", Page: "rooms", Submit: "Raze", Keep: keep, Confirm: "open"},
		&open,
	}}
	read := pages["rooms/show"]
	if view := show(t, &read, url.Values{"room": {"open"}}); !reflect.DeepEqual(view, want) {
		t.Errorf("%s\nwant %s", dump(view), dump(want))
	}
	calls := pages["calls"]
	open.Keep, open.Label = map[string]string{"room": "a"}, "Open room a"
	table := show(t, &calls, nil).Blocks[0].(*service.Table)
	if got := table.Rows[0][len(table.Rows[0])-1].Forms; !reflect.DeepEqual(got, []service.Form{open}) {
		t.Errorf("%s", dump(got))
	}
	if names := logged(hotel(), "rooms/"+pages["rooms"].Actions[0].Name); !reflect.DeepEqual(names, []string{"room", "with"}) {
		t.Errorf("the log has %q", names)
	}
	for i, next := range []string{"", "rooms"} {
		o, err := pages["rooms"].Actions[i].Run(t.Context(), &service.PageRequest{Values: url.Values{"room": {"a"}, "return-page": {"rooms/show"}}})
		if err != nil || o.Next != next {
			t.Errorf("%s: %+v, %v", pages["rooms"].Actions[i].Name, o, err)
		}
	}
}

type menu struct {
	Day    string `json:"day" title:"Day" subject:"day"`
	Dishes []dish `json:"dishes" table:"Dishes"`
}

func (m menu) Notice() string { return m.Day }

type dish struct {
	Dish  string `json:"-" title:"Dish" subject:"dish"`
	Price int    `json:"price,omitempty"`
	Meat  bool   `json:"meat"`
}

func (d dish) Offers(verb string) bool { return verb != "cook" || d.Price > 0 }

type dayInput struct {
	Day string `subject:"day" doc:"day"`
}

type dishInput struct {
	dayInput
	Dish string `subject:"dish" doc:"dish"`
}

type cookInput struct {
	dishInput
	Price int  `flag:"price" doc:"price" default:"0"`
	Meat  bool `flag:"meat" doc:"with meat"`
}

func cooked[In any](context.Context, In) (menu, error) { return menu{}, nil }

// TestRowsOfTables checks that a read's table has buttons and a form for its rows, which a link fills with a row's
// values.
func TestRowsOfTables(t *testing.T) {
	t.Parallel()
	pages := map[string]service.Page{}
	for _, p := range console.Pages(nil, []operate.Operation{
		operate.NewRead(operate.About{Path: "menus/show", Doc: "Show", Title: "Menu"}, func(_ context.Context, in dayInput) (menu, error) {
			return menu{in.Day, []dish{{"soup", 12345678, true}, {"bread", 0, false}}}, nil
		}),
		operate.NewChange(operate.About{Path: "menus/cook", Doc: "Cook", Stays: true}, cooked[cookInput]),
		operate.NewChange(operate.About{Path: "menus/drop", Doc: "Drop", Stays: true, Danger: true}, cooked[dishInput]),
		operate.NewChange(operate.About{Path: "menus/close", Doc: "Close", Stays: true}, cooked[dayInput]),
	}) {
		pages[p.Path] = p
	}
	page := pages["menus/show"]
	drop := func(dish string) service.Cell {
		keep := map[string]string{"day": "monday", "dish": dish}
		return service.Cell{Forms: []service.Form{{Action: "drop", Page: "menus", Submit: "Drop", Danger: true, Label: "Drop dish " + dish, Keep: keep}}}
	}
	want := func(dish, price, meat string) *service.View {
		return &service.View{Title: "Menu monday", Blocks: []service.Block{
			&service.Facts{},
			&service.Table{
				Title: "Dishes", Columns: []service.Column{{Title: "Dish", Names: true}, {Title: "Action"}},
				Rows: [][]service.Cell{{{Text: "soup", To: "menus/show?day=monday&dish=soup#form-menus-cook"}, drop("soup")}, {{Text: "bread"}, drop("bread")}},
			},
			&service.Form{Action: "cook", Page: "menus", Submit: "Cook", Keep: map[string]string{"day": "monday"}, Fields: []service.Field{
				{Name: "dish", Label: "Dish", Help: "dish", Value: dish}, {Name: "price", Label: "Price", Help: "price", Value: price, Optional: true},
				{Name: "meat", Label: "Meat", Help: "with meat", Value: meat, Optional: true, Checkbox: true},
			}},
			&service.Form{Action: "close", Page: "menus", Submit: "Close", Label: "Close day monday", Keep: map[string]string{"day": "monday"}},
		}}
	}
	for dish, view := range map[string]*service.View{"": want("", "0", ""), "cake": want("", "0", ""), "soup": want("soup", "12345678", "yes")} {
		if got := show(t, &page, url.Values{"day": {"monday"}, "dish": {dish}}); !reflect.DeepEqual(got, view) {
			t.Errorf("%q: %s\nwant %s", dish, dump(got), dump(view))
		}
	}
}
