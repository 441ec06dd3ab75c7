// Package console makes pages of the console from operations: a list is a page, and the changes with its
// noun are the buttons of its rows and the forms below.
package console

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Pages returns the pages of the operations of a service.
func Pages(all []operate.Operation) (pages []service.Page) {
	for i := range all {
		if all[i].Kind == operate.List {
			p := &page{list: &all[i]}
			for j := range all {
				if o := &all[j]; o.Kind == operate.Change && o.Noun() == p.list.Noun() {
					p.changes = append(p.changes, o)
				}
			}
			pages = append(pages, p.page())
		}
	}
	return pages
}

// page is a list with the changes of its noun.
type page struct {
	list    *operate.Operation
	changes []*operate.Operation
}

func (p *page) page() service.Page {
	shown := service.Page{Path: p.list.Noun(), Title: p.list.Title, Listed: true, Show: p.show}
	for _, o := range p.changes {
		shown.Actions = append(shown.Actions, action(o))
	}
	return shown
}

func (p *page) show(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	found, err := p.list.Run(ctx, values(p.list, r))
	if err != nil {
		return nil, err
	}
	t := &service.Table{Empty: p.list.Empty}
	for _, c := range p.list.Columns {
		t.Columns = append(t.Columns, service.Column{Title: c.Title, Number: c.IsNumber()})
	}
	onRows, others := p.split()
	if len(onRows) > 0 {
		t.Columns = append(t.Columns, service.Column{Title: "Action"})
	}
	for _, row := range found.Rows {
		t.Rows = append(t.Rows, p.cells(row, onRows))
	}
	view := &service.View{}
	if p.list.Text != "" {
		view.Blocks = append(view.Blocks, &service.Text{Body: p.list.Text})
	}
	view.Blocks = append(view.Blocks, t)
	for _, o := range others {
		view.Blocks = append(view.Blocks, form(o))
	}
	return view, nil
}

// split returns the changes that are buttons of rows, and those that are forms. A form also takes the
// name of what is not in the list yet.
func (p *page) split() (onRows, others []*operate.Operation) {
	for _, o := range p.changes {
		if o.Subject() != nil && !o.NewRow {
			onRows = append(onRows, o)
		} else {
			others = append(others, o)
		}
	}
	return onRows, others
}

func (p *page) cells(row operate.Row, changes []*operate.Operation) (all []service.Cell) {
	for _, v := range row.Cells {
		if at, ok := v.(time.Time); ok {
			all = append(all, service.TimeCell(at))
		} else {
			all = append(all, service.TextCell(fmt.Sprint(v)))
		}
	}
	if len(changes) == 0 {
		return all
	}
	buttons := service.Cell{}
	for _, o := range changes {
		if row.Offers(o.Verb()) {
			f := form(o)
			f.Fields = nil
			f.Keep = map[string]string{o.Subject().Name: row.Subject}
			f.Label = f.Submit + " " + o.Subject().Name + " " + row.Subject
			buttons.Forms = append(buttons.Forms, *f)
		}
	}
	return append(all, buttons)
}

func form(o *operate.Operation) *service.Form {
	f := &service.Form{
		Title: o.Title, Text: o.Text, Action: o.Verb(), Submit: cmp.Or(o.Button, strings.ToUpper(o.Verb()[:1])+o.Verb()[1:]),
		Ask: o.Ask, Confirm: o.Confirm, Danger: o.Danger,
	}
	for _, in := range o.Inputs {
		f.Fields = append(f.Fields, service.Field{
			Name: in.Name, Label: strings.ToUpper(in.Name[:1]) + in.Name[1:], Value: in.Default, Help: in.Doc, Optional: !in.Subject, Checkbox: in.IsBool(),
		})
	}
	return f
}

// action runs a change. The log of changes names the row.
func action(o *operate.Operation) service.Action {
	a := service.Action{Name: o.Verb()}
	if o.Names != "" {
		a.Logged = []string{o.Names}
	}
	a.Run = func(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
		done, err := o.Run(ctx, values(o, r))
		if err != nil {
			return service.Outcome{}, err
		}
		if o.Names != "" {
			r.Values.Set(o.Names, done.Rows[0].Subject)
		}
		return service.Outcome{Notice: done.Notice}, nil
	}
	return a
}

func values(o *operate.Operation, r *service.PageRequest) map[string]string {
	all := map[string]string{}
	for _, in := range o.Inputs {
		if all[in.Name] = r.Value(in.Name); in.IsBool() && all[in.Name] == "yes" { // a checkbox
			all[in.Name] = "true"
		}
	}
	return all
}
