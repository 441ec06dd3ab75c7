// Package operate declares the operations of a service: each thing an operator can do, once. Packages
// cli, console and adminapi make the command, the page or button, and the admin route of an operation.
package operate

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Kind says what an operation does.
type Kind int

// The kinds.
const (
	List   Kind = iota // shows rows and changes nothing
	Change             // does one step of the service
)

// About is what people read about an operation.
type About struct {
	// Path is the noun of a list, e.g. "keys", or the noun and the verb of a change, e.g. "keys/retire".
	// It names the command, the page or the button, and the route.
	Path string
	Doc  string // help of the command: a sentence without a full stop

	// Of a list: the help of the command with its noun, and the page.
	Group string
	Long  string
	Title string
	Text  string
	Empty string // without rows

	// Of a change: the button. With a Title or a Text it has a form of its own below the list.
	Button  string // "": the verb
	Ask     string // what cannot be undone, shown after the first click
	Confirm string // the words that the operator types first
	Danger  bool
	NewRow  bool // the subject need not be in the list

	Former []string // of a list: former names of the noun, which commands still accept and no help shows
}

// Operation is a declared operation. NewList and NewChange make it.
type Operation struct {
	About
	Kind    Kind
	Inputs  []Input
	Columns []Column // of the rows of a list, or of the result of a change
	Names   string   // the input of changes that takes the subject of the rows; "": no change takes it

	run func(ctx context.Context, values map[string]string) (*Result, error)
}

// Noun returns the first part of the path.
func (o *Operation) Noun() string {
	noun, _, _ := strings.Cut(o.Path, "/")
	return noun
}

// Verb returns the second part of the path, or "list".
func (o *Operation) Verb() string {
	if _, verb, ok := strings.Cut(o.Path, "/"); ok {
		return verb
	}
	return "list"
}

// Subject returns the input that names the row to change, or nil.
func (o *Operation) Subject() *Input {
	if len(o.Inputs) > 0 && o.Inputs[0].Subject {
		return &o.Inputs[0]
	}
	return nil
}

// Run runs the operation with the values of its inputs, by name. It returns an *InputError for a value
// that it does not understand.
func (o *Operation) Run(ctx context.Context, values map[string]string) (*Result, error) {
	return o.run(ctx, values)
}

// Result is what an operation returns.
type Result struct {
	Rows   []Row  // of a change: what it has changed
	Value  any    // as JSON
	Notice string // what a change did: a sentence without a full stop
}

// Row is a row of a list, or the result of a change.
type Row struct {
	Value   any    // as JSON
	Cells   []any  // by Operation.Columns
	Subject string // the value of the input of changes that names this row
	Offers  func(verb string) bool
}

// Column is a field of a row that people read.
type Column struct {
	Title string
	Type  reflect.Type

	at int
}

// IsTime reports whether the fields are times.
func (c *Column) IsTime() bool { return c.Type == reflect.TypeFor[time.Time]() }

// IsNumber reports whether the fields are whole numbers.
func (c *Column) IsNumber() bool { return reflect.Zero(c.Type).CanInt() }

// None is the input of an operation that takes none.
type None struct{}

// Changed is the result of a change.
type Changed interface{ Notice() string }

// NewList declares a list. The fields of In are the inputs. Their tags are doc, the help, and flag, the name.
// The fields of Out have the tag json, and the tag title if people read them. The tag subject is on the
// field that names the row, with the name of the input of changes that takes it. A method
// Offers(verb string) bool of Out says which changes the console offers for a row.
func NewList[In, Out any](about About, fn func(context.Context, In) ([]Out, error)) Operation {
	o, row := declare[In, Out](List, about)
	o.run = runner(o.Inputs, fn, func(all []Out) *Result {
		r := &Result{Value: map[string]any{o.Noun(): append([]Out{}, all...)}}
		for _, one := range all {
			r.Rows = append(r.Rows, row(one))
		}
		return r
	})
	return o
}

// NewChange declares a change. The first field of In has the tag subject instead of flag if the change
// is for one subject. Out is as for NewList.
func NewChange[In any, Out Changed](about About, fn func(context.Context, In) (Out, error)) Operation {
	o, row := declare[In, Out](Change, about)
	o.run = runner(o.Inputs, fn, func(out Out) *Result {
		return &Result{Rows: []Row{row(out)}, Value: out, Notice: out.Notice()}
	})
	return o
}

// runner returns a function that parses the inputs, calls fn, and makes a result of what it returns.
func runner[In, Out any](inputs []Input, fn func(context.Context, In) (Out, error), result func(Out) *Result) func(context.Context, map[string]string) (*Result, error) {
	return func(ctx context.Context, values map[string]string) (*Result, error) {
		in, err := parse[In](inputs, values)
		if err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return result(out), nil
	}
}

// declare reads the tags, and returns a function that makes a row. It panics if the declaration is
// wrong: that is when the program starts, and in every test.
func declare[In, Out any](kind Kind, about About) (o Operation, row func(Out) Row) {
	o = Operation{About: about, Kind: kind, Inputs: inputsOf(reflect.TypeFor[In]())}
	if _, _, hasVerb := strings.Cut(o.Path, "/"); hasVerb != (kind == Change) || o.Doc == "" {
		panic(fmt.Sprintf("operation %q: expected a noun, or a noun and a verb for a change, and a doc", o.Path))
	}
	t, subject := reflect.TypeFor[Out](), -1
	for i := range t.NumField() {
		f := t.Field(i)
		if title := f.Tag.Get("title"); title != "" {
			o.Columns = append(o.Columns, Column{title, f.Type, i})
		}
		if name := f.Tag.Get("subject"); name != "" {
			o.Names, subject = name, i
		}
	}
	return o, func(out Out) Row {
		v := reflect.ValueOf(out)
		r := Row{Value: out, Offers: func(string) bool { return true }}
		for _, c := range o.Columns {
			r.Cells = append(r.Cells, v.Field(c.at).Interface())
		}
		if subject >= 0 {
			r.Subject = v.Field(subject).String()
		}
		if offers, ok := any(out).(interface{ Offers(verb string) bool }); ok {
			r.Offers = offers.Offers
		}
		return r
	}
}
