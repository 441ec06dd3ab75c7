package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Result is what an operation returns.
type Result struct {
	Columns []Column // those of the operation that are shown
	Rows    []Row    // of another operation than a list: its result

	File *File // of a download

	Notice string // what a change did: a sentence without a full stop; "": its columns are shown
	Note   string // of a change: what the operator has to do besides, shown by the command
	Next   any    // of a list in pages or a read in parts: where the next one begins; nil: this is the last one

	value   any            // as JSON
	members map[string]any // of a list
}

// JSON returns the result as the API sends it.
func (o *Operation) JSON(ctx context.Context, r *Result) (any, error) {
	if o.Kind != List || o.Also == nil {
		return r.JSON(), nil
	}
	also, err := o.Also.Get(ctx)
	all := maps.Clone(r.members)
	all[o.Also.Name] = also
	return all, err
}

// JSON returns the result as JSON, without Operation.Also.
func (r *Result) JSON() any {
	if r.members != nil {
		return r.members
	}
	return r.value
}

// Row is a row of a list, or the result of another operation.
type Row struct {
	Value    any               // as JSON
	Cells    []any             // by Result.Columns
	Texts    []Text            // of a read
	Tables   []Table           // of a read
	Note     string            // of a list: printed once by the command for all rows with the same note; of a read: a warning on its page
	Subjects map[string]string // the values of the inputs Operation.Names, which name this row
	Called   string            // how people call the row; "": they read its subject
	Offers   func(verb string) bool

	cursor any
}

// Text is a text with a title. JSON has line breaks, for people.
type Text struct{ Title, Body string }

// Column is a field of a row that people read.
type Column struct {
	Title   string
	Type    reflect.Type
	Subject string // it is this one of Row.Subjects, or its name for people
	Secret  string // says that the value is shown once; "": it is no secret
	Sort    string // value of the input sort that selects this order; "" for none
	QR      string // label of the secret's QR code in the console; "" for none
	Aside   bool   // the command has it only as JSON
	Main    bool   // it names the rows for people, instead of their subject
	With    string // the input that must be true to show it; "": it is shown always

	zero  string // shown for the zero value
	at    []int
	whole []int // the field with the number of which this one is a share; nil: none
}

// Share is a number that is a part of another one, which is not 0. The console shows a bar for it.
type Share struct {
	Value       any
	Part, Whole int64
}

// String returns the number as people read it.
func (s Share) String() string { return fmt.Sprint(s.Value) }

// IsTime reports whether the fields are times.
func (c *Column) IsTime() bool { return c.Type == reflect.TypeFor[time.Time]() }

// IsNumber reports whether the fields are whole numbers.
func (c *Column) IsNumber() bool { return reflect.Zero(c.Type).CanInt() }

// HasSecret reports whether a result has a secret. Lists have none.
func (r *Result) HasSecret() bool {
	return slices.ContainsFunc(r.Columns, func(c Column) bool { return c.Secret != "" })
}

// IsPartial reports whether a job has left something to do.
func (r *Result) IsPartial() bool {
	p, ok := r.value.(Partial)
	return ok && p.IsPartial()
}

// choose leaves the columns that the inputs let it show.
func (r *Result) choose(all []Column, values map[string]string) {
	var kept []int
	for i, c := range all {
		if c.With == "" || values[c.With] == "true" {
			r.Columns, kept = append(r.Columns, c), append(kept, i)
		}
	}
	for i := range r.Rows {
		var cells []any
		for _, at := range kept {
			cells = append(cells, r.Rows[i].Cells[at])
		}
		r.Rows[i].Cells = cells
	}
}

// outputs are the fields of a result by their tags.
type outputs struct {
	columns  []Column
	texts    []Column
	tables   []nested
	names    []string
	subjects [][]int // by names
	cursor   []int
	called   []int
}

// outputsOf reads the tags of a result.
func outputsOf(t reflect.Type) (o outputs) {
	for _, f := range fieldsOf(t) {
		checkTags(&f, t, outputTags)
		name := f.Tag.Get("subject")
		if name != "" {
			o.names, o.subjects = append(o.names, name), append(o.subjects, f.Index)
		}
		if named := f.Tag.Get("names"); named != "" {
			name, o.called = named, f.Index
		}
		if title := f.Tag.Get("title"); title != "" {
			c := Column{
				Title: title, Type: f.Type, Subject: name, Secret: f.Tag.Get("secret"), QR: f.Tag.Get("qr"), With: f.Tag.Get("with"), Sort: f.Tag.Get("sort"),
				zero: f.Tag.Get("zero"), at: f.Index,
			}
			_, c.Aside = f.Tag.Lookup("aside")
			_, c.Main = f.Tag.Lookup("main")
			if c.Type.Kind() == reflect.Pointer {
				c.Type = c.Type.Elem()
			}
			if of := f.Tag.Get("of"); of != "" {
				whole, ok := t.FieldByName(of)
				if !ok || !c.IsNumber() {
					panic(fmt.Sprintf("field %s of %s: expected the name of another field with a number in the tag of", f.Name, t))
				}
				c.whole = whole.Index
			}
			o.columns = append(o.columns, c)
		}
		if title := f.Tag.Get("text"); title != "" {
			o.texts = append(o.texts, Column{Title: title, at: f.Index})
		}
		if f.Tag.Get("table") != "" {
			o.tables = append(o.tables, nestedOf(&f))
		}
		if _, ok := f.Tag.Lookup("cursor"); ok {
			o.cursor = f.Index
		}
	}
	return o
}

// row makes a row of a result.
func (o *outputs) row(out any) Row {
	v := reflect.ValueOf(out)
	r := Row{Value: out, Offers: func(string) bool { return true }}
	for i := range o.columns {
		r.Cells = append(r.Cells, o.columns[i].cell(v))
	}
	for _, c := range o.texts {
		r.Texts = append(r.Texts, Text{c.Title, shown(v.FieldByIndex(c.at).Interface())})
	}
	r.Tables = o.tablesOf(v)
	if noted, ok := out.(interface{ Note() string }); ok {
		r.Note = noted.Note()
	}
	for i, at := range o.subjects {
		if r.Subjects == nil {
			r.Subjects = map[string]string{}
		}
		r.Subjects[o.names[i]] = fmt.Sprint(v.FieldByIndex(at).Interface())
	}
	if o.called != nil {
		r.Called = fmt.Sprint(v.FieldByIndex(o.called).Interface())
	}
	if o.cursor != nil {
		r.cursor = v.FieldByIndex(o.cursor).Interface()
	}
	if offers, ok := out.(interface{ Offers(verb string) bool }); ok {
		r.Offers = offers.Offers
	}
	return r
}

// cell returns the value of a column in a result.
func (c *Column) cell(result reflect.Value) any {
	v := result.FieldByIndex(c.at)
	if c.zero != "" && v.IsZero() {
		return c.zero
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if c.whole != nil {
		whole := result.FieldByIndex(c.whole)
		if whole.Kind() == reflect.Pointer {
			whole = whole.Elem()
		}
		if whole.IsValid() && whole.Int() != 0 {
			return Share{v.Interface(), v.Int(), whole.Int()}
		}
	}
	return v.Interface()
}

// shown returns a text for people.
func shown(v any) string {
	raw, ok := v.(json.RawMessage)
	if !ok {
		text, _ := v.(string)
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
