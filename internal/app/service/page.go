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
	"holdfast/internal/operate"
)

// Console describes a service's section in the console, besides the pages for its operations.
type Console struct {
	Title string
	Icon  string // as in package console; "": a box
	Pages []Page // written by hand; package operate/console adds those for operations

	// Menu is the section's part of the navigation. Empty: each listed page has an item of its own.
	Menu []MenuItem

	// Frame, if set, returns the header for pages about one thing, e.g. a bucket, or nil for other pages.
	Frame func(path string, values url.Values) *Frame

	// Search, if set, finds things by name prefix: at most MaxHits per index, with a single lookup each.
	Search func(ctx context.Context, prefix string) ([]Hit, error)
	Finds  []Query // hints for the page with the search results

	Counts []Counted // shown on the service's card

	Choose Chooser // completes names in forms, if a list of the service does not; may be nil

	// Backlogs, if set, returns pending work for the overview. It must be fast. Links are relative to the service.
	Backlogs func(context.Context) ([]Fact, error)
}

// Entries of the navigation that belong to no service. Services place pages below them with MenuItem.Under.
const (
	MenuOverview   = "Overview"
	MenuActivity   = "Activity"   // requests, changes, jobs
	MenuProtection = "Protection" // backups, replica, alerts
	MenuSettings   = "Settings"
)

// MenuItem is a line in the navigation. Items of several sections with the same Under and Title are one line, whose
// tabs have the sections' titles.
type MenuItem struct {
	Title string   // "": the first page's
	Under string   // title of the entry; "": the section's own
	Pages []string // paths; the line leads to the first, which shows links to the others as tabs
	Later bool     // below the items of the entry's other sections
}

// Frame is the header of pages about the same thing: the thing's name, and a tab for each page.
type Frame struct {
	Title string // the thing's name
	Icon  string // as Console.Icon
	Tabs  []Link // the current one has the page's path

	Parents []Link // breadcrumbs, instead of the view's; nil: the view's
}

// Counted is a count of table rows, or a column sum, read in the background.
type Counted struct {
	Of    string // singular noun
	Table string // name in Service.Tables
	Sum   string // column; "": count rows
	Where string // SQL condition; "": all rows
}

// MaxHits is how many things Search may return for each index.
const MaxHits = 10

// Query describes a search that Console.Search understands.
type Query struct {
	What    string // e.g. "Objects as BUCKET/NAME"
	Example string // a text to type
}

// HasWords reports whether each query word is a prefix of a word in name.
func HasWords(name, query string) bool {
	words := strings.Fields(strings.ToLower(query))
	name = strings.ToLower(name)
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !beginsWord(name, w) })
}

// beginsWord reports whether a word in name begins with text.
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

// MaxChoices is how many things a field shows to choose from.
const MaxChoices = 50

// Chooser returns things of a kind, e.g. "account", by name prefix, using an index. at holds the other form values,
// e.g. a bucket's account. nil: unknown kind.
type Chooser func(ctx context.Context, kind, prefix string, at url.Values) (*Choices, error)

// Choices are things that a field offers.
type Choices struct {
	All   []Option // at most MaxChoices+1, which means too many to choose from
	First *Link    // where the first thing is created; shown while the list is empty
}

// Hit is a found thing.
type Hit struct {
	Kind string // e.g. "Bucket"
	Text string // its name
	To   string // link within the service
}

// Page is a console page, served at /console/SERVICE/PATH to signed-in operators. Pages consist of values, so user
// text cannot become HTML.
type Page struct {
	Path   string // below /console/SERVICE/, e.g. "accounts"
	Title  string
	Listed bool // in the navigation, so it must work without values

	// Show changes nothing.
	Show func(context.Context, *PageRequest) (*View, error)

	// Send, if set, returns a file instead. The file's operation records downloads of secrets.
	Send   func(context.Context, *PageRequest) (*File, error)
	Memory int64 // bytes that Show or Send uses at most, charged meanwhile

	Access operate.Access // with GET; an action of a viewer also needs Action.Reads

	// replaces the list operation's page at the same path
	Instead bool

	Actions []Action // for forms that post to this page
}

// Action is run when a form is sent.
type Action struct {
	Name  string // as in Form.Action; logged
	Reads bool   // changes nothing: open to read-only operators and not logged

	// Uploads enables PageRequest.NextFile. Memory is the needed memory in bytes.
	Uploads bool
	Memory  int64

	// Logged names the values that identify the changed thing in the log. Recorded actions are logged by their
	// operation's recorder instead.
	Logged   []string
	Recorded bool

	// Run does the action. An error is shown above the form, with the typed values.
	Run func(context.Context, *PageRequest) (Outcome, error)
}

// Outcome says how the console continues after an action.
type Outcome struct {
	Notice string // a sentence without full stop
	Next   string // link within the service; "": the form's page, with the typed values if the action only reads
	View   *View  // shown once instead of a page, for unsaved results; also with an error

	// Replaces the typed values in the form, for actions that only read.
	Typed url.Values
}

// PageRequest is a request for a page or an action.
type PageRequest struct {
	Values url.Values // query, or form values
	Typed  url.Values // for a form that is shown again

	// NextFile returns the form's next file, or io.EOF, and invalidates the previous file's body. nil: not an upload.
	NextFile func() (*Upload, error)
}

// Upload is an uploaded file.
type Upload struct {
	Name string // without folders
	Type string // as the browser reports; "": unknown
	Body io.Reader
}

type operatorKey struct{}

type operator struct{ session, address string }

// WithOperator adds the operator's console session ("": admin token) and network address to a request's context.
func WithOperator(ctx context.Context, session, address string) context.Context {
	return context.WithValue(ctx, operatorKey{}, operator{session, address})
}

// Operator returns the console session for audits; "" outside the console.
func Operator(ctx context.Context) string {
	o, _ := ctx.Value(operatorKey{}).(operator)
	return o.session
}

// OperatorAddress returns the operator's network address for logs.
func OperatorAddress(ctx context.Context) string {
	o, _ := ctx.Value(operatorKey{}).(operator)
	return o.address
}

// Value returns the first value with this name, or "".
func (r *PageRequest) Value(name string) string { return r.Values.Get(name) }

// File is a file that a page sends.
type File struct {
	Name  string                // for the browser, without a folder
	Size  int64                 // 0: unknown
	Write func(io.Writer) error // after an error the browser drops the file
	Image string                // one of Images, to show the file as an image
}

// Images are image types that browsers show and that cannot contain scripts.
var Images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// PageLink returns a link within the service, with query values.
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

// GuidePrefix begins the paths of guides on the admin listener. It is itself the list of guides.
const GuidePrefix = "/guide/"

// GuideLink returns the path of a guide on the admin listener for its file in the repository, e.g. "docs/backup.md".
func GuideLink(file string) string {
	return GuidePrefix + strings.TrimSuffix(strings.TrimPrefix(file, "docs/"), ".md")
}

// View is a page's content.
type View struct {
	Title   string // "": the page's title
	Parents []Link // breadcrumbs, outermost first
	Blocks  []Block
}

// Link is a link within the service; To is from PageLink.
type Link struct{ Text, To string }

// Block is a part of a page: *Table, *Facts, *Form, *Search, *Text, *Notice, *Links, *Stats, *Cards, *Charts, *Chart,
// *Image, *QR, or *Live.
type Block any

// Table supports search and paging if its page does. A complete table is sortable by columns.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]Cell
	Empty   string   // sentence for a table without rows
	First   *Link    // first steps; shown without rows
	Search  []Field  // submitted to the page's address
	Sort    string   // "sort" value of the current order
	Keep    []string // names of parameters that links and the search keep
	Next    string   // next page's "after" value; "": last page
	More    string   // link text; "": Next page
	Bulk    *Bulk    // nil: rows cannot be selected
	Partial bool     // rows may be missing from all pages
	Views   Views    // other presentations of the same page
	Grid    bool     // rows are tiles with large pictures
}

// Bulk adds row selection. Its forms submit the selected keys as "key", plus Keep; the browser treats fields as
// optional.
type Bulk struct {
	Keys  []string          // value for each row
	Names []string          // label for each row
	Keep  map[string]string // hidden values of the forms
	Forms []Form            // buttons for the selected rows
}

// Search is a search form above content that refreshes itself.
type Search struct {
	Fields []Field
	Keep   []string // names of parameters that the form keeps
}

type Column struct {
	Title  string
	Sort   string // "sort" value for this order; disables sorting by other columns
	Number bool
	Names  bool // names the rows; default: the first column
}

// Cell is a value in a table or in Facts.
type Cell struct {
	Text  string
	To    string  // link within the service, or ""
	State State   // color; "": none
	Most  float64 // if set, Share/Most is shown as a bar
	Share float64 // see Most
	Whole bool    // Most is a sum, not a limit: a full bar is no warning
	Forms []Form  // buttons
	Icon  string  // before Text, as Console.Icon
	Thumb string  // thumbnail link; covers Icon if the browser can show it

	Time time.Time // shown in the browser's time zone, by a script
	ID   bool      // tables shorten it and add a copy button
}

func TextCell(s string) Cell { return Cell{Text: s} }

// IDCell shows an ID. Long ones are shortened and can be copied.
func IDCell(id string) Cell { return Cell{Text: id, ID: IsLongID(id)} }

// IsLongID accepts UUIDs and long hexadecimal numbers.
func IsLongID(s string) bool {
	const least = 20
	return len(s) >= least && strings.Trim(s, "0123456789abcdefABCDEF-") == "" && strings.ContainsAny(s, "0123456789")
}

// Stats are key figures at the top of a page.
type Stats struct{ All []Stat }

// Stat is a figure with an optional sparkline or bar.
type Stat struct {
	Name  string
	Value string
	Unit  string // after Value, e.g. "/s"
	Note  string // second line
	Where string // folder or address, may be truncated; the title has the full text
	To    string // link within the service, or ""
	State State  // shown unless OK

	Line  []float64 // latest values, without times
	Most  float64   // if set, Share/Most is shown as a bar
	Share float64
}

// Cards lead to other pages.
type Cards struct {
	Title string
	All   []Card
}

type Card struct {
	Title   string
	Icon    string
	To      string   // page link within the service, or ""
	State   State    // OK shows no problem
	Problem *Link    // why State is not OK, and where to read more
	Lines   []string // most important first
}

// Facts are names with values, e.g. the facts of a read.
type Facts struct {
	Title  string
	Rows   []Fact
	Inline bool // beside each other: a few short values
}

type Fact struct {
	Name string // label
	Cell
}

// Form is a form, or a lone button without fields. Read-only operators only see trial buttons and forms whose actions
// read.
type Form struct {
	Title   string
	Text    string // paragraph above the fields
	Action  string // name of the Action
	Page    string // with the action; "": this page
	Fields  []Field
	Keep    map[string]string // hidden values
	At      map[string]string // page parameters that scope the field choices
	Submit  string            // text of the button
	Label   string            // for screen readers; "": Submit
	Trial   *Trial            // nil: none
	Switch  *Trial            // changes the form's presentation, keeping typed values
	Check   string            // read action that validates during typing; its notice or error appears below the text area
	Danger  bool              // colors the button
	Ask     string            // confirms a button without fields that cannot be undone
	Confirm string            // text to type as confirmation, e.g. the deleted thing's name
}

// Has reports whether one of the form's buttons runs the action.
func (f *Form) Has(action string) bool {
	return f.Action == action || f.Trial != nil && f.Trial.Action == action || f.Switch != nil && f.Switch.Action == action
}

// FormAnchor returns a URL fragment that opens a form; page is "" on the form's own page.
func FormAnchor(page, action string) string {
	return "#form-" + strings.ReplaceAll(page+"-"+action, "/", "-")
}

// Trial is a second button; its action changes nothing.
type Trial struct{ Action, Submit string }

// Field is an input in a form.
type Field struct {
	Name     string   // name of the value
	Label    string   // text beside the input
	Value    string   // initial value
	Help     string   // sentence below the input
	Lines    int      // text area lines; 0: an input
	Input    string   // input type ("date", "datetime-local", "email") or mode ("decimal", "numeric"); "": text
	Options  []Option // a select; empty: a text
	Checkbox bool     // checked if Value is "yes"
	Secret   bool     // hidden while typing
	Optional bool     // may be empty
	Detail   bool     // shown after a click on "More"; the form's last fields
	File     bool     // one or more files; the last field
	One      bool     // with File: a single file

	// Kind makes the field choose from Console.Choose: a select, or an input with suggestions. Also adds values;
	// Typed forces an input.
	Kind  string
	Also  []string
	Typed bool
	Many  bool  // several names: check boxes, or words in an input
	First *Link // where the first thing to choose is created
}

// FieldErrors are shown beside their fields.
type FieldErrors struct {
	By   map[string]string // message by field name
	Text string            // message above the form
}

func (e *FieldErrors) Error() string { return e.Text }

func (*FieldErrors) ErrorCode() errcode.Code { return errcode.Invalid }

// Option is a value to choose, with its text.
type Option struct{ Value, Text string }

// NamedOption is for things with a technical name and an optional display name.
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
	Copy  bool // with a button that copies the text

	Folded bool // shown after a click on the title; folded texts in a row open one at a time
}

// Notice is a sentence in a colored box.
type Notice struct {
	State State
	Text  string
}

// Links lists links to other pages of the service.
type Links struct {
	All     []Link
	Primary bool // the first is the main action
}

// Views switches between presentations, e.g. periods.
type Views struct {
	Label   string // for screen readers
	All     []Link
	Current string // Text of the current link
}

// Image shows a picture.
type Image struct {
	To  string // link to a page with Send
	Alt string // for screen readers
}

// QR shows a QR code, or nothing if the text is too long.
type QR struct {
	Text  string
	Label string // text below the code
}

// Live holds blocks without forms that the browser refreshes; without JavaScript, a reload link. A page has at most
// one.
type Live struct {
	Every  time.Duration // time between refreshes
	Blocks []Block
}

// Charts are side-by-side charts with the same period.
type Charts struct {
	All   []*Chart
	Spans Views // periods to choose from
}

// Chart has a common time axis for its series.
type Chart struct {
	Title  string
	Unit   string      // "s", "/s", "B" for bytes, or ""
	Times  []time.Time // common to all series
	Series []Series    // each has a value for each time
}

// Series is a chart line. NaN marks a missing value.
type Series struct {
	Name   string
	Values []float64 // one for each of Chart.Times
}

// MillisCell shows Unix milliseconds; "-" for 0.
func MillisCell(ms int64) Cell {
	if ms == 0 {
		return TimeCell(time.Time{})
	}
	return TimeCell(time.UnixMilli(ms))
}

// TimeCell shows a UTC time; "-" for the zero time.
func TimeCell(t time.Time) Cell {
	if t.IsZero() {
		return Cell{Text: "-"}
	}
	return Cell{Text: t.UTC().Format("2006-01-02 15:04:05 UTC"), Time: t}
}
