package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/binary"
	"holdfast/test/chromium"
)

const recordSchema = `{"type":"object","required":["title","price"],"properties":{"title":{"type":"string"},"price":{"type":"number","minimum":0},` +
	`"paid":{"type":"boolean"},"room":{"enum":["garden","lake"]},"day":{"type":"string","format":"date","description":"The day of the arrival."},"starts":{"type":"string","format":"date-time"},"guests":{"type":"array","items":{"type":"string"}}}}`

// TestConsoleRecords edits records in the console. The table shows the schema's columns, and the editor reports errors
// while the user types and does not overwrite another client's change.
func TestConsoleRecords(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	e := bookings(t, s)
	b := chromium.Start(t)
	axe := chromium.NewAxe(t)
	p := b.Open(t, s.Admin+"/console/")
	p.SetCookie(t, s.Admin, consoleCookie(t, s))
	place := "?tenant=" + consoleTenant + "&install=" + consoleInstall + "&namespace=bookings"
	records, record := s.Admin+"/console/extstorage/records"+place, s.Admin+"/console/extstorage/record"+place+"&key=booking-0001&view=json"
	text := func(want string) {
		t.Helper()
		chromium.Run[bool](t, p, `return !!await until(() => $('main').innerText.includes(arguments[0]))`, want)
	}
	look := func(name string) {
		t.Helper()
		for _, v := range axe.Violations(t, p) {
			t.Errorf("%s: %s", name, v)
		}
		shootRecords(t, p, name)
	}
	p.Go(t, records)
	heads := chromium.Run[string](t, p, `return all('thead th:not(.choice)').map(th => th.textContent + (th.classList.contains('number') ? '#' : '')).join()`)
	if heads != "Key,title,price#,day,paid,room,guests,starts,Revision#,Size#,Updated" {
		t.Errorf("columns %s", heads)
	}
	text(hostileText)
	look("records")
	filterRecords(t, p, look)

	f := recordForm{p, text, look}
	f.asJSON(t, e, record)
	p.Go(t, records)
	if row := chromium.Run[string](t, p, `return $('tbody tr').innerText`); !strings.Contains(row, "99") {
		t.Errorf("the row is %q", row)
	}

	p.Go(t, strings.Replace(records, "/records?", "/feed?", 1))
	look("feed")
	deleteChosen(t, p, e, records)
	look("deleted")
	p.Go(t, strings.Replace(records, "/records?", "/records/create?", 1))
	look("create")
	f.create(t, records)
	f.edit(t, e)
	byProperty := strings.Replace(record, "&key=booking-0001&view=json", "&key=form-1", 1)
	f.switches(t, e, byProperty)
	f.withoutScripts(t, byProperty)

	p.Scripts(t, false)
	p.Go(t, record)
	f.checkWithoutScripts(t)
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("page problems:\n%s", strings.Join(problems, "\n"))
	}
}

func filterRecords(t *testing.T, p *chromium.Page, look func(string)) {
	t.Helper()
	for _, c := range [][3]string{{"paid", "false", "Suite with a view of the lake"}, {"/guests/1", "Ben", "Garden room"}, {"room", "lake", "No record matches."}} {
		p.Await(t, func() {
			chromium.Run[bool](t, p, `const f = $('main form.search'), [property, equals] = arguments; f.elements.property.value = property; f.elements.equals.value = equals; f.querySelector('button').click(); return true`, c[0], c[1])
		})
		says := chromium.Run[string](t, p, `return $('main').innerText`)
		if !strings.Contains(says, c[2]) || !strings.Contains(says, "4 keys, from booking-0001 to booking-0004, the end of the list") || c[0] == "paid" && strings.Contains(says, "Garden room") {
			t.Errorf("records whose %s is %s:\n%s", c[0], c[1], says)
		}
		look("filter-" + strings.ReplaceAll(c[0], "/", ""))
	}
}

// deleteChosen selects all records on a page, lets one of them change, and deletes them.
func deleteChosen(t *testing.T, p *chromium.Page, e extension, records string) {
	t.Helper()
	for _, key := range []string{"old-1", "old-2", "old-3"} {
		e.want(http.StatusCreated, http.MethodPut, "/namespaces/bookings/records/"+key, `{"value":{"title":"Old","price":1}}`)
	}
	p.Go(t, records+"&prefix=old-")
	e.want(http.StatusOK, http.MethodPut, "/namespaces/bookings/records/old-2", `{"value":{"title":"New","price":2}}`)
	chromium.Run[bool](t, p, `$('th.choice input').click(); $('.bulk summary').click(); return true`)
	if says := chromium.Run[string](t, p, `return $('.bulk .chosen').textContent`); says != "3 selected" {
		t.Errorf("the bar shows %q", says)
	}
	p.Await(t, func() {
		chromium.Run[bool](t, p, `$('.bulk button[formaction$="do=delete-chosen"]').click(); return true`)
	})
	if says := chromium.Run[string](t, p, `return $('[role=alert]').innerText + all('tbody tr').map(r => r.innerText)`); !strings.Contains(says, "Deleted 2 records; kept 1, changed since the page was shown: old-2.") || strings.Contains(says, "old-1") || !strings.Contains(says, "New") {
		t.Errorf("the page after it: %q", says)
	}
}

// checkWithoutScripts tests that the button validates the draft and that the page keeps it.
func (f recordForm) checkWithoutScripts(t *testing.T) {
	t.Helper()
	f.typeJSON(t, `{"title":1,"price":1}`)
	f.submit(t, "Check")
	if page := chromium.Run[string](t, f.p, `return $('[role=alert]').innerText + $('form[action$="do=save"] textarea').value`); !strings.Contains(page, "Value /title, line 1: must be") || !strings.HasSuffix(page, `{"title":1,"price":1}`) {
		t.Errorf("after a check without scripts: %q", page)
	}
	f.typeJSON(t, `{"title":"t","price":1}`)
	f.submit(t, "Check")
	if page := chromium.Run[string](t, f.p, `return $('main [role=status]').innerText + $('form[action$="do=save"] textarea').value`); !strings.HasPrefix(strings.TrimSpace(page), "Valid, ") || !strings.HasSuffix(page, `{"title":"t","price":1}`) {
		t.Errorf("after a check without scripts: %q", page)
	}
}

func bookings(t *testing.T, s *binary.Server) extension {
	t.Helper()
	e := extension{t, s, consoleInstall, strings.TrimSpace(s.Verb("ext", "tokens", "create", "--tenant", consoleTenant, "--install", consoleInstall, "--namespace", "bookings=rw"))}
	e.register(http.StatusCreated, "bookings", recordSchema)
	e.want(http.StatusOK, http.MethodPatch, "/namespaces/bookings/schemas/1", `{"status":"active"}`)
	for i, title := range []string{"Garden room", "Suite with a view of the lake", "Attic", hostileText} {
		e.want(http.StatusCreated, http.MethodPut, fmt.Sprintf("/namespaces/bookings/records/booking-%04d", i+1),
			fmt.Sprintf(`{"value":{"title":%q,"price":%d.5,"paid":%t,"starts":"2026-12-%02dT15:00:00Z","guests":["Ann","Ben"]}}`, title, 80*(i+1), i%2 == 0, i+10))
	}
	return e
}

// shootRecords writes pictures of a page in three widths, light and dark, to the folder RECORD_PICTURES, if set.
func shootRecords(t *testing.T, p *chromium.Page, name string) {
	t.Helper()
	to := os.Getenv("RECORD_PICTURES")
	if to == "" {
		return
	}
	for _, shot := range []struct {
		width  int
		scheme string
	}{{390, "light"}, {390, "dark"}, {768, "light"}, {1280, "dark"}, {1280, "light"}} {
		p.Scheme(t, shot.scheme)
		p.Resize(t, shot.width, 900)
		if err := os.WriteFile(filepath.Join(to, fmt.Sprintf("%s-%d-%s.png", name, shot.width, shot.scheme)), p.Screenshot(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Scheme(t, "light")
}

type recordForm struct {
	p          *chromium.Page
	text, look func(string)
}

func (f recordForm) typeJSON(t *testing.T, value string) {
	t.Helper()
	chromium.Run[bool](t, f.p, `const v = $('form[action$="do=save"] textarea'); v.focus(); v.select(); return true`)
	f.p.Type(t, `form[action$="do=save"] textarea`, value)
}

func (f recordForm) asJSON(t *testing.T, e extension, record string) {
	t.Helper()
	f.p.Go(t, record)
	f.look("record")
	check := func(want string) {
		t.Helper()
		chromium.Run[bool](t, f.p, `return !!await until(() => $('form[action$="do=save"] .check')?.innerText.includes(arguments[0]))`, want)
	}
	f.typeJSON(t, "{\n  \"title\": \"Garden room\",\n  \"price\": \"cheap\"\n}")
	check("Value /price, line 3: must be")
	f.look("wrong")
	f.typeJSON(t, "{\n  \"title\": \"Garden\n}")
	check(", line 2: ")
	f.typeJSON(t, "{\n  \"title\": \"Garden room\",\n  \"price\": 99\n}")
	check("Valid, ")
	e.want(http.StatusOK, http.MethodPut, "/namespaces/bookings/records/booking-0001", `{"value":{"title":"Garden room","price":120}}`)
	f.submit(t, "Save")
	f.text("Nothing was saved, because the record was changed")
	if row := chromium.Run[string](t, f.p, `return $('tbody tr').innerText`); !strings.Contains(row, "/price") || !strings.Contains(row, "120") || !strings.Contains(row, "99") {
		t.Errorf("the difference is %q", row)
	}
	f.look("conflict")
	f.submit(t, "Replace the stored record")
	f.text("Saved revision 3.")
}

func (f recordForm) fill(t *testing.T, field, value string) {
	t.Helper()
	chromium.Run[bool](t, f.p, `const i = $('main form.fields').elements.namedItem(arguments[0]); i.focus(); i.value = arguments[1]; i.dispatchEvent(new InputEvent('input', { bubbles: true })); return true`, field, value)
}

func (f recordForm) has(t *testing.T, field, want string) {
	t.Helper()
	if got := chromium.Run[string](t, f.p, `return $('main form.fields').elements.namedItem(arguments[0])?.value ?? 'nothing'`, field); got != want {
		t.Errorf("field %s: %q, want %q", field, got, want)
	}
}

func (f recordForm) submit(t *testing.T, button string) {
	t.Helper()
	f.p.Await(t, func() {
		chromium.Run[bool](t, f.p, `all('main form.fields button').find(b => b.textContent === arguments[0]).click(); return true`, button)
	})
}

// isWrong is true if the field in the first argument shows a message that contains the second argument.
const isWrong = `(i => i.ariaInvalid === 'true' && i.closest('.field').querySelector('.error').innerText.includes(arguments[1]) && i.getAttribute('aria-describedby').split(' ').every(id => document.getElementById(id)))($('main form.fields').elements.namedItem(arguments[0]))`

func (f recordForm) wrong(t *testing.T, field, says string) {
	t.Helper()
	chromium.Run[bool](t, f.p, `const [field, says] = arguments; return until(() => (function () { return `+isWrong+`; })(field, says))`, field, says)
}

func (f recordForm) create(t *testing.T, records string) {
	t.Helper()
	f.p.Go(t, strings.Replace(records, "/records?", "/records/create?", 1))
	types := chromium.Run[string](t, f.p, `return [...$('main form.fields').elements].filter(i => i.name && i.type !== 'hidden').map(i => [i.name, i.type, i.inputMode, i.required ? '!' : ''].join(' ').trim()).join()`)
	if types != "key text  !,text.title text  !,number.price text decimal !,text.day date,json.paid select-one,json.room select-one,lines.guests textarea,seconds.starts datetime-local,others textarea,metadata textarea,ttl text" {
		t.Errorf("the fields are %s", types)
	}
	f.fill(t, "key", "form-1")
	f.fill(t, "text.title", "Tower")
	f.fill(t, "number.price", "cheap")
	f.wrong(t, "number.price", "Expected a number")
	f.fill(t, "number.price", "-1")
	f.wrong(t, "number.price", "Must be")
	f.look("property")
	f.fill(t, "number.price", "12345678901234567890.05")
	chromium.Run[bool](t, f.p, `return !!await until(() => $('.check').innerText.includes('Valid, ') && all('[aria-invalid]').length + all('.field .error').length === 0)`)
	f.fill(t, "key", "booking-0002")
	chromium.Run[bool](t, f.p, `return !!await until(() => $('.check').innerText.includes('The record was changed or created'))`)
	f.fill(t, "key", "form-1")
	f.fill(t, "text.day", "2026-12-10")
	f.fill(t, "json.paid", "false")
	f.fill(t, "json.room", `"lake"`)
	f.fill(t, "lines.guests", "Ann\n\nBen")
	f.fill(t, "seconds.starts", "2026-12-10T15:00")
	f.fill(t, "others", `{"note":"a\nb"}`)
	f.submit(t, "Create")
	f.text("Saved revision 1.")
	f.text(`"price": 12345678901234567890.05`)
}

func (f recordForm) edit(t *testing.T, e extension) {
	t.Helper()
	const stored = `{"day":"2026-12-10","note":"a\nb","paid":false,"room":"lake","price":12345678901234567890.05,"title":"Tower","guests":["Ann","Ben"],"starts":"2026-12-10T15:00:00Z"}`
	f.look("by-property")
	f.submit(t, "Save")
	f.text("Saved revision 2.")
	if got := e.want(http.StatusOK, http.MethodGet, "/namespaces/bookings/records/form-1", "").Body; !strings.Contains(got, `"value":`+stored) {
		t.Errorf("record after saving it unchanged: %s, want %s", got, stored)
	}
	f.fill(t, "string.title", "Lighthouse")
	f.fill(t, "text.day", "")
	e.want(http.StatusOK, http.MethodPut, "/namespaces/bookings/records/form-1", `{"value":{"title":"Dungeon","price":1}}`)
	f.submit(t, "Save")
	f.text("Nothing was saved, because the record was changed")
	if row := chromium.Run[string](t, f.p, `return $('tbody').innerText`); !strings.Contains(row, "Dungeon") || !strings.Contains(row, "Lighthouse") {
		t.Errorf("the difference is %q", row)
	}
	f.look("property-conflict")
	f.submit(t, "Replace the stored record")
	f.text("Saved revision 4.")
	if got := e.want(http.StatusOK, http.MethodGet, "/namespaces/bookings/records/form-1", "").Body; !strings.Contains(got, `"title":"Lighthouse"`) || strings.Contains(got, `"day"`) || !strings.Contains(got, "12345678901234567890.05") {
		t.Errorf("record after the conflict: %s", got)
	}
}

// switches shows a draft as JSON and again by property. The editor must keep the draft and detect another client's
// change.
func (f recordForm) switches(t *testing.T, e extension, record string) {
	t.Helper()
	f.p.Go(t, record)
	f.fill(t, "string.title", "")
	f.fill(t, "json.paid", "")
	f.fill(t, "lines.guests", "Eve\nAdam")
	f.fill(t, "number.price", "cheap")
	f.fill(t, "metadata", "{")
	f.submit(t, "Edit as JSON")
	f.wrong(t, "number.price", "Expected a number")
	f.has(t, "lines.guests", "Eve\nAdam")
	f.fill(t, "number.price", "3")
	f.submit(t, "Edit as JSON")
	f.has(t, "value", "{\n  \"note\": \"a\\nb\",\n  \"room\": \"lake\",\n  \"price\": 3,\n  \"title\": \"\",\n  \"guests\": [\n    \"Eve\",\n    \"Adam\"\n  ],\n  \"starts\": \"2026-12-10T15:00:00Z\"\n}")
	f.has(t, "metadata", "{")
	f.fill(t, "value", "[]")
	f.submit(t, "Edit by property")
	f.text("Value: expected an object")
	f.has(t, "value", "[]")
	f.fill(t, "value", `{"title":"Gate","price":"4","more":{"a":null},"starts":"2026-12-10T15:00:00.000Z"}`)
	f.submit(t, "Edit by property")
	f.has(t, "string.title", "Gate")
	f.has(t, "json.price", `"4"`)
	f.has(t, "others", "{\n  \"more\": {\n    \"a\": null\n  }\n}")
	f.has(t, "metadata", "{")
	f.look("switched")
	f.fill(t, "metadata", "")
	f.submit(t, "Check")
	f.wrong(t, "json.price", "Must be of type number")
	f.fill(t, "json.price", "4")
	f.submit(t, "Save")
	f.text("Saved revision 5.")
	if got := e.want(http.StatusOK, http.MethodGet, "/namespaces/bookings/records/form-1", "").Body; !strings.Contains(got, `"value":{"more":{"a":null},"price":4,"title":"Gate","starts":"2026-12-10T15:00:00.000Z"}`) {
		t.Errorf("record after the switches: %s", got)
	}
	f.fill(t, "string.title", "Mine")
	e.want(http.StatusOK, http.MethodPut, "/namespaces/bookings/records/form-1", `{"value":{"title":"Dungeon","price":1}}`)
	f.submit(t, "Edit as JSON")
	f.text("The record was changed or created since the form was shown.")
	f.has(t, "string.title", "Mine")
}

func (f recordForm) withoutScripts(t *testing.T, record string) {
	t.Helper()
	wrong := func(field, says string) {
		t.Helper()
		if !chromium.Run[bool](t, f.p, `return `+isWrong, field, says) {
			t.Errorf("field %s does not show %q", field, says)
		}
	}
	f.p.Scripts(t, false)
	f.p.Go(t, record)
	f.fill(t, "number.price", "-1")
	f.fill(t, "others", "{")
	f.submit(t, "Check")
	wrong("others", "Line 1: ")
	f.fill(t, "others", "")
	f.fill(t, "lines.guests", "Ann")
	f.submit(t, "Save")
	wrong("number.price", "Must be")
	f.submit(t, "Edit as JSON")
	f.has(t, "value", "{\n  \"price\": -1,\n  \"title\": \"Dungeon\",\n  \"guests\": [\n    \"Ann\"\n  ]\n}")
	f.submit(t, "Edit by property")
	f.fill(t, "number.price", "2")
	f.submit(t, "Save")
	if page := chromium.Run[string](t, f.p, `return $('main').innerText`); !strings.Contains(page, "Saved revision 7.") {
		t.Errorf("without scripts: %s", page)
	}
	f.p.Scripts(t, true)
}
