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

// Result is an operation's result, in the form that all renderers share: cells for people, and JSON.
type Result struct {
	// Columns says which cells each row has. Columns whose input (tag with) is not true are left out.
	Columns []Column
	Rows    []Row // a single row unless the operation is a list

	File *File // a download's; then there are no rows

	Notice string // a sentence without a full stop; "": show the columns
	Note   string // a warning beside the result, or ""
	Next   any    // next page's or part's cursor; nil: last

	value   any            // the function's result, unless it is a list
	members map[string]any // a list's JSON object
}

// JSON returns the value that the API sends: for a list an object with its rows, next if the list is paged, and the
// member from With. The error comes from With's function.
func (o *Operation) JSON(ctx context.Context, r *Result) (any, error) {
	if o.Kind != List || o.Also == nil {
		return r.JSON(), nil
	}
	also, err := o.Also.Get(ctx)
	all := maps.Clone(r.members)
	all[o.Also.Name] = also
	return all, err
}

// JSON returns the value that --json prints; for a list without With's member.
func (r *Result) JSON() any {
	if r.members != nil {
		return r.members
	}
	return r.value
}

// Row is a list row, or another operation's result.
type Row struct {
	Value    any                    // the function's result
	Cells    []any                  // a value for each column in Result.Columns; see Column.Type
	Texts    []Text                 // fields tagged text
	Tables   []Table                // fields tagged table
	Snippets []Text                 // from the result's method Snippets: lines to copy that use a new secret; only the console shows them, and first a text without a title
	Note     string                 // a list prints each distinct note once
	Subjects map[string]string      // Operation.Names with this row's values
	Called   string                 // for people; "": the subject
	Offers   func(verb string) bool // reports whether the console shows the change with this verb; never nil

	cursor any // of the field tagged cursor, or nil
}

// Text is a longer text below a read's facts.
type Text struct{ Title, Body string }

// Column is a row field for people.
type Column struct {
	Title   string
	Type    reflect.Type // type of the cell's value; a cell may hold a Share, or the text in the tag zero
	Subject string       // name in Row.Subjects for this value, or for the value it describes
	Secret  string       // says that the value is shown once; "": not secret
	Sort    string       // sort input value for this order, or ""
	QR      string       // label in the console, or ""
	Aside   bool         // the command shows it only as JSON
	Main    bool         // names rows for people, not the subject
	With    string       // input that must be true to show it, or ""

	zero  string // shown for the zero value
	at    []int  // field index path
	whole []int  // field index path: the total (tag of), or nil
}

// Share is a part with a nonzero whole, shown as a bar in the console.
type Share struct {
	Value any
	Part  int64 // e.g. used bytes
	Whole int64 // e.g. the quota
}

// String returns the part alone, as commands print it.
func (s Share) String() string { return fmt.Sprint(s.Value) }

// IsTime reports whether the column shows points in time, which commands print in UTC.
func (c *Column) IsTime() bool { return c.Type == reflect.TypeFor[time.Time]() }

// IsNumber reports whether the column is aligned to the right.
func (c *Column) IsNumber() bool { return reflect.Zero(c.Type).CanInt() }

// HasSecret reports whether the result contains a column that is shown only once. Lists never do.
func (r *Result) HasSecret() bool {
	return slices.ContainsFunc(r.Columns, func(c Column) bool { return c.Secret != "" })
}

// IsPartial reports whether work remains; see Partial.
func (r *Result) IsPartial() bool {
	p, ok := r.value.(Partial)
	return ok && p.IsPartial()
}

// choose keeps the columns that the inputs select, and their cells.
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

// outputs describes a result struct, from its tags.
type outputs struct {
	columns  []Column
	texts    []Column
	tables   []nested
	names    []string // subjects, in field order
	subjects [][]int  // field index path for each name
	cursor   []int    // field tagged cursor, or nil
	called   []int    // field tagged names, or nil
}

// outputsOf reads a result struct's tags and panics on a wrong tag.
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

// row converts a result for renderers. out is of the type given to outputsOf.
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
	if used, ok := out.(interface{ Snippets() []Text }); ok {
		r.Snippets = used.Snippets()
	}
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

// cell returns the column's value in a result; a nil pointer is "".
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

// shown returns a text or indented JSON as it is displayed.
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
