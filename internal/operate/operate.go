// Package operate declares everything that an operator can do, once for the command line, the console and the API.
package operate

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
)

// Kind decides the result of an operation's function, and how the command, the console and the API show it.
type Kind int

const (
	List     Kind = iota // shows rows: GET, a table. See NewList
	Read                 // shows a single thing: GET, its own page. See NewRead
	Change               // does a single step: POST, a button or a form. See NewChange
	Job                  // does many steps and reports its progress. See NewJob
	Download             // returns a file: GET, a link. See NewDownload
	Upload               // takes a file and works like a job: POST. See NewUpload
)

// DryRun names the input that makes a change only report its effect.
const DryRun = "dry-run"

// Changes reports whether such operations may write. They need the admin token, are sent with POST, and are
// recorded in the change log.
func (k Kind) Changes() bool { return k == Change || k == Job || k == Upload }

// Access says whether operators with the viewer token may open a list, a read, a download, or a page. Changes are never
// theirs. The zero value refuses them, and a test fails until it is declared.
type Access int

const (
	Undeclared Access = iota // refuses viewers; tests fail while a list, read or download is undeclared
	ForViewers               // they may see it: it shows no secret, and as a file no user data
	ForAdmins                // only the admin token opens it
)

// About describes an operation: its name, its help texts, and how the command, the console and the API offer it. Path
// and Doc are required; a zero value means that the operation does without. Fields that describe the noun (Group,
// Long) are read only from the first operation with that noun.
type About struct {
	// Path is a plural noun for a list, e.g. "keys", and a noun and a verb for every other kind, e.g. "keys/retire".
	// It is the command (keys retire; keys list for a list), the page and its button, and the route
	// (/SERVICE/keys/retire). The verbs show, add and create are special: see package adminapi.
	Path string
	// Doc is the command's help and the summary in the API description: a sentence without a full stop, e.g.
	// "Retire a key".
	Doc string
	// More continues Doc in the command's help and in the API description. Lines are broken by hand.
	More string

	// Short is a second spelling of the command: a word after the service's name, e.g. "compare" for holdfast sync
	// compare. "" means that only noun and verb name it.
	Short string
	// Alias is another word for the verb in the command, e.g. "rm" for delete; "": none.
	Alias string
	// Example lists examples for the command's help, each on a line with only the arguments and flags: "main
	// --dry-run\n".
	Example string

	// Group is the noun command's help, e.g. "Manage access keys". Only the noun's first operation sets it.
	Group string
	// Long is the noun command's longer help, after Group. Only the noun's first operation sets it.
	Long string

	// Title is the page title. A change with a title is a form with that title below the list or
	// on its subject's page.
	Title string
	// Text is a paragraph in the console: above a list's rows, or in a change's form.
	Text string
	// Empty is the sentence that the console shows for a list without rows. The command then prints only the head
	// of the table, or nothing with --json.
	Empty string

	// Opens is another page's path, e.g. "records": the console links each row of a list, and
	// each row of a read's tables, to it, and not to the subject's read. The link passes all subjects in the
	// row. After a NewRow change the console opens this page for the new row.
	Opens string

	// Rows is the JSON member with a list's rows. The command's help uses the same word. "" means the
	// noun.
	Rows string
	// Limit is the default for the list command's flag --limit. A paged list with a limit also gets the flag
	// --all. 0 prints all rows.
	Limit int
	// PageRows is how many rows the command reads with each call. 0 means 500.
	PageRows int

	// Live is how often the console refreshes a list without buttons. 0 means only when the page is loaded.
	Live time.Duration

	// Resumes lets the command for a paged list or read continue an earlier one: it gets the flag --after, and prints
	// the value for the next call on standard error, or as the JSON line {"next": …}.
	Resumes bool
	// Offers lists paths: changes that belong to other nouns, e.g. "access/allow". The console offers them as
	// buttons in this list's rows, or on this read's page. Their subjects must be named by the row.
	Offers []string
	// Finds makes the noun's page begin with a form for the read's subjects, which opens the
	// thing. It is the form's button, e.g. "Show".
	Finds string

	// Button is the text on the button or the form's submit button. "" means the verb, e.g. "Retry all" for
	// retry-all.
	Button string
	// OwnForm says that a page of the service has a form for this change, with the same inputs in other words. The
	// console then makes none.
	OwnForm bool
	// Done is the title of the console's page with the result, e.g. "Access key created". "" means Title.
	Done string
	// Ask is the text before the change begins: in the dialog that a button opens, in the form, and
	// before the command's question. It warns in whole sentences.
	Ask string
	// Asks replaces Ask in the console if the text depends on the server's state. It is called for each page, also
	// concurrently.
	Asks func() string
	// Confirm lists words that the operator types into the console's form before the change, e.g. "drop all". The
	// command and the API do not ask for them.
	Confirm string
	// Retypes makes the operator type the subject's name into the console's form. It is Confirm with the name as its
	// words.
	Retypes bool
	// Stays says that the subject still exists after the change: the console then shows its page again. Otherwise it
	// shows the list.
	Stays bool
	// Danger colors the button, and makes the command ask if its standard input is a terminal, unless --yes is given.
	// An operation with the input DryRun shows a dry run before it asks.
	Danger bool
	// NeedsYes makes the command ask without a terminal, too, so scripts need --yes.
	NeedsYes bool
	// NewRow says that the subject may be new, as in "add" or "create": the console offers a form below the list,
	// not a button in each row, and does not restrict the subject to the list's rows.
	NewRow bool
	// Counts names the units in a job's progress, e.g. "rows", for the command's progress bar. Update.Step
	// replaces it.
	Counts string

	// Media is the file's content type, e.g. Lines. No other kind sets it.
	Media string
	// Memory is how many bytes a running operation uses at most. The server charges them to the memory budget for all
	// requests while the operation runs. 0 charges nothing.
	Memory int64
	// Secret says that a download contains secrets. It is then recorded like a change.
	Secret bool
	// Largest is the largest file that an upload accepts, in bytes; required for uploads. See
	// LargestLines.
	Largest int64

	// MayBeStdin lets an upload's command read standard input if no file is named.
	MayBeStdin bool

	// Access is required for a List, a Read and a Download. Other kinds always need the admin token.
	Access Access

	// Background runs the job in a server's background, which answers 202; see InBackground. Its context has no values
	// of the request, and ends when somebody stops the job or at Runs.End. The command still runs the job itself and
	// shows its progress.
	Background bool
	// Begun is the console's notice that a background job started, e.g. "audit started". "" means "job started".
	Begun string
	// Stop is the text on the button that stops a background job. "" means "Stop the job".
	Stop string

	// Refuses returns the reason why a background job must not start now, as an error with an errcode. The check runs
	// before the answer, because the job's own errors come too late for it. Start calls it, also concurrently; the command,
	// which runs the job itself, does not. Nil allows it always.
	Refuses func() error

	// Setup returns the settings that the operation needs and that are not set, or nil if nothing is missing. The
	// console calls it for each page, also concurrently. A nil function means that nothing is missing.
	Setup func() *Setup

	// ServerOnly says that there is no command, because the operation works on a running server's memory.
	ServerOnly bool
}

// Setup tells an operator how to turn an operation on. The console shows it and not a button that would fail.
type Setup struct {
	// Text replaces About.Empty. It names the missing feature and the setting that turns it on.
	Text  string
	Lines string // lines for the configuration file, ready to copy
	Guide string // a file in the repository, e.g. "docs/backup.md"
}

// Question returns the text shown before the button acts, or "".
func (o *Operation) Question() string {
	if o.Asks != nil {
		return o.Asks()
	}
	return o.Ask
}

// Missing returns the setup that the operation still needs, or nil.
func (o *Operation) Missing() *Setup {
	if o.Setup == nil {
		return nil
	}
	return o.Setup()
}

// Operation is a declared operation, made by NewList, NewRead, NewChange, NewJob, NewDownload or NewUpload. It does not
// change after With, WithFound, InBackground and Recorded, so it may be copied and used concurrently. Copies share the
// background runs.
type Operation struct {
	About
	Kind Kind
	// Inputs are the input struct's fields, in order; the subjects come first.
	Inputs []Input
	// Columns are the result's fields with a title. A result may show fewer; see Result.Columns.
	Columns []Column
	Names   []string // other operations' inputs that take a row's name, besides the list's subjects
	Also    *Member  // a list's member beside its rows, set by With; or nil
	Found   *Found   // the rows that a job reports while it runs, set by WithFound; or nil

	out      reflect.Type
	isPaged  bool
	runs     *Runs
	recorder Recorder
	explain  func(context.Context, error) error // nil: errors are not explained
	// run parses the values, calls the operation's function and makes the result. It does not record.
	run   func(ctx context.Context, values map[string]string, c call) (*Result, error)
	check func(values map[string]string) error
}

// Member is a list's additional JSON member.
type Member struct {
	Name string                             // in the API's answer
	Type reflect.Type                       // result type of Get, for the API description
	Get  func(context.Context) (any, error) // called for each request, also concurrently
}

// Noun returns the part before the slash. It names the page and the command group.
func (o *Operation) Noun() string {
	noun, _, _ := strings.Cut(o.Path, "/")
	return noun
}

// Verb returns the part after the slash, and "list" for a list.
func (o *Operation) Verb() string {
	if _, verb, ok := strings.Cut(o.Path, "/"); ok {
		return verb
	}
	return "list"
}

// Label returns the button's text.
func (o *Operation) Label() string {
	if o.Button != "" {
		return o.Button
	}
	return Sentence(o.Verb())
}

// LabelOf returns a label that says which row the operation is for, e.g. "Revoke key k1". Screen readers read it, and
// the command asks with it. named is the row, with the word for its kind, e.g. "key k1"; "" returns a label without a
// row.
func (o *Operation) LabelOf(named string) string {
	label := o.Label()
	for _, s := range o.Subjects() {
		label = strings.TrimSuffix(label, " "+s.Name)
	}
	if named == "" {
		return label
	}
	if strings.Contains(label, " ") {
		label += ":"
	}
	return label + " " + named
}

// Sentence returns a name's words, e.g. "Retry all" for "retry-all". name must not be empty.
func Sentence(name string) string {
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "-", " ")
}

// Subjects returns the leading inputs, which name the thing shown or changed, after its containers.
func (o *Operation) Subjects() []Input {
	n := 0
	for n < len(o.Inputs) && o.Inputs[n].Subject {
		n++
	}
	return o.Inputs[:n]
}

// Others returns the inputs after the subjects: flags, form fields, query parameters or body members.
func (o *Operation) Others() []Input { return o.Inputs[len(o.Subjects()):] }

// Subject returns the last subject, which names the thing itself, or nil for an operation without a subject. Earlier
// subjects say where it is, e.g. in which tenant.
func (o *Operation) Subject() *Input {
	if all := o.Subjects(); len(all) > 0 {
		return &all[len(all)-1]
	}
	return nil
}

// IsPaged reports whether the list is read in pages, with the inputs after and limit; see Page.
func (o *Operation) IsPaged() bool { return o.isPaged }

// Input returns the input with this name, or nil.
func (o *Operation) Input(name string) *Input {
	for i := range o.Inputs {
		if o.Inputs[i].Name == name {
			return &o.Inputs[i]
		}
	}
	return nil
}

// Output returns the type that the operation's function returns for each row, or for the whole result.
func (o *Operation) Output() reflect.Type { return o.out }

// RowsMember returns the JSON member with a list's rows.
func (o *Operation) RowsMember() string {
	if o.Rows != "" {
		return o.Rows
	}
	return o.Noun()
}

// Check returns the error with which Run would refuse the values, or nil. It does not call the operation's function.
// Besides an *InputError it may be an error from the input's own Check method.
func (o *Operation) Check(values map[string]string) error { return o.check(values) }

// Run takes input values by name; nil means none. It ignores other names, and does not change the map. It returns the
// errors of Check, and those of the operation's function unchanged, except that an error from the file system without an
// errcode is explained. The result is nil after an error, but a job or an upload may return a partial result with it. A
// background job runs to its end; Start does not wait. An upload is refused: see Upload. If the result has a File, the
// caller must send it, and keep values unchanged until then, because a download is recorded after it was sent. progress
// may be nil. Run is safe for concurrent use.
func (o *Operation) Run(ctx context.Context, values map[string]string, progress Progress) (*Result, error) {
	return o.call(ctx, values, call{progress: progress})
}

// call holds an operation's arguments beside its input.
type call struct {
	progress Progress
	body     *Body
}

// call runs the operation and records it. A file is recorded after it was sent, because a download may still fail
// then.
func (o *Operation) call(ctx context.Context, values map[string]string, c call) (*Result, error) {
	r, err := o.unrecorded(ctx, values, c)
	if err == nil && r.File != nil {
		r.File.sent = func(err error) { o.record(ctx, values, r, err) }
	} else {
		o.record(ctx, values, r, err)
	}
	return r, err
}

// unrecorded runs the operation without the list of changes. An error of the file system that has no code is explained.
func (o *Operation) unrecorded(ctx context.Context, values map[string]string, c call) (*Result, error) {
	r, err := o.run(ctx, values, c)
	if r != nil {
		r.choose(o.Columns, values)
	}
	if err != nil && o.explain != nil {
		err = o.explain(ctx, err)
	}
	return r, errcode.Explain(err, fserror.Short(err), fserror.Advice(err))
}

// None is the input for operations without inputs.
type None struct{}

// Changed is a change's result. Notice returns a sentence without a full stop, e.g. "2 keys retired". Without a notice,
// the fields tagged title are shown. The tag secret marks a value that is shown only once, e.g. a token, and contains a note that says so. The command prints the value (alone if no other
// field has title without aside). The console shows it instead of the page, with a QR code if tagged qr.
type Changed interface{ Notice() string }

// NewList declares a list. Like all functions that declare an operation, it panics if About or a tag is wrong.
//
// In is a struct, or None. Its fields, also those of embedded structs, are the inputs, with the tags doc (help) and flag
// (name): a string, int, int64 or bool, or a type made from one of these; time.Duration; or []string for words, e.g.
// settings=rw. A missing input has the value of the tag default, which an int needs, or else the zero value. Only an
// input with the tag subject is required. A method Check() error refuses values before fn is called, preferably with an
// *InputError; the methods of embedded structs are called first. The tag local restricts an input to the command; secret
// masks it; private keeps it out of the change log. A paged list embeds Page in In; a list of only the latest rows embeds
// Latest.
//
// fn may be called concurrently. Its context ends with the request, or when the command is interrupted. An error should
// have an errcode: the API derives the status from it, and people read its message. A nil slice is an empty list. The
// slice is not changed. With Page, fn returns at most Limit rows, and itself limits what a large Limit costs.
//
// Out is a struct. Its fields have the tag json, and title if people read them. The tag subject marks the fields that name the row,
// and lists the inputs of other operations that take them. The tag cursor marks the field for Page.After. A field
// tagged with is shown only if that input is true; if also tagged local, like the input, it is not in the API
// description. A method Offers(verb string) bool on Out selects the changes that the console offers for a row. If In
// has subjects, the list belongs to them, e.g. an account's keys: rows that name all of these subjects link to it.
func NewList[In, Out any](about About, fn func(context.Context, In) ([]Out, error)) Operation {
	o, row := declare[In, Out](List, about)
	o.run = runner(o.Inputs, false, func(ctx context.Context, in In, _ call) ([]Out, error) { return fn(ctx, in) }, func(in In, all []Out) *Result {
		r := &Result{members: map[string]any{o.RowsMember(): append([]Out{}, all...)}}
		for _, out := range all {
			r.Rows = append(r.Rows, row(out))
		}
		if limited, ok := any(in).(interface{ limit() int }); ok && o.isPaged {
			if len(all) > 0 && len(all) >= limited.limit() {
				r.Next = r.Rows[len(all)-1].cursor
			}
			r.members["next"] = r.Next
		}
		return r
	})
	return o
}

// With returns the list with an additional JSON member from get. It does not change o.
func With[T any](o Operation, name string, get func(context.Context) (T, error)) Operation {
	o.Also = &Member{name, reflect.TypeFor[T](), func(ctx context.Context) (any, error) { return get(ctx) }}
	return o
}

// NewRead declares a read. In's first fields, which name the thing, have the tag subject instead of flag: "tenant",
// or "tenant,flag" for a required flag instead of an argument. Out is as for NewList; the tag text marks a field
// shown as text, e.g. a body. A partial read has the input after, and a field tagged cursor with the next part's
// value, empty in the last part.
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

// NewChange declares a change, which does a single step. It either succeeds with a result or returns an error and no
// result. In is as for NewRead, but subjects are not required; Out is described at Changed. A change named add or
// create is answered with 201.
func NewChange[In any, Out Changed](about About, fn func(context.Context, In) (Out, error)) Operation {
	return newChange(Change, about, func(ctx context.Context, in In, _ call) (Out, error) { return fn(ctx, in) })
}

// NewJob declares a job. It is like NewChange, but the command shows both an error and a result's notice; a result
// whose notice is "" is dropped if there is an error. When its context ends, fn returns an error soon, with a result for
// the work so far: ErrStopped, or the context's error. A method IsPartial() bool on Out reports whether work remains.
func NewJob[In any, Out Changed](about About, fn func(context.Context, In, Progress) (Out, error)) Operation {
	return newChange(Job, about, func(ctx context.Context, in In, c call) (Out, error) { return fn(ctx, in, c.progress) })
}

// newChange declares the kinds with a notice: Change, Job and Upload. A result with a method Note()
// string carries a warning beside its notice.
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

// runner makes Operation.run from a typed function. isPartial lets a result with a notice pass together with an
// error: a failed job reports its progress.
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

// declare checks the declaration and derives inputs and columns from the tags in In and Out. It panics on a wrong
// declaration: every server start and every test declares all operations, so the mistake is found at once. row
// converts a result for renderers.
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
	hasAfter, hasCursor := o.Input("after") != nil, fields.cursor != nil // a read may return a list's rows
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
