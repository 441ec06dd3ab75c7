package operate

import (
	"reflect"

	"holdfast/internal/errcode"
)

// ErrStopped means that the operation was interrupted. Jobs return it when their context ended; a wrapped ErrStopped may
// say how to continue.
var ErrStopped = errcode.New(errcode.Unavailable, "stopped before the end")

// Update is a job's progress: amounts, or a reason to wait, or a found row.
type Update struct {
	Step  string // the part that the job works on, e.g. "bucket photos"; "": there are no parts
	Done  int64  // in units of About.Counts, since the step began
	Total int64  // 0: unknown
	Bytes int64  // transferred since the step began; 0: unknown
	Waits string // without a full stop; "": the job works
	Found any    // a row, see WithFound; then the other fields are empty
}

// Progress receives a job's updates. Jobs call its methods as often as they like, but not concurrently, and not after
// they, or File.Write, returned. The function runs in the job's goroutine, so the job waits for it. The methods of a nil
// Progress do nothing.
type Progress func(Update)

// Report sends the amounts for a job without steps; total 0 means unknown.
func (p Progress) Report(done, total int64) { p.send(Update{Done: done, Total: total}) }

// Moved is Report for jobs that transfer data: bytes is their size, so that the command can show a rate.
func (p Progress) Moved(done, total, bytes int64) {
	p.send(Update{Done: done, Total: total, Bytes: bytes})
}

// Step sends the current step's amounts. A new name starts a new progress bar.
func (p Progress) Step(step string, done, total int64) {
	p.send(Update{Step: step, Done: done, Total: total})
}

// Wait reports why the job waits, until the next update.
func (p Progress) Wait(text string) { p.send(Update{Waits: text}) }

// Find reports a row, e.g. a finding. The operation must be declared by WithFound, with the row's type. A command prints
// a Printed's text at once, unless it prints JSON.
func (p Progress) Find(value any) { p.send(Update{Found: value}) }

// Printed is a job's row with text for people that ends with a line break.
type Printed interface{ Text() string }

// send does nothing for a nil Progress, so jobs need not ask whether somebody watches.
func (p Progress) send(u Update) {
	if p != nil {
		p(u)
	}
}

// Found describes the rows that a running job reports.
type Found struct {
	Title   string   // the table's, in the console
	Empty   string   // sentence for a table without rows
	Columns []Column // of Row's cells
	fields  outputs
}

// Row converts a row that the job reported, with the type given to WithFound.
func (f *Found) Row(value any) Row { return f.fields.row(value) }

// WithFound declares a job's rows (Progress.Find), tagged like list rows. With --json the command prints them as
// lines; the console and the API show the first MaxFound.
func WithFound[T any](o Operation, title, empty string) Operation {
	f := &Found{Title: title, Empty: empty, fields: outputsOf(reflect.TypeFor[T]())}
	f.Columns = f.fields.columns
	o.Found = f
	return o
}
