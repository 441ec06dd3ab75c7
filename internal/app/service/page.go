package service

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"holdfast/internal/errcode"
)

// Console is what a service shows in the console of the admin listener.
type Console struct {
	Title string // in the navigation
	Icon  string // in the navigation, by its name in package console; "": a box
	Pages []Page

	// Everyday are the paths of the pages that an operator needs most. The navigation shows them in this order, and the others after a
	// click. Without it, it shows all pages.
	Everyday []string

	// Search, if set, finds things whose names begin with a prefix: at most MaxHits for each index, by one look-up each.
	// Finds lists the queries that it understands.
	Search func(ctx context.Context, prefix string) ([]Hit, error)
	Finds  []Query

	// Counts say how much the service stores, on its card on the overview.
	Counts []Counted

	// Choose, if set, returns what the fields of a kind offer.
	Choose Chooser

	// Backlogs, if set, returns what waits to be done, for the overview. Links are to
	// pages of the service. It is fast.
	Backlogs func(context.Context) ([]Fact, error)
}

// Counted is a number that says how much a service stores: of rows of a table, or a sum of one of its columns. It is read in the background.
type Counted struct {
	Of    string // what is counted, in the singular
	Table string // of Service.Tables
	Sum   string // the column; "": the rows
	Where string // see rows.Total
}

// MaxHits limits the hits of an index in a search.
const MaxHits = 10

// Query is a kind of query that a search understands.
type Query struct {
	What    string // e.g. "Objects as BUCKET/NAME"
	Example string
}

// HasWords reports whether each word of a query begins a word of a name.
func HasWords(name, query string) bool {
	words := strings.Fields(strings.ToLower(query))
	name = strings.ToLower(name)
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !beginsWord(name, w) })
}

func beginsWord(name, text string) bool {
	before := ' '
	for at, r := range name {
		if !unicode.IsLetter(before) && !unicode.IsDigit(before) && strings.HasPrefix(name[at:], text) {
			return true
		}
		before = r
	}
	return false
}

// MaxChoices limits the things that a field offers at once.
const MaxChoices = 50

// Chooser returns the things of a kind, e.g. "account", whose names begin with a prefix, by an index. at has the other values of
// the form, e.g. the account of a bucket. nil: this cannot be said.
type Chooser func(ctx context.Context, kind, prefix string, at url.Values) (*Choices, error)

// Choices are things that a field offers.
type Choices struct {
	All   []Option // at most MaxChoices+1, which are too many to choose from
	First *Link    // to the page on which the first thing is made; nil: there is no such page
}

// Hit is a thing that a search has found.
type Hit struct {
	Kind string // e.g. "Account"
	Text string // its name
	To   string // link to a page of the service
}

// Page is a page of the console. The frame, which knows no service, serves it at
// /console/SERVICE/PATH to an operator who has signed in, and renders its View: pages
// consist of values, so text of users cannot become HTML.
type Page struct {
	Path   string // below /console/SERVICE/, such as "accounts"
	Title  string
	Listed bool // in the navigation, so it must work without values

	// Show returns the contents. It changes nothing.
	Show func(context.Context, *PageRequest) (*View, error)

	// Send, if set, replaces Show: it returns a file. Private says that it has secrets: an operator who may only read does not get
	// it. The operation of such a file records its downloads.
	Send    func(context.Context, *PageRequest) (*File, error)
	Private bool
	Memory  int64 // bytes that the server needs for the file

	// Instead says that the page is shown instead of the one of the operation that lists with its path.
	Instead bool

	// Actions are what the forms of the page do.
	Actions []Action
}

// Action is what a form of a page does when it is submitted.
type Action struct {
	Name  string // of Form.Action, and in the log
	Reads bool   // it changes nothing, so an operator who may only read may do it; it is not logged

	// Uploads says that the action reads files (PageRequest.NextFile). Memory is how many bytes the server needs for them.
	Uploads bool
	Memory  int64

	// Logged are the names of values that say what is changed, for the log. Recorded says that the action is an operation,
	// whose recorder logs it.
	Logged   []string
	Recorded bool

	Run func(context.Context, *PageRequest) (Outcome, error)
}

// Outcome is the result of an action. The operator returns to the page, or to Next.
type Outcome struct {
	Notice string // what was done, a sentence without a full stop
	Next   string // a link to a page of the service; "": the page of the form, with what was typed if the action reads
	View   *View  // shown once instead of a page, for what is not stored; also with an error

	// Typed, from an action that reads, is what the form has when it is shown again, instead of what was typed.
	Typed url.Values
}

// PageRequest is a request for a page or an action.
type PageRequest struct {
	Values url.Values // of the address or the form
	Typed  url.Values // of a page that is shown again: what was typed in one of its forms

	// NextFile returns the next file of a form, and io.EOF after the last one. The body of
	// a file ends with the call for the next one. nil: the action does not upload.
	NextFile func() (*Upload, error)
}

// Upload is a file that an operator uploads.
type Upload struct {
	Name string // without folders
	Type string // content type that the browser reports; "": unknown
	Body io.Reader
}

type operatorKey struct{}

type operator struct{ session, address string }

// WithOperator returns the context of a request of an operator: the session of the console, or "" with the admin token, and the network
// address for logs.
func WithOperator(ctx context.Context, session, address string) context.Context {
	return context.WithValue(ctx, operatorKey{}, operator{session, address})
}

// Operator returns the session of the console that runs an action, for the audit of a service; "" outside the console.
func Operator(ctx context.Context) string {
	o, _ := ctx.Value(operatorKey{}).(operator)
	return o.session
}

// OperatorAddress returns the network address of an operator's request, for logs.
func OperatorAddress(ctx context.Context) string {
	o, _ := ctx.Value(operatorKey{}).(operator)
	return o.address
}

// Value returns a value of the address or the form, or "".
func (r *PageRequest) Value(name string) string { return r.Values.Get(name) }

// File is a file that the browser stores.
type File struct {
	Name  string
	Size  int64                 // bytes; 0: unknown
	Write func(io.Writer) error // after an error the browser does not keep the file
	Image string                // content type from Images if the browser shows the file as an image
}

// Images are the content types of images that browsers show and that have no scripts.
var Images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// PageLink returns a link to a page of the same service, with names and values.
func PageLink(path string, values ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(values); i += 2 {
		if values[i+1] != "" {
			query.Set(values[i], values[i+1])
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// View is the contents of a page.
type View struct {
	Title   string // "": that of the page
	Parents []Link // the pages above it
	Blocks  []Block
}

// Link is a link to a page of the same service.
type Link struct{ Text, To string }

// Block is a part of a page: *Table, *Facts, *Form, *Search, *Text, *Notice, *Links, *Stats, *Cards, *Charts, *Chart, *Image, *QR, or
// *Live.
type Block any

// Table is a table, with a search and pages if the page supports them. One that shows all its rows is sorted by its columns.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]Cell
	Empty   string   // shown without rows
	First   *Link    // what to do first, shown without rows
	Search  []Field  // submitted to the address of the page
	Sort    string   // the key of the current order
	Keep    []string // names of values that links of the table keep
	Next    string   // value of "after" for the next page; "": this is the last one
	More    string   // the text of the link to the next page; "": Next page
	Bulk    *Bulk    // rows can be chosen
	Partial bool     // there may be rows that neither this page nor the next one shows
	Views   Views    // other views of the list, beside its search
	Grid    bool     // rows are tiles with large pictures
}

// Bulk lets the operator choose rows of a table and do something with all of them. Its forms submit the keys of the chosen rows
// as the values "key", with what is in Keep; their fields are optional in the browser.
type Bulk struct {
	Keys  []string // one for each row
	Names []string // of the rows, for screen readers
	Keep  map[string]string
	Forms []Form // each is shown after a click
}

// Search is the search of a table apart from it.
type Search struct {
	Fields []Field  // submitted to the address of the page
	Keep   []string // names of values that it keeps
}

// Column is the head of a column.
type Column struct {
	Title  string
	Sort   string // value of "sort" for this order of the list, which then has no other orders
	Number bool   // align to the right
	Names  bool   // it names the rows, instead of the first column
}

// Cell is a value in a table or a list of facts.
type Cell struct {
	Text  string
	To    string  // link to a page of the service
	State State   // shown before Text
	Most  float64 // if set, shows Share of Most as a bar
	Share float64
	Whole bool   // Most is a sum, not a limit: a full bar is no warning
	Forms []Form // buttons
	Icon  string // before Text, as Console.Icon
	Thumb string // link to a page that sends a small picture, which covers Icon if the browser can show it

	Time time.Time // of TimeCell: the script shows it in the time zone of the browser
	ID   bool      // Text is a long ID, which tables show short with a button that copies it
}

// TextCell returns a cell with a text.
func TextCell(s string) Cell { return Cell{Text: s} }

// IDCell returns a cell with an ID. Tables show a long ID short, with a button that copies it.
func IDCell(id string) Cell { return Cell{Text: id, ID: IsLongID(id)} }

// IsLongID reports whether a text is a long hexadecimal number or a UUID, which nobody reads.
func IsLongID(s string) bool {
	const least = 20
	return len(s) >= least && strings.Trim(s, "0123456789abcdefABCDEF-") == "" && strings.ContainsAny(s, "0123456789")
}

// Stats are the figures at the top of a page.
type Stats struct{ All []Stat }

// Stat is a figure with its unit, and a line or a bar that shows more.
type Stat struct {
	Name  string
	Value string
	Unit  string // after Value, e.g. "/s"
	Note  string // below
	Where string // a folder or an address: a line that may be cut, with the whole in its title
	To    string // link to a page of the service
	State State  // shown if it is not OK

	Line  []float64 // the latest values, without their times
	Most  float64   // if set, shows Share of Most as a bar
	Share float64
}

// Cards lead to other pages.
type Cards struct {
	Title string
	All   []Card
}

// Card is a thing with its state and a few figures.
type Card struct {
	Title   string
	Icon    string // as Console.Icon
	To      string // link to a page of the service; "": none
	State   State
	Problem *Link    // why State is not OK, and where to read more
	Lines   []string // the first is the most important
}

// Facts is a list of names and values.
type Facts struct {
	Title  string
	Rows   []Fact
	Inline bool // beside each other: a few short values
}

// Fact is a name with a value.
type Fact struct {
	Name string
	Cell
}

// Form is a form, or only a button if it has no fields. An operator who may only read
// sees only the forms of actions that read, and buttons that try.
type Form struct {
	Title   string
	Text    string // what it does, above the fields
	Action  string // name of the action
	Page    string // path of the page with the action; "": the page with the form
	Fields  []Field
	Keep    map[string]string // values that the form submits without showing them
	At      map[string]string // names of the page, which say where the things are that fields offer
	Submit  string            // text of the button
	Label   string            // of the button for screen readers, if Submit is ambiguous in a table
	Trial   *Trial
	Switch  *Trial // shows the form in another way, with what was typed
	Check   string // name of an action that reads: it checks what is being typed, and its notice or error is shown below the text area
	Danger  bool
	Ask     string // of a button without fields: what cannot be undone; the button is shown after a click
	Confirm string // what the operator has to type, such as the name of what will be deleted
}

// Has reports whether a button of the form has this action.
func (f *Form) Has(action string) bool {
	return f.Action == action || f.Trial != nil && f.Trial.Action == action || f.Switch != nil && f.Switch.Action == action
}

// FormAnchor returns the end of a link to a form by its action, which is of its own page if page is "". It opens the form.
func FormAnchor(page, action string) string {
	return "#form-" + strings.ReplaceAll(page+"-"+action, "/", "-")
}

// Trial is a second button of a form, with another action, which tries what is typed and changes nothing.
type Trial struct{ Action, Submit string }

// Field is an input of a form.
type Field struct {
	Name     string
	Label    string
	Value    string
	Help     string
	Lines    int      // a text area with so many lines; 0: an input
	Input    string   // of an input: the type "date", "datetime-local" or "email", or the mode "decimal" or "numeric"; "": a text
	Options  []Option // a select
	Checkbox bool     // Value "yes" means that it is checked
	Secret   bool
	Optional bool
	File     bool // one or more files; the last field of a form
	One      bool // of File: one file

	// Kind says that the field takes the name of a thing of this kind (Console.Choose): a select with few things, otherwise an
	// input with suggestions. Also are values besides, and Typed says that it always is an input.
	Kind  string
	Also  []string
	Typed bool
	Many  bool  // the field takes several names: check boxes, or words in an input
	First *Link // what to make first, below the input
}

// FieldErrors is an error about fields of a form, which shows each message beside its field.
type FieldErrors struct {
	By   map[string]string // messages, by the name of the field
	Text string            // all of them, with the labels
}

func (e *FieldErrors) Error() string { return e.Text }

// ErrorCode implements errcode.Coder.
func (*FieldErrors) ErrorCode() errcode.Code { return errcode.Invalid }

// Option is a choice of a Field.
type Option struct{ Value, Text string }

// NamedOption returns the choice of a thing with a name that programs use, and one that people use, which may be "".
func NamedOption(name, called string) Option {
	const shown = 8
	switch {
	case called == "" || called == name:
		return Option{name, name}
	case IsLongID(name):
		return Option{name, called + " (" + name[:shown] + "…)"}
	}
	return Option{name, called + " (" + name + ")"}
}

// Text is text with its line breaks, such as JSON.
type Text struct {
	Title string
	Body  string
	Copy  bool // offer a button that copies it
}

// Notice is a message.
type Notice struct {
	State State
	Text  string
}

// Links is a list of links to other pages of the service.
type Links struct {
	All     []Link
	Primary bool // the first one leads to what is done most
}

// Views are links to other views of what a page shows.
type Views struct {
	Label   string // for screen readers
	All     []Link
	Current string // the text of the link to this page
}

// Image is an image that a page with Send returns.
type Image struct {
	To  string // link to the page
	Alt string // for screen readers
}

// QR shows a text as a QR code, for a camera. It shows nothing if the text is too long for one.
type QR struct {
	Text  string
	Label string // for screen readers
}

// Live has blocks that the browser replaces with their latest state. They have no forms. Without
// JavaScript there is a link that loads the page again. A page has at most one.
type Live struct {
	Every  time.Duration
	Blocks []Block
}

// Charts are charts of the same time, beside each other.
type Charts struct {
	All   []*Chart
	Spans Views // the same charts of other times
}

// Chart is a chart of values over time.
type Chart struct {
	Title  string
	Unit   string // "s", "/s", "B" for bytes, or ""
	Times  []time.Time
	Series []Series
}

// Series is a line of a chart. NaN is no value.
type Series struct {
	Name   string
	Values []float64 // one for each time
}

// MillisCell returns a cell with the time of milliseconds since 1970; "-" is 0.
func MillisCell(ms int64) Cell {
	if ms == 0 {
		return TimeCell(time.Time{})
	}
	return TimeCell(time.UnixMilli(ms))
}

// TimeCell returns a cell with a time in UTC; "-" is the zero time.
func TimeCell(t time.Time) Cell {
	if t.IsZero() {
		return Cell{Text: "-"}
	}
	return Cell{Text: t.UTC().Format("2006-01-02 15:04:05 UTC"), Time: t}
}
