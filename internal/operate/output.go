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

type Result struct {
	Columns []Column
	Rows    []Row // a single row unless the operation is a list

	File *File

	Notice string // a sentence without a full stop; "": show the columns
	Note   string
	Next   any // next page's or part's cursor; nil: last

	value   any
	members map[string]any
}

func (o *Operation) JSON(ctx context.Context, r *Result) (any, error) {
	if o.Kind != List || o.Also == nil {
		return r.JSON(), nil
	}
	also, err := o.Also.Get(ctx)
	all := maps.Clone(r.members)
	all[o.Also.Name] = also
	return all, err
}

func (r *Result) JSON() any {
	if r.members != nil {
		return r.members
	}
	return r.value
}

// Row is a list row, or another operation's result.
type Row struct {
	Value    any
	Cells    []any
	Texts    []Text
	Tables   []Table
	Note     string            // a list prints each distinct note once
	Subjects map[string]string // Operation.Names with this row's values
	Called   string            // for people; "": the subject
	Offers   func(verb string) bool

	cursor any
}

type Text struct{ Title, Body string }

// Column is a row field for people.
type Column struct {
	Title   string
	Type    reflect.Type
	Subject string // name in Row.Subjects for this value, or for the value it describes
	Secret  string // says that the value is shown once; "": not secret
	Sort    string // sort input value for this order, or ""
	QR      string // label in the console, or ""
	Aside   bool   // the command shows it only as JSON
	Main    bool   // names rows for people, instead of the subject
	With    string // input that must be true to show it, or ""

	zero  string
	at    []int
	whole []int
}

// Share is a part with a nonzero whole, shown as a bar in the console.
type Share struct {
	Value       any
	Part, Whole int64
}

func (s Share) String() string { return fmt.Sprint(s.Value) }

func (c *Column) IsTime() bool { return c.Type == reflect.TypeFor[time.Time]() }

func (c *Column) IsNumber() bool { return reflect.Zero(c.Type).CanInt() }

// HasSecret returns false for lists.
func (r *Result) HasSecret() bool {
	return slices.ContainsFunc(r.Columns, func(c Column) bool { return c.Secret != "" })
}

func (r *Result) IsPartial() bool {
	p, ok := r.value.(Partial)
	return ok && p.IsPartial()
}

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

type outputs struct {
	columns  []Column
	texts    []Column
	tables   []nested
	names    []string
	subjects [][]int
	cursor   []int
	called   []int
}

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
