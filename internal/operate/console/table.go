package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// filter adds the search, and the columns that sort, of a list with such inputs.
func (p *page) filter(t *service.Table, columns []operate.Column, r *service.PageRequest) {
	for _, in := range p.list.Others() {
		switch {
		case in.Local, in.Name == "after", in.Name == "limit", in.Name == "reverse":
		case in.Name == "sort":
			t.Sort = cmp.Or(r.Value("sort"), in.Default)
			for i, c := range columns {
				t.Columns[i].Sort = c.Sort
			}
		default:
			field := service.Field{Name: in.Name, Label: in.Label(), Value: in.Default, Help: in.Doc, Checkbox: in.IsBool(), Options: options(&in)}
			offer(&field, p.list, &in, p.all)
			t.Search = append(t.Search, field)
		}
	}
}

// options are the choices of an input with few values, or nil.
func options(in *operate.Input) (all []service.Option) {
	if in.Enum == nil {
		return nil
	}
	if in.Default == "" {
		all = append(all, service.Option{Text: "any"})
	}
	for _, value := range in.Enum {
		all = append(all, service.Option{Value: value, Text: value})
	}
	return all
}

// choices are the options of a change's input with few values, or nil.
func choices(in *operate.Input) []service.Option {
	all := options(in)
	if len(all) > 0 && all[0].Value == "" {
		all = all[1:]
	}
	return all
}

// isForm reports whether a change needs more than a click.
func isForm(o *operate.Operation) bool {
	return len(o.Others()) > 0 || o.Retypes || o.Kind == operate.Upload
}

// offered returns the changes of other nouns that the page of a list or a read offers.
func offered(o *operate.Operation, all []operate.Operation) (changes []*operate.Operation) {
	for i := range all {
		if slices.Contains(o.Offers, all[i].Path) {
			changes = append(changes, &all[i])
		}
	}
	return changes
}

// finds returns the read that shows a thing whose name is typed on the page of its noun, or nil.
func (p *page) finds() *operate.Operation {
	if read := first(operate.Read, p.noun, p.all); read != nil && read.Finds != "" {
		return read
	}
	return nil
}

// findForm asks for the name of a thing. Besides a list, it is for the things that are not on the page.
func (p *page) findForm(read *operate.Operation) *service.Form {
	f := &service.Form{Action: "find", Submit: read.Finds}
	for _, s := range read.Subjects() {
		field := service.Field{Name: s.Name, Label: s.Label(), Help: operate.Sentence(s.Doc) + ".", Typed: p.list != nil}
		offer(&field, read, &s, p.all)
		f.Fields = append(f.Fields, field)
	}
	return f
}

// findAction leads to the page of a read, if there is such a thing.
func findAction(read *operate.Operation) service.Action {
	return service.Action{Name: "find", Reads: true, Run: func(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
		r.Values.Set(read.Subject().Name, strings.TrimSpace(r.Value(read.Subject().Name)))
		found, err := read.Run(ctx, values(read, r), nil)
		if err != nil {
			return service.Outcome{}, err
		}
		return service.Outcome{Next: namesOf(read, r).with(found.Rows[0].Subjects).link(read)}, nil
	}}
}

// tables returns the tables of the result of a read, or of a part of it. A subject links to the page that Opens names.
func tables(read *operate.Operation, row *operate.Row, at names, isPart bool) (all []service.Block) {
	for _, t := range row.Tables {
		shown := &service.Table{Title: t.Title, Empty: t.Empty, Partial: isPart}
		for _, c := range t.Columns {
			shown.Columns = append(shown.Columns, service.Column{Title: c.Title, Number: c.IsNumber(), Names: c.Main})
		}
		for _, row := range t.Rows {
			var cells []service.Cell
			for i, v := range row.Cells {
				c := cell(v)
				if t.Columns[i].Subject != "" && read.Opens != "" {
					c.To = at.with(row.Subjects).linkTo(read.Opens, append(rowNames(read), t.Columns[i].Subject))
				}
				cells = append(cells, c)
			}
			shown.Rows = append(shown.Rows, cells)
		}
		all = append(all, shown)
	}
	return all
}
