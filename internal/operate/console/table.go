package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// filter makes the list's inputs the search form above the table, and its sort input the column order.
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

// options returns the values that an input accepts, with "any" if it may be empty, or nil for free text.
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

// choices is options for a form, in which a value has to be chosen.
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

// offered returns the changes in About.Offers.
func offered(o *operate.Operation, all []operate.Operation) (changes []*operate.Operation) {
	for i := range all {
		if slices.Contains(o.Offers, all[i].Path) {
			changes = append(changes, &all[i])
		}
	}
	return changes
}

// finds returns the noun's read if its page begins with a form for the read's subject; see About.Finds.
func (p *page) finds() *operate.Operation {
	if read := first(operate.Read, p.noun, p.all); read != nil && read.Finds != "" {
		return read
	}
	return nil
}

// findForm returns that form.
func (p *page) findForm(read *operate.Operation) *service.Form {
	f := &service.Form{Action: "find", Submit: read.Finds}
	for _, s := range read.Subjects() {
		field := service.Field{Name: s.Name, Label: s.Label(), Help: operate.Sentence(s.Doc) + ".", Typed: p.list != nil}
		offer(&field, read, &s, p.all)
		f.Fields = append(f.Fields, field)
	}
	return f
}

// findAction opens the read's page, or reports on the form that there is no such thing.
func findAction(read *operate.Operation) service.Action {
	return service.Action{Name: "find", Reads: true, Run: func(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
		r.Values.Set(read.Subject().Name, strings.TrimSpace(r.Value(read.Subject().Name)))
		result, err := read.Run(ctx, values(read, r), nil)
		if err != nil {
			return service.Outcome{}, err
		}
		return service.Outcome{Next: namesOf(read, r).with(result.Rows[0].Subjects).link(read)}, nil
	}}
}

// tables returns a read's tables. Subjects link to the page in Opens. Changes with the subjects of the read and the
// table become row buttons, or a form below that row links fill.
func tables(read *operate.Operation, row *operate.Row, r *service.PageRequest, isPart bool, all []operate.Operation) (blocks []service.Block) {
	at := namesOf(read, r).with(row.Subjects)
	for _, t := range row.Tables {
		shown := &service.Table{Title: t.Title, Empty: t.Empty, Partial: isPart}
		subject := ""
		for _, c := range t.Columns {
			subject = cmp.Or(subject, c.Subject)
		}
		onRows, forms := tableChanges(read, subject, all)
		for _, c := range t.Columns {
			named := c.Subject != "" && len(onRows)+len(forms) > 0
			shown.Columns = append(shown.Columns, service.Column{Title: c.Title, Number: c.IsNumber(), Names: c.Main || named})
		}
		if len(onRows) > 0 {
			shown.Columns = append(shown.Columns, service.Column{Title: "Action"})
		}
		var chosen *operate.Row
		for i := range t.Rows {
			of := at.with(t.Rows[i].Subjects)
			cells := tableCells(read, &t, &t.Rows[i], of, forms)
			if len(onRows) > 0 {
				cells = append(cells, service.Cell{Forms: onPage(read.Noun(), buttons(read, &t.Rows[i], of, onRows))})
			}
			shown.Rows = append(shown.Rows, cells)
			if subject != "" && of[subject] == r.Value(subject) {
				chosen = &t.Rows[i]
			}
		}
		blocks = append(blocks, shown)
		for _, change := range forms {
			f := form(change, at, all)
			f.Page = read.Noun()
			if chosen != nil {
				fill(f, change, chosen)
			}
			blocks = append(blocks, f)
		}
	}
	return blocks
}

// onPage sets the page to which forms are sent, unless they have one.
func onPage(page string, all []service.Form) []service.Form {
	for i := range all {
		all[i].Page = cmp.Or(all[i].Page, page)
	}
	return all
}

// tableChanges returns the changes for a read's table rows: their subjects are the read's and then the
// table's subject.
func tableChanges(read *operate.Operation, subject string, all []operate.Operation) (onRows, forms []*operate.Operation) {
	if subject == "" {
		return nil, nil
	}
	of := append(rowNames(read), subject)
	for _, change := range changesOf(read.Noun(), all) {
		var names []string
		for _, s := range change.Subjects() {
			names = append(names, s.Name)
		}
		switch {
		case !slices.Equal(names, of):
		case isForm(change):
			forms = append(forms, change)
		default:
			onRows = append(onRows, change)
		}
	}
	return onRows, forms
}

// tableCells returns a nested row's cells. Its subject links to About.Opens, or to the form that the row fills.
func tableCells(read *operate.Operation, t *operate.Table, row *operate.Row, of names, forms []*operate.Operation) (cells []service.Cell) {
	for i, v := range row.Cells {
		c := cell(v)
		if subject := t.Columns[i].Subject; subject != "" {
			to := append(rowNames(read), subject)
			switch {
			case read.Opens != "":
				c.To = of.linkTo(read.Opens, to)
			case len(forms) > 0 && row.Offers(forms[0].Verb()):
				c.To = of.linkTo(read.Path, to) + service.FormAnchor(read.Noun(), forms[0].Verb())
			}
		}
		cells = append(cells, c)
	}
	return cells
}

// fill sets a form's fields to the row members with the inputs' names.
func fill(f *service.Form, o *operate.Operation, row *operate.Row) {
	text, err := json.Marshal(row.Value)
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err != nil || d.Decode(&members) != nil {
		return
	}
	for i := range f.Fields {
		field := &f.Fields[i]
		in := o.Input(field.Name)
		switch v, ok := members[in.Member()]; {
		case in.Subject:
			field.Value = row.Subjects[in.Name]
		case ok && in.IsBool():
			field.Value = map[bool]string{true: "yes"}[v == true]
		case ok:
			field.Value = fmt.Sprint(v)
		}
	}
}
