package console_test

import (
	"context"
	"net/url"
	"reflect"
	"slices"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/console"
)

type tree struct {
	Tree   string `json:"tree" title:"Tree" subject:"tree"`
	Height int64  `json:"height" title:"Height" of:"Most"`
	Most   int64  `json:"most"`
	Nests  []nest `json:"nests" table:"Nests"`
}

func (t tree) Note() string {
	if t.Tree == "oak" {
		return "It is old."
	}
	return ""
}

type nest struct {
	Nest string `json:"nest" title:"Nest" subject:"nest"`
	Eggs int    `json:"eggs" title:"Eggs"`
}

type treeInput struct {
	Tree string `subject:"tree" doc:"name of the tree"`
}

type ringsInput struct {
	treeInput
	After string `flag:"after" doc:"next from the previous part"`
}

type rings struct {
	Tree  string `json:"tree" title:"Tree" subject:"tree"`
	Rings int    `json:"rings" title:"Rings"`
	Next  string `json:"next,omitempty" cursor:""`
}

type birdsInput struct {
	Tree string `flag:"tree" doc:"only birds in this tree"`
}

// garden contains trees with nests. The service's own page shows a nest's contents.
func garden() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{Path: "trees", Doc: "List", Title: "Trees"}, func(context.Context, operate.None) ([]tree, error) { return nil, nil }),
		operate.NewRead(operate.About{Path: "trees/show", Doc: "Show", Title: "Tree", Opens: "nest"}, func(_ context.Context, in treeInput) (tree, error) {
			return tree{in.Tree, 2, 9, []nest{{"n", 3}}}, nil
		}),
		operate.NewRead(operate.About{Path: "trees/rings", Doc: "Count", Title: "Rings"}, func(_ context.Context, in ringsInput) (rings, error) {
			return rings{in.Tree, 9, map[string]string{"": "10 20"}[in.After]}, nil
		}),
		operate.NewList(operate.About{Path: "birds", Doc: "List", Title: "Birds"}, func(context.Context, birdsInput) ([]nest, error) { return nil, nil }),
	}
}

// TestPageBelow checks that a service's own page with a list's or read's path is shown below it, and that its title,
// trail, actions and access are used.
func TestPageBelow(t *testing.T) {
	t.Parallel()
	own := func(path string, view service.View) service.Page {
		return service.Page{Path: path, Access: operate.ForAdmins, Actions: []service.Action{{Name: "water"}}, Show: func(context.Context, *service.PageRequest) (*service.View, error) { return &view, nil }}
	}
	mine := &service.Text{Body: "Mine."}
	pages := console.Pages([]service.Page{
		own("trees", service.View{Blocks: []service.Block{mine}}),
		own("trees/show", service.View{Title: "My tree", Parents: []service.Link{{Text: "Wood"}}, Blocks: []service.Block{mine}}),
	}, garden())
	if len(pages) != 4 || pages[0].Title != "Trees" || !pages[0].Listed || len(pages[0].Actions) != 1 || len(pages[1].Actions) != 1 || pages[0].Access != operate.ForAdmins || pages[1].Access != operate.ForAdmins {
		t.Fatalf("%+v", pages)
	}
	if view := show(t, &pages[0], nil); len(view.Blocks) != 2 || view.Blocks[1] != service.Block(mine) || view.Title != "" {
		t.Errorf("%s", dump(view))
	}
	view := show(t, &pages[1], url.Values{"tree": {"oak"}})
	want := &service.View{Title: "My tree", Parents: []service.Link{{Text: "Wood"}}, Blocks: []service.Block{
		&service.Notice{State: service.Warning, Text: "It is old."},
		&service.Facts{Rows: []service.Fact{{Name: "Height", Cell: service.Cell{Text: "2", Share: 2, Most: 9}}}},
		&service.Links{All: []service.Link{{Text: "Rings", To: "trees/rings?tree=oak"}, {Text: "Birds", To: "birds?tree=oak"}}},
		&service.Table{Title: "Nests", Columns: []service.Column{{Title: "Nest"}, {Title: "Eggs", Number: true}}, Rows: [][]service.Cell{{{Text: "n", To: "nest?nest=n&tree=oak"}, {Text: "3"}}}},
		mine,
	}}
	if !reflect.DeepEqual(view, want) {
		t.Errorf("%s, want %s", dump(view), dump(want))
	}
	if view = show(t, &pages[1], url.Values{"tree": {"elm"}}); len(view.Blocks) != 4 {
		t.Errorf("a note without a reason: %s", dump(view))
	}
}

func TestReadInParts(t *testing.T) {
	t.Parallel()
	pages := console.Pages(nil, garden())
	at := slices.IndexFunc(pages, func(p service.Page) bool { return p.Path == "trees/rings" })
	other := []service.Link{{Text: "Tree", To: "trees/show?tree=oak"}, {Text: "Birds", To: "birds?tree=oak"}}
	next := service.Link{Text: "Next part", To: "trees/rings?after=10+20&tree=oak"}
	for after, want := range map[string][][]service.Link{"": {other, {next}}, "10 20": {other}} {
		var links [][]service.Link
		for _, b := range show(t, &pages[at], url.Values{"tree": {"oak"}, "after": {after}}).Blocks {
			if l, ok := b.(*service.Links); ok {
				links = append(links, l.All)
			}
		}
		if !reflect.DeepEqual(links, want) {
			t.Errorf("%q: %v", after, links)
		}
	}
}
