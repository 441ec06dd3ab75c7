package operate

import "reflect"

// Update says what a job does.
type Update struct {
	Step  string // of a job with several steps; "": About.Counts
	Done  int64
	Total int64  // 0: it is not known
	Waits string // what it waits for, a text without a full stop; "": it works
	Found any    // what it has found; see WithFound
}

// Progress gets what a job does, from one goroutine at a time; nil: nobody watches it.
type Progress func(Update)

// Report reports what a job has done. The total is 0 if it is not known.
func (p Progress) Report(done, total int64) { p.send(Update{Done: done, Total: total}) }

// Step reports what a step of a job has done.
func (p Progress) Step(step string, done, total int64) {
	p.send(Update{Step: step, Done: done, Total: total})
}

// Wait reports what a job waits for, until it reports something else.
func (p Progress) Wait(text string) { p.send(Update{Waits: text}) }

// Find reports what a job has found.
func (p Progress) Find(found any) { p.send(Update{Found: found}) }

func (p Progress) send(u Update) {
	if p != nil {
		p(u)
	}
}

// Found says how the rows that a job finds while it runs are shown.
type Found struct {
	Title   string // of the table
	Empty   string // instead of the table, if there are no rows so far
	Columns []Column
	fields  outputs
}

// Row returns the row of something that a job has found.
func (f *Found) Row(found any) Row { return f.fields.row(found) }

// WithFound adds rows to a job, which it finds while it runs (Progress.Find). The fields of T are as those of a list.
// The command prints a line for each with --json; the console and the API show the first of them.
func WithFound[T any](o Operation, title, empty string) Operation {
	f := &Found{Title: title, Empty: empty, fields: outputsOf(reflect.TypeFor[T]())}
	f.Columns = f.fields.columns
	o.Found = f
	return o
}
