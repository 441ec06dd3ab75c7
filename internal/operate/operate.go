// Package operate declares the operations of a service: each thing an operator can do, once. Packages
// cli, console and adminapi make the command, the page or button, and the admin route of an operation, and
// package openapi makes its entry in the API description.
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
	List     Kind = iota // shows rows and changes nothing
	Read                 // shows one thing and changes nothing
	Change               // does one step of the service
	Job                  // changes many things in steps, and reports its progress
	Download             // sends a file and changes nothing
	Upload               // changes many things as a file says
)

// DryRun is the name of the input that makes a change report its effect without changing anything. The command does not ask then.
const DryRun = "dry-run"

// Changes reports whether an operation changes anything.
func (k Kind) Changes() bool { return k == Change || k == Job || k == Upload }

// About is what people read about an operation.
type About struct {
	// Path is the noun of a list, e.g. "keys", or the noun and the verb of another operation, e.g.
	// "keys/retire". It names the command, the page or the button, and the route.
	Path string
	Doc  string // help of the command: a sentence without a full stop
	More string // more help of the command; lines end as they are printed

	Example string // of the command: what follows its words, a line for each example

	// Of the first operation with a noun: the help of the command with the noun.
	Group string
	Long  string

	Title string // of the page of a list or a read; of the form of a change, which is then below the list
	Text  string // above the list or in the form
	Empty string // of a list without rows

	Opens string // of a list or a read: a page of the service that rows lead to, instead of a read

	// Of a list.
	Rows     string // the member of the JSON that has the rows; "": the noun
	Limit    int    // rows that the command prints without --limit; 0: all
	PageRows int    // rows that the command reads at once; 0: 500

	Live time.Duration // of a list without buttons: how often its page updates the rows; 0: never

	// Of a list or a read.
	Resumes bool     // the command has --after, and prints where the next page or part begins
	Offers  []string // changes of other nouns that its page offers for a row, e.g. "access/allow"
	Finds   string   // of a read: the button of a form on the page of the noun, which shows the thing that is typed

	// Of a change: the button.
	Button   string // "": the verb
	Ask      string // what cannot be undone, shown after the first click, and before the command asks
	Confirm  string // the words that the operator types first
	Retypes  bool   // the operator types the subject first
	Stays    bool   // the thing exists afterwards, so the page that shows it is shown again
	Danger   bool   // the command asks on a terminal
	NeedsYes bool   // the command also asks without a terminal, so a script needs --yes
	NewRow   bool   // the subject need not be in the list
	Counts   string // of a job or a download: the unit of its progress, e.g. "rows"

	// Of a download or an upload.
	Media   string // content type of the file
	Memory  int64  // bytes that a server needs meanwhile
	Secret  bool   // of a download: the file has secrets, so an operator who may change nothing does not get it, and it is recorded
	Largest int64  // of an upload: bytes of the largest file

	MayBeStdin bool // of an upload: without a file the command reads standard input

	// Of a job: it may take longer than a request, so a server runs it in the background; see InBackground.
	Background bool
	Begun      string // of a background job: what the console says when it was started; "": the job has begun
	Stop       string // the button that stops it; "": stop the job

	Refuses func() error // of a background job: why it cannot begin now; nil: it always can

	// Setup, if set, returns how to configure what the operation needs; nil: it is configured. The console shows it instead of a list without
	// rows, and has no button of a change.
	Setup func() *Setup

	// ServerOnly says that there is no command, because the operation is about the process of the server.
	ServerOnly bool

	Former []Former // spellings of the command, which no help shows
}

// Setup says how to configure what an operation needs.
type Setup struct {
	Text  string // what to do, in two short sentences
	Lines string // of the configuration, to be copied
	Guide string // a file
}

// Missing returns what has to be configured before the operation can be used, or nil.
func (o *Operation) Missing() *Setup {
	if o.Setup == nil {
		return nil
	}
	return o.Setup()
}

// Former is a former spelling of a command.
type Former struct {
	Words string // after holdfast, e.g. "sync node drain"
	Noun  bool   // they stand for the noun, before all its verbs
	JSON  bool   // the command always printed JSON
	Flag  string // without which the words are no spelling of this command, e.g. "undo"; it is not typed any more
	Keeps bool   // the flag is still typed
	Value bool   // the value of the flag is the first argument now
}

// Operation is a declared operation. NewList, NewRead, NewChange and NewJob make it.
type Operation struct {
	About
	Kind    Kind
	Inputs  []Input
	Columns []Column // of the rows of a list, or of the result of another operation
	Names   []string // the inputs of other operations that take what names a row, besides the subjects of the list
	Also    *Member  // of the JSON of a list, besides the rows
	Found   *Found   // what a job finds while it runs; nil: nothing

	out      reflect.Type
	isPaged  bool
	runs     *Runs    // of a background job
	recorder Recorder // nil: nobody records the runs
	run      func(ctx context.Context, values map[string]string, c call) (*Result, error)
	check    func(values map[string]string) error
}

// Member is a member of the JSON of a list, besides the rows.
type Member struct {
	Name string
	Type reflect.Type
	Get  func(context.Context) (any, error)
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

// Label returns the text of the button.
func (o *Operation) Label() string {
	if o.Button != "" {
		return o.Button
	}
	return Sentence(o.Verb())
}

// LabelOf returns the text of the button with the names of its subjects: "Revoke key K", "Delete tenant T" or "Stop writes: service S".
func (o *Operation) LabelOf(named string) string {
	label := o.Label()
	for _, s := range o.Subjects() {
		label = strings.TrimSuffix(label, " "+s.Name)
	}
	if named == "" {
		return label
	}
	if strings.Contains(label, " ") { // it has an object of its own
		label += ":"
	}
	return label + " " + named
}

// Sentence returns the words of a name, e.g. "Retry all" for "retry-all".
func Sentence(name string) string {
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "-", " ")
}

// Subjects returns the inputs that name what is shown or changed, which are the first ones: the last is
// the thing itself, and those before it name where it is.
func (o *Operation) Subjects() []Input {
	n := 0
	for n < len(o.Inputs) && o.Inputs[n].Subject {
		n++
	}
	return o.Inputs[:n]
}

// Others returns the inputs that are no subjects.
func (o *Operation) Others() []Input { return o.Inputs[len(o.Subjects()):] }

// Subject returns the last subject, or nil.
func (o *Operation) Subject() *Input {
	if all := o.Subjects(); len(all) > 0 {
		return &all[len(all)-1]
	}
	return nil
}

// IsPaged reports whether a list is read in pages.
func (o *Operation) IsPaged() bool { return o.isPaged }

// Input returns an input, or nil.
func (o *Operation) Input(name string) *Input {
	for i := range o.Inputs {
		if o.Inputs[i].Name == name {
			return &o.Inputs[i]
		}
	}
	return nil
}

// CheckValues returns an *InputError for a value that the operation does not understand.
func (o *Operation) CheckValues(values map[string]string) error { return o.check(values) }

// Output returns the type of the rows of a list, or of the result of another operation.
func (o *Operation) Output() reflect.Type { return o.out }

// RowsMember returns the name of the member with the rows in the JSON of a list.
func (o *Operation) RowsMember() string {
	if o.Rows != "" {
		return o.Rows
	}
	return o.Noun()
}

// Check checks the values of the inputs, by name, as Run does before it runs the operation.
func (o *Operation) Check(values map[string]string) error { return o.check(values) }

// Run runs the operation with the values of its inputs, by name. It returns an *InputError for a value
// that it does not understand. A job may return a result with an error: what it did before.
func (o *Operation) Run(ctx context.Context, values map[string]string, progress Progress) (*Result, error) {
	return o.call(ctx, values, call{progress: progress})
}

// call has the progress and the body of a run.
type call struct {
	progress Progress
	body     *Body // of an upload
}

// call runs the operation, and records what it has changed. A download is recorded when its file was sent.
func (o *Operation) call(ctx context.Context, values map[string]string, c call) (*Result, error) {
	r, err := o.unrecorded(ctx, values, c)
	if err == nil && r.File != nil {
		r.File.sent = func(err error) { o.record(ctx, values, r, err) }
	} else {
		o.record(ctx, values, r, err)
	}
	return r, err
}

func (o *Operation) unrecorded(ctx context.Context, values map[string]string, c call) (*Result, error) {
	r, err := o.run(ctx, values, c)
	if r != nil {
		r.choose(o.Columns, values)
	}
	return r, err
}

// None is the input of an operation that takes none.
type None struct{}

// Changed is the result of a change. Without a notice, its fields with the tag title are shown. The tag secret is on
// a field that is shown only once, such as a token, and says so: the command prints it (and nothing else if it is the
// only one with a title and without the tag aside), the console shows it instead of the page, with a QR code that the tag
// qr names, and the API sends it.
type Changed interface{ Notice() string }

// NewList declares a list. The fields of In are the inputs. Their tags are doc, the help, and flag, the name. Only the
// command has an input with the tag local. What is typed into one with the tag secret is not shown, and the log of changes
// leaves out one with the tag private. Words, e.g. settings=rw, are a []string.
// A list that is read in pages embeds Page in In, and one that shows the latest rows embeds Latest.
// The fields of Out have the tag json, and the tag title if people read them. The tag subject is on the
// fields that name the row, with the names of the inputs of other operations that take them, and the tag cursor
// on the field for Page.After. A field with the tag with is shown only if the input that it names is true; with the tag
// local, which such a field of a local input has, too, the API does not describe it. A method
// Offers(verb string) bool of Out says which changes the console offers for a row. If In has subjects, the list
// belongs to them, such as the keys of an account: the rows of the list that name all of these subjects link to it.
func NewList[In, Out any](about About, fn func(context.Context, In) ([]Out, error)) Operation {
	o, row := declare[In, Out](List, about)
	o.run = runner(o.Inputs, false, func(ctx context.Context, in In, _ call) ([]Out, error) { return fn(ctx, in) }, func(in In, all []Out) *Result {
		r := &Result{members: map[string]any{o.RowsMember(): append([]Out{}, all...)}}
		for _, one := range all {
			r.Rows = append(r.Rows, row(one))
		}
		if limited, ok := any(in).(interface{ limit() int }); ok && o.isPaged {
			if len(all) > 0 && len(all) == limited.limit() {
				r.Next = r.Rows[len(all)-1].cursor
			}
			r.members["next"] = r.Next
		}
		return r
	})
	return o
}

// With adds a member to the JSON of a list.
func With[T any](o Operation, name string, get func(context.Context) (T, error)) Operation {
	o.Also = &Member{name, reflect.TypeFor[T](), func(ctx context.Context) (any, error) { return get(ctx) }}
	return o
}

// NewRead declares a read of one thing. The first fields of In, which name the thing, have the tag subject
// instead of flag: "tenant", or "tenant,flag" for a required flag of the command instead of an argument. Out is as
// for NewList, and the tag text is on a field that is shown as a text, e.g. a body. A read in parts has the input after, and
// the tag cursor on a field with its value for the next part, which is empty in the last one.
func NewRead[In, Out any](about About, fn func(context.Context, In) (Out, error)) Operation {
	o, row := declare[In, Out](Read, about)
	o.run = runner(o.Inputs, false, func(ctx context.Context, in In, _ call) (Out, error) { return fn(ctx, in) }, func(_ In, out Out) *Result {
		r := &Result{Rows: []Row{row(out)}, value: out}
		if next, ok := r.Rows[0].cursor.(string); ok && next != "" && o.Input("after") != nil {
			r.Next = next
		}
		return r
	})
	return o
}

// NewChange declares a change. The first fields of In have the tag subject, as for NewRead, if the change
// is for one thing. Out is as for NewList.
func NewChange[In any, Out Changed](about About, fn func(context.Context, In) (Out, error)) Operation {
	return newChange(Change, about, func(ctx context.Context, in In, _ call) (Out, error) { return fn(ctx, in) })
}

// NewJob declares a job. Without a subject it concerns all rows of the list. It is as NewChange, but if fn
// returns an error and a result with a notice, the command shows both. A method IsPartial() bool of Out says whether
// the job has left something to do.
func NewJob[In any, Out Changed](about About, fn func(context.Context, In, Progress) (Out, error)) Operation {
	return newChange(Job, about, func(ctx context.Context, in In, c call) (Out, error) { return fn(ctx, in, c.progress) })
}

func newChange[In any, Out Changed](kind Kind, about About, fn func(context.Context, In, call) (Out, error)) Operation {
	o, row := declare[In, Out](kind, about)
	o.run = runner(o.Inputs, kind != Change, fn, func(_ In, out Out) *Result {
		r := &Result{Rows: []Row{row(out)}, value: out, Notice: out.Notice()}
		if noted, ok := any(out).(interface{ Note() string }); ok {
			r.Note = noted.Note()
		}
		return r
	})
	return o
}

// runner returns a function that parses the inputs, calls fn, and makes a result of what it returns.
func runner[In, Out any](inputs []Input, isPartial bool, fn func(context.Context, In, call) (Out, error), result func(In, Out) *Result) func(context.Context, map[string]string, call) (*Result, error) {
	return func(ctx context.Context, values map[string]string, c call) (*Result, error) {
		in, err := parse[In](inputs, values)
		if err != nil {
			return nil, err
		}
		out, err := fn(ctx, in, c)
		if err != nil && !isPartial {
			return nil, err
		}
		r := result(in, out)
		if err != nil && r.Notice == "" {
			return nil, err
		}
		return r, err
	}
}

// declare reads the tags, and returns a function that makes a row. It panics if the declaration is
// wrong: that is when the program starts, and in every test.
func declare[In, Out any](kind Kind, about About) (o Operation, row func(Out) Row) {
	o = Operation{About: about, Kind: kind, Inputs: inputsOf(reflect.TypeFor[In]()), out: reflect.TypeFor[Out]()}
	switch _, _, hasVerb := strings.Cut(o.Path, "/"); {
	case hasVerb && kind == List:
		panic(fmt.Sprintf("operation %q: expected a noun alone: a list has no verb", o.Path))
	case !hasVerb && kind != List:
		panic(fmt.Sprintf("operation %q: expected a noun and a verb, e.g. keys/revoke", o.Path))
	case o.Doc == "":
		panic(fmt.Sprintf("operation %q: expected a doc", o.Path))
	}
	if (kind == Download || kind == Upload) != (o.Media != "") {
		panic(fmt.Sprintf("operation %q: expected a content type of a download or an upload, and of no other operation", o.Path))
	}
	if kind == Read && len(o.Subjects()) == 0 {
		panic(fmt.Sprintf("operation %q: expected the tag subject on the first input of a read", o.Path))
	}
	o.check = func(values map[string]string) error {
		_, err := parse[In](o.Inputs, values)
		return err
	}
	fields := outputsOf(o.out)
	o.Columns, o.Names = fields.columns, fields.names
	for _, c := range o.Columns {
		if in := o.Input(c.With); c.With != "" && (in == nil || !in.IsBool()) {
			panic(fmt.Sprintf("operation %q: expected the name of an input that is true or false in the tag with of %s", o.Path, c.Title))
		}
		if c.Secret != "" && (kind != Change || c.Subject != "") {
			panic(fmt.Sprintf("operation %q: only the result of a change has a secret, and it is no subject", o.Path))
		}
	}
	hasAfter, hasCursor := o.Input("after") != nil, fields.cursor != nil // a read may have the result of a list
	if kind == List && hasAfter != hasCursor || kind == Read && hasAfter && !hasCursor {
		missing := "the tag cursor on the field of the result that is the next input after"
		if !hasAfter {
			missing = "the input after, which Page has, because the result has the tag cursor"
		}
		panic(fmt.Sprintf("operation %q: expected %s", o.Path, missing))
	}
	o.isPaged = kind == List && hasAfter
	return o, func(out Out) Row { return fields.row(out) }
}
