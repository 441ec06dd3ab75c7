package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
)

// renderer writes a page's blocks. Everything depends on the session's role: links, buttons and pictures that it may
// not use are left out.
type renderer struct {
	*page
	x       *exchange
	section *Section
	at      *service.Page     // the page that is shown
	values  url.Values        // its query values
	failed  *failure          // as in shown
	ids     int               // the last number from newID
	blocks  int               // begun blocks; a form that is alone on its page is not in a drawer
	hasList bool              // buttons beside the title open the forms
	tables  int               // begun tables; they number the parameters for their order
	frame   *service.Frame    // the page's header, or nil; no other links lead to its tabs
	forms   []string          // element IDs in use, because rows may repeat a form
	focus   bool              // focus the next field, because its form failed, or the next invalid field
	wrong   map[string]string // messages by field, for the form that is being written
	part    part              // the live block, if any

	asked  asked                       // values for choices in the form that is being written
	found  map[string]*service.Choices // results from choices, by kind and values
	silent bool                        // do not ask for more choices: the service failed
}

// isTab reports whether a link leads to one of the page's tabs.
func (r *renderer) isTab(to string) bool {
	return r.frame != nil && slices.ContainsFunc(r.frame.Tabs, func(l service.Link) bool { return pathOf(l.To) == pathOf(to) })
}

// newID numbers elements in the order of the page, so they keep their IDs when the page is loaded again.
func (r *renderer) newID() string {
	r.ids++
	return "i" + strconv.Itoa(r.ids)
}

// block ignores unknown types; service.Block lists them.
func (r *renderer) block(b service.Block) {
	r.blocks++
	switch b := b.(type) {
	case *service.Table:
		r.table(b)
	case *service.Facts:
		r.facts(b)
	case *service.Form:
		r.form(b)
	case *service.Search:
		r.search(b)
	case *service.Text:
		r.textBlock(b)
	case *service.Notice:
		r.notice(b.State, b.Text)
	case *service.Links:
		links := slices.DeleteFunc(slices.Clone(b.All), func(l service.Link) bool { return !r.opens(l.To) || r.isTab(l.To) })
		if len(links) == 0 {
			return
		}
		r.open("ul", "class", "links")
		for i, l := range links {
			class := ""
			if b.Primary && i == 0 {
				class = "primary"
			}
			r.open("li")
			r.element("a", l.Text, "href", r.x.link(r.section, l.To), "class", class)
			r.close("li")
		}
		r.close("ul")
	case *service.Stats:
		r.stats(b)
	case *service.Cards:
		r.cards(b)
	case *service.Charts:
		r.charts(b)
	case *service.Chart:
		r.chart(b)
	case *service.Image:
		if !r.opens(b.To) {
			return
		}
		r.open("img", "class", "preview", "src", r.x.link(r.section, b.To), "alt", b.Alt)
	case *service.QR:
		r.qr(b)
	case *service.Live:
		r.live(b)
	}
}

// live renders its blocks once, and writes them both to the page and to r.part, for sendPart. The element requests
// itself from htmx with its version; without JavaScript a link loads the page again.
func (r *renderer) live(l *service.Live) {
	self := r.self(slices.Collect(maps.Keys(r.values)))
	r.open("p", "class", "live-state")
	r.element("a", "Load again", "href", self)
	r.close("p")
	whole := r.page
	r.page = &page{}
	for _, b := range l.Blocks {
		r.block(b)
	}
	contents := r.page.String()
	sum := sha256.Sum256([]byte(contents))
	r.part.version = hex.EncodeToString(sum[:8])
	r.page = &page{}
	r.open("div", "id", "live", "class", "live", "hx-get", self, "hx-trigger", "every "+strconv.Itoa(max(1, int(l.Every.Seconds())))+"s",
		"hx-swap", "outerHTML", "hx-headers", `{"`+versionHeader+`":"`+r.part.version+`"}`)
	r.WriteString(contents)
	r.close("div")
	r.part.body = r.page.String()
	r.page = whole
	r.WriteString(r.part.body)
}

// heading writes nothing without a title.
func (r *renderer) heading(title string) {
	if title != "" {
		r.element("h2", title)
	}
}

// looks are the CSS class, the icon and the word for a state. The word is shown, because color alone does not tell.
var looks = map[service.State]struct{ class, icon, word string }{
	service.OK: {"ok", "ok", "OK"}, service.Warning: {"warn", "warning", "Warning"}, service.Wrong: {"wrong", "wrong", "Error"},
}

// self returns a link to the current page with the parameters keep, and with changed, names with values. A value ""
// removes its parameter.
func (r *renderer) self(keep []string, changed ...string) string {
	query := url.Values{}
	for _, name := range keep {
		if v := r.values.Get(name); v != "" {
			query.Set(name, v)
		}
	}
	for i := 0; i+1 < len(changed); i += 2 {
		query.Del(changed[i])
		if changed[i+1] != "" {
			query.Set(changed[i], changed[i+1])
		}
	}
	to := r.x.link(r.section, r.at.Path)
	if len(query) > 0 {
		to += "?" + query.Encode()
	}
	return to
}

// mostWrapped is the number of columns from which a table becomes dense, because wrapped cells would be too narrow.
const mostWrapped = 7

// fewRows is the number of rows from which phones show a sort control.
const fewRows = 4

// table writes a table with its views, search, selection, order and paging. Only the rows at hand are sorted, and
// only if they are complete (orderOf).
func (r *renderer) table(t *service.Table) {
	r.heading(t.Title)
	order := r.orderOf(t)
	t = order.sorted(t)
	keep := slices.Concat(t.Keep, []string{"sort", "reverse"})
	if len(t.Views.All) > 1 {
		r.open("div", "class", "bar")
		r.views(&t.Views)
	}
	if len(t.Search) > 0 {
		r.search(&service.Search{Fields: t.Search, Keep: t.Keep})
		for _, f := range t.Search {
			keep = append(keep, f.Name)
		}
	}
	if len(t.Views.All) > 1 {
		r.close("div")
	}
	if len(t.Rows) == 0 {
		r.empty(t)
	} else {
		bulk := r.bulk(t.Bulk)
		// htmx restores the focus by element ID.
		r.open("div", "id", r.newID(), "class", "scroll", "tabindex", "0", "role", "region", "aria-label", cmp.Or(t.Title, r.at.Title))
		// Some browsers drop table roles if CSS changes the layout, as on phones; attributes keep them.
		parts := partsOf(t)
		class := ""
		if len(t.Rows) > fewRows {
			class = "long"
		}
		switch {
		case t.Grid:
			class += " tiles"
		case len(t.Columns) > mostWrapped:
			class += " dense"
		}
		r.open("table", "role", "table", "class", class)
		r.head(t, order, keep, bulk)
		r.rows(t, parts, bulk)
		r.close("table", "div")
	}
	if t.Next == "" && r.values.Get("after") == "" {
		return
	}
	r.open("nav", "aria-label", "Table pages", "class", "pages")
	if r.values.Get("after") != "" {
		r.element("a", "First page", "href", r.self(keep))
	}
	if t.Next != "" {
		r.element("a", cmp.Or(t.More, "Next page"), "href", r.self(keep, "after", t.Next), "rel", "next")
	}
	r.close("nav")
}

// empty tells why there are no rows, and how to create the first one.
func (r *renderer) empty(t *service.Table) {
	r.open("div", "class", "empty")
	r.element("p", cmp.Or(t.Empty, "Nothing here."))
	if t.First != nil {
		r.element("a", t.First.Text, "href", r.x.link(r.section, t.First.To), "class", "primary")
	}
	r.close("div")
}

// cell writes a value with its picture, state, link, bar and buttons. isShort shortens IDs, as in tables. A link or a
// picture that the role may not open is left out; the text stays.
func (r *renderer) cell(c *service.Cell, isShort bool) {
	switch {
	case c.Thumb != "" && r.opens(c.Thumb):
		r.open("span", "class", "thumb")
		r.icon(c.Icon)
		r.open("img", "src", r.x.link(r.section, c.Thumb), "alt", "", "loading", "lazy", "decoding", "async")
		r.close("span")
		r.text(" ")
	case c.Icon != "":
		r.icon(c.Icon)
		r.text(" ")
	}
	if c.State != "" {
		r.state(c.State)
		r.text(" ")
	}
	switch {
	case c.To != "" && r.opens(c.To):
		r.open("a", "href", r.x.link(r.section, c.To))
		r.value(c, isShort)
		r.close("a")
	case c.Text != "":
		r.value(c, isShort)
	}
	if c.ID {
		r.open("button", "type", "button", "class", "copy", "data-copy-text", c.Text, "aria-label", "Copy "+short(c.Text), "hidden?", "yes") // shown by the script
		r.icon("copy")
		r.close("button")
	}
	if c.Most > 0 {
		r.meter(c.Share, c.Most, c.Whole, c.Text)
	}
	for i := range c.Forms {
		r.form(&c.Forms[i])
	}
}

// meter writes a bar that warns from 90 % of maximum, unless maximum is the sum of all bars.
func (p *page) meter(share, maximum float64, isSum bool, label string) {
	high := maximum * .9
	if isSum {
		high = maximum
	}
	// Round the value: otherwise each byte on a disk would change the page, and browsers would load it again.
	if step := math.Floor(maximum / 1000); step > 1 && share < maximum {
		share = min(math.Round(share/step)*step, maximum)
	}
	p.element("meter", decimal(share), "min", "0", "max", decimal(maximum), "high", decimal(high), "value", decimal(share), "aria-label", label)
}

// decimal formats a number without an exponent, which <meter> does not accept.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// value writes a cell's text. Scripts show times in the browser's time zone.
func (r *renderer) value(c *service.Cell, isShort bool) {
	switch {
	case !c.Time.IsZero():
		r.element("time", c.Text, "datetime", c.Time.UTC().Format(time.RFC3339))
	case c.ID && isShort:
		r.element("code", short(c.Text), "title", c.Text)
	case c.ID:
		r.element("code", c.Text)
	default:
		r.name(cmp.Or(c.Text, "(empty)"))
	}
}

// state writes a colored word with its icon.
func (p *page) state(s service.State) {
	look := looks[s]
	p.open("span", "class", "state "+look.class)
	p.icon(look.icon)
	p.text(look.word)
	p.close("span")
}

// notice writes a sentence in a colored box.
func (p *page) notice(s service.State, text string, attrs ...string) {
	look := looks[s]
	p.open("p", append([]string{"class", "notice " + look.class}, attrs...)...)
	p.icon(look.icon)
	p.element("span", text)
	p.close("p")
}

// facts writes names with values. Empty ones get a class, with which phones hide them.
func (r *renderer) facts(f *service.Facts) {
	r.heading(f.Title)
	class := ""
	if f.Inline {
		class = "inline"
	}
	r.open("dl", "class", class)
	for i := range f.Rows {
		none := ""
		if isNone(&f.Rows[i].Cell) {
			none = "none"
		}
		r.open("div", "class", none)
		r.element("dt", f.Rows[i].Name)
		r.open("dd")
		r.cell(&f.Rows[i].Cell, false)
		r.close("dd", "div")
	}
	r.close("dl")
}

// textBlock writes text with its line breaks; a text to copy gets a fixed font.
func (r *renderer) textBlock(t *service.Text) {
	if t.Folded {
		r.open("details", "class", "folded-text", "name", "texts")
		r.element("summary", t.Title)
		defer r.close("details")
	} else {
		r.heading(t.Title)
	}
	if !t.Copy {
		r.element("p", t.Body, "class", "text")
		return
	}
	id := r.newID()
	r.open("div", "class", "copied-text")
	r.element("pre", t.Body, "id", id, "tabindex", "0")
	r.element("button", "Copy", "type", "button", "class", "plain", "data-copy", id, "hidden?", "yes") // shown by the script
	r.close("div")
}

// action returns the form's action, or nil if the page has none with this name, or if the role may not run it. A
// viewer may run actions that only read.
func (r *renderer) action(f *service.Form, name string) *service.Action {
	pg := r.section.page(cmp.Or(f.Page, r.at.Path))
	at := slices.IndexFunc(pg.Actions, func(a service.Action) bool { return a.Name == name })
	if at < 0 || r.x.session.role != admin && !pg.Actions[at].Reads {
		return nil
	}
	return &pg.Actions[at]
}

// opens reports whether the session's role may open a link within the section.
func (r *renderer) opens(to string) bool {
	path, _, _ := strings.Cut(pathOf(to), "#")
	pg := r.section.page(path)
	return pg == nil || r.x.mayOpen(pg)
}

// form writes a form with all its hidden values. It writes nothing if the role may not use its buttons. After a
// failed action the form with the same action and hidden values gets the error and the typed values; others on the
// page, e.g. in other rows, do not.
func (r *renderer) form(f *service.Form) {
	action, trial := r.action(f, f.Action), (*service.Action)(nil)
	if f.Trial != nil {
		trial = r.action(f, f.Trial.Action)
	}
	if action == nil && trial == nil {
		return
	}
	var typed url.Values
	if r.failed != nil && f.Has(r.failed.action) && keeps(r.failed.values, f.Keep) {
		typed = r.failed.values
	}
	around := r.openForm(f, typed != nil)
	to := func(a *service.Action) string {
		return r.x.link(r.section, cmp.Or(f.Page, r.at.Path)) + "?do=" + url.QueryEscape(a.Name)
	}
	attrs := []string{"method", "post", "action", to(cmp.Or(action, trial))}
	class := "fields"
	switch {
	case len(f.Fields) == 0 && f.Confirm == "":
		class = "button"
	case len(f.Fields) == 1 && f.Title == "" && f.Fields[0].Lines == 0 && !f.Fields[0].Checkbox:
		class = "fields inline"
	}
	if action != nil && action.Uploads {
		attrs = append(attrs, "enctype", "multipart/form-data")
		if takesFiles(f) {
			class += " drop"
		}
	}
	if f.Ask != "" {
		summary := []string{"class", "danger"}
		if f.Label != "" {
			summary = append(summary, "aria-label", f.Label)
		}
		r.open("details", "class", "ask")
		r.element("summary", f.Submit+"…", summary...)
		r.element("p", f.Ask)
	}
	r.open("form", append(attrs, "class", class)...)
	if typed != nil && r.failed.err != nil {
		r.wrong, r.focus = maps.Clone(fieldErrors(r.failed.err)), true
		maps.DeleteFunc(r.wrong, func(name, _ string) bool {
			return !slices.ContainsFunc(f.Fields, func(field service.Field) bool { return field.Name == name })
		})
		r.notice(service.Wrong, upper(cmp.Or(count(r.wrong), Message(r.failed.err)))+".")
	}
	r.open("input", "type", "hidden", "name", "csrf", "value", r.x.session.csrf)
	r.open("input", "type", "hidden", "name", "return-to", "value", r.values.Encode())
	if f.Page != "" {
		r.open("input", "type", "hidden", "name", "return-page", "value", r.at.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Keep)) {
		r.exactInput("hidden", name, f.Keep[name])
	}
	r.fields(f, typed, to)
	if f.Confirm != "" {
		r.exactInput("hidden", "confirm-with", f.Confirm)
		r.field(&service.Field{Name: "confirm", Label: "Type " + f.Confirm + " to confirm"}, nil)
	}
	r.buttons(f, action != nil, trial, to)
	r.close("form")
	if f.Ask != "" {
		r.close("details")
	}
	if around != "" {
		r.close(around)
	}
}

// openForm writes a form's title and text, in a drawer or on a line. It returns the element around the form, which the
// caller closes, or "".
func (r *renderer) openForm(f *service.Form, isOpen bool) (around string) {
	switch isAlone := r.blocks == 1 && !r.hasList; {
	case isLone(f) && f.Title != "":
		r.openLine(f)
		return "div"
	case isFolded(f) && !isAlone && !slices.Contains(r.forms, formID(f)):
		r.forms = append(r.forms, formID(f))
		r.openDrawer(f, isOpen)
		around = "section"
	default:
		r.heading(f.Title)
	}
	if f.Text != "" {
		r.element("p", f.Text)
	}
	return around
}

// fields writes the form's fields. The result of Form.Check is shown below the editor, or else below the last field.
// to returns an action's URL.
func (r *renderer) fields(f *service.Form, typed url.Values, to func(*service.Action) string) {
	check := r.action(f, f.Check)
	r.asked = ask(f)
	hasDetails := false
	for i := range f.Fields {
		if f.Fields[i].Detail && !hasDetails {
			hasDetails = true
			open := ""
			if len(r.wrong) > 0 {
				open = "yes"
			}
			r.open("details", "class", "details", "open?", open)
			r.element("summary", "More limits")
		}
		r.field(&f.Fields[i], typed)
		if check != nil && (f.Fields[i].Lines >= editorLines || i == len(f.Fields)-1) {
			r.check(to(check))
			check = nil
		}
	}
	if hasDetails {
		r.close("details")
	}
	r.wrong = nil
}

// editorLines is the number of lines from which a text area is an editor.
const editorLines = 16

// check writes the element that htmx fills while the operator types.
func (r *renderer) check(to string) {
	r.open("div", "class", "check", "role", "status", "hx-post", to, "hx-trigger", "input delay:300ms from:closest form", "hx-sync", "this:replace")
	r.close("div")
}

// buttons writes the submit button, if submits, and the buttons for the trial and the switch.
func (r *renderer) buttons(f *service.Form, submits bool, trial *service.Action, to func(*service.Action) string) {
	button := []string{"type", "submit"}
	if f.Danger {
		button = append(button, "class", "danger")
	}
	if f.Label != "" {
		button = append(button, "aria-label", f.Label)
	}
	if trial == nil {
		r.element("button", f.Submit, button...)
		return
	}
	r.open("div", "class", "buttons")
	if submits {
		r.element("button", f.Submit, button...)
	}
	r.element("button", f.Trial.Submit, "type", "submit", "formaction", to(trial), "class", "plain")
	if f.Switch != nil {
		r.element("button", f.Switch.Submit, "type", "submit", "formaction", to(&service.Action{Name: f.Switch.Action}), "formnovalidate?", "yes", "class", "plain")
	}
	r.close("div")
}

// keeps reports whether sent values contain a form's hidden values.
func keeps(values url.Values, keep map[string]string) bool {
	for name, v := range keep {
		if values.Get(name) != v {
			return false
		}
	}
	return true
}
