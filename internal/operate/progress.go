package operate

import (
	"reflect"

	"holdfast/internal/errcode"
)

// ErrStopped means that the operation was interrupted.
var ErrStopped = errcode.New(errcode.Unavailable, "stopped before the end")

type Update struct {
	Step  string
	Done  int64
	Total int64 // 0: unknown
	Bytes int64
	Waits string // without a full stop; "": the job works
	Found any
}

// Progress receives updates, not concurrently; nil: unwatched.
type Progress func(Update)

func (p Progress) Report(done, total int64) { p.send(Update{Done: done, Total: total}) }

func (p Progress) Moved(done, total, bytes int64) {
	p.send(Update{Done: done, Total: total, Bytes: bytes})
}

func (p Progress) Step(step string, done, total int64) {
	p.send(Update{Step: step, Done: done, Total: total})
}

// Wait reports why the job waits, until the next update.
func (p Progress) Wait(text string) { p.send(Update{Waits: text}) }

// Find reports a row, e.g. a finding. A command prints a Printed's text at once, unless it prints JSON.
func (p Progress) Find(found any) { p.send(Update{Found: found}) }

// Printed is a job's row with text for people that ends with a line break.
type Printed interface{ Text() string }

func (p Progress) send(u Update) {
	if p != nil {
		p(u)
	}
}

// Found describes the rows that a running job reports.
type Found struct {
	Title   string
	Empty   string
	Columns []Column
	fields  outputs
}

func (f *Found) Row(found any) Row { return f.fields.row(found) }

// WithFound declares a job's rows (Progress.Find), tagged like list rows. With --json the command prints them as
// lines; the console and the API show the first MaxFound.
func WithFound[T any](o Operation, title, empty string) Operation {
	f := &Found{Title: title, Empty: empty, fields: outputsOf(reflect.TypeFor[T]())}
	f.Columns = f.fields.columns
	o.Found = f
	return o
}
