// Package operate declares everything that an operator can do, once for the command line, the console and the API.
package operate

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
)

type Kind int

const (
	List Kind = iota
	Read
	Change
	Job
	Download
	Upload
)

// DryRun names the input that makes a change only report its effect.
const DryRun = "dry-run"

func (k Kind) Changes() bool { return k == Change || k == Job || k == Upload }

// Access says whether operators with the viewer token may open a list, a read, a download, or a page. Changes are never
// theirs. The zero value refuses them, and a test fails until it is declared.
type Access int

const (
	Undeclared Access = iota
	ForViewers        // they may see it: it shows no secret, and as a file it has no data of a user
	ForAdmins         // only the admin token opens it
)

type About struct {
	// Noun of a list, e.g. "keys", or a noun and verb, e.g. "keys/retire".
	Path string
	Doc  string // command help: a sentence without a full stop
	More string

	Example string // without the command words, one per line

	Group string
	Long  string

	Title string // page title, or form title of a change, whose form is then below the list
	Text  string
	Empty string

	Opens string

	Rows     string // JSON member; "": the noun
	Limit    int
	PageRows int // rows that the command reads at once; 0: 500

	Live time.Duration // refresh interval for a list without buttons; 0: none

	Resumes bool
	Offers  []string // other nouns' changes offered for a row, e.g. "access/allow"
	Finds   string

	Button   string
	Ask      string
	Confirm  string // the operator types these words first
	Retypes  bool   // the operator types the subject first
	Stays    bool   // the thing still exists, so its page is shown again
	Danger   bool   // the command asks on a terminal
	NeedsYes bool   // even without a terminal, so scripts need --yes
	NewRow   bool   // the subject need not be in the list
	Counts   string

	Media   string
	Memory  int64
	Secret  bool // a download with secrets, so it is recorded
	Largest int64

	MayBeStdin bool

	Access Access // of a List, Read or Download

	// Background runs the job in the background of a server; see InBackground.
	Background bool
	Begun      string
	Stop       string

	Refuses func() error

	// Nil means that nothing is missing.
	Setup func() *Setup

	ServerOnly bool

	Former []Former // earlier releases' command spellings, hidden
}

type Setup struct {
	Text  string
	Lines string
	Guide string
}

func (o *Operation) Missing() *Setup {
	if o.Setup == nil {
		return nil
	}
	return o.Setup()
}

// Former is an earlier release's command spelling.
type Former struct {
	Words string // after holdfast, e.g. "sync node drain"
	Noun  bool   // stands for the noun, before all its verbs
	JSON  bool
	Flag  string // removed flag that selected this command, e.g. "undo"
	Keeps bool
	Value bool
}

// Operation is a declared operation, made by NewList, NewRead, NewChange or NewJob.
type Operation struct {
	About
	Kind    Kind
	Inputs  []Input
	Columns []Column
	Names   []string // other operations' inputs that take a row's name, besides the list's subjects
	Also    *Member
	Found   *Found

	out      reflect.Type
	isPaged  bool
	runs     *Runs
	recorder Recorder
	run      func(ctx context.Context, values map[string]string, c call) (*Result, error)
	check    func(values map[string]string) error
}

// Member is a list's additional JSON member.
type Member struct {
	Name string
	Type reflect.Type
	Get  func(context.Context) (any, error)
}

func (o *Operation) Noun() string {
	noun, _, _ := strings.Cut(o.Path, "/")
	return noun
}

func (o *Operation) Verb() string {
	if _, verb, ok := strings.Cut(o.Path, "/"); ok {
		return verb
	}
	return "list"
}

func (o *Operation) Label() string {
	if o.Button != "" {
		return o.Button
	}
	return Sentence(o.Verb())
}

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

// Sentence returns a name's words, e.g. "Retry all" for "retry-all".
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

func (o *Operation) Others() []Input { return o.Inputs[len(o.Subjects()):] }

func (o *Operation) Subject() *Input {
	if all := o.Subjects(); len(all) > 0 {
		return &all[len(all)-1]
	}
	return nil
}

func (o *Operation) IsPaged() bool { return o.isPaged }

func (o *Operation) Input(name string) *Input {
	for i := range o.Inputs {
		if o.Inputs[i].Name == name {
			return &o.Inputs[i]
		}
	}
	return nil
}

func (o *Operation) CheckValues(values map[string]string) error { return o.check(values) }

func (o *Operation) Output() reflect.Type { return o.out }

func (o *Operation) RowsMember() string {
	if o.Rows != "" {
		return o.Rows
	}
	return o.Noun()
}

func (o *Operation) Check(values map[string]string) error { return o.check(values) }

// Run takes input values by name. It returns an *InputError for an invalid value. A job may return a partial result
// with an error.
func (o *Operation) Run(ctx context.Context, values map[string]string, progress Progress) (*Result, error) {
	return o.call(ctx, values, call{progress: progress})
}

type call struct {
	progress Progress
	body     *Body
}

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

// None is the input for operations without inputs.
type None struct{}

// Changed is a change's result. Without a notice, its fields tagged title are shown. The tag secret marks a value that
// is shown only once, e.g. a token, and contains a note that says so. The command prints the value (alone if no other
// field has title without aside). The console shows it instead of the page, with a QR code if tagged qr.
type Changed interface{ Notice() string }

// NewList declares a list. In's fields are the inputs, with the tags doc (help) and flag (name). The tag local
// restricts an input to the command; secret masks it; private keeps it out of the change log. Words, e.g.
// settings=rw, are a []string. A paged list embeds Page in In; a list of only the latest rows embeds Latest.
//
// Out's fields have the tag json, and title if people read them. The tag subject marks the fields that name the row,
// and lists the inputs of other operations that take them. The tag cursor marks the field for Page.After. A field
// tagged with is shown only if that input is true; if also tagged local, like the input, it is not in the API
// description. A method Offers(verb string) bool on Out selects the changes that the console offers for a row. If In
// has subjects, the list belongs to them, e.g. an account's keys: rows that name all of these subjects link to it.
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

// With adds a JSON member to a list.
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

func NewChange[In any, Out Changed](about About, fn func(context.Context, In) (Out, error)) Operation {
	return newChange(Change, about, func(ctx context.Context, in In, _ call) (Out, error) { return fn(ctx, in) })
}

// NewJob declares a job. It is like NewChange, but the command shows both an error and a result's notice. A method
// IsPartial() bool on Out reports whether work remains.
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
