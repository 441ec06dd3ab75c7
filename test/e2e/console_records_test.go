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

// recordSchema is the schema of the bookings that TestConsoleRecords edits.
const recordSchema = `{"type":"object","required":["title","price"],"properties":{"title":{"type":"string"},"price":{"type":"number","minimum":0},` +
	`"paid":{"type":"boolean"},"starts":{"type":"string","format":"date-time"},"guests":{"type":"array","items":{"type":"string"}}}}`

// TestConsoleRecords edits records in the console: the table has the columns of the schema, the editor says what is wrong while
// somebody types, and refuses to overwrite a change.
func TestConsoleRecords(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	e := bookings(t, s)
	b := chromium.Start(t)
	axe := chromium.NewAxe(t)
	p := b.Open(t, s.Admin+"/console/")
	p.SetCookie(t, s.Admin, consoleCookie(t, s))
	place := "?tenant=" + consoleTenant + "&install=" + consoleInstall + "&namespace=bookings"
	records, record := s.Admin+"/console/extstorage/records"+place, s.Admin+"/console/extstorage/record"+place+"&key=booking-0001"
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
	if heads != "Key,price#,title,paid,guests,starts,Revision#,Size#,Updated" && heads != "Key,title,price#,paid,guests,starts,Revision#,Size#,Updated" {
		t.Errorf("columns %s", heads)
	}
	text(hostileText)
	look("records")

	// What somebody types is checked.
	p.Go(t, record)
	look("record")
	edit := func(value string) {
		t.Helper()
		chromium.Run[bool](t, p, `const v = $('form[action$="do=save"] textarea'); v.focus(); v.select(); return true`)
		p.Type(t, `form[action$="do=save"] textarea`, value)
	}
	check := func(want string) {
		t.Helper()
		chromium.Run[bool](t, p, `return !!await until(() => $('form[action$="do=save"] .check')?.innerText.includes(arguments[0]))`, want)
	}
	edit("{\n  \"title\": \"Garden room\",\n  \"price\": \"cheap\"\n}")
	check("Value /price, line 3: must be")
	look("wrong")
	edit("{\n  \"title\": \"Garden\n}")
	check(", line 2: ")
	edit("{\n  \"title\": \"Garden room\",\n  \"price\": 99\n}")
	check("Valid, ")

	// Another client changes the record: saving is refused, and shows the difference.
	e.want(http.StatusOK, http.MethodPut, "/namespaces/bookings/records/booking-0001", `{"value":{"title":"Garden room","price":120}}`)
	submit := func(button string) {
		t.Helper()
		p.Await(t, func() {
			chromium.Run[bool](t, p, `all('form[action$="do=save"] button').find(b => b.textContent === arguments[0]).click(); return true`, button)
		})
	}
	submit("Save")
	text("Nothing was saved, because the record was changed")
	if row := chromium.Run[string](t, p, `return $('tbody tr').innerText`); !strings.Contains(row, "/price") || !strings.Contains(row, "120") || !strings.Contains(row, "99") {
		t.Errorf("the difference is %q", row)
	}
	look("conflict")
	submit("Replace the stored record")
	text("Saved revision 3.")
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

	p.Scripts(t, false)
	p.Go(t, record)
	checkWithoutScripts(t, p, edit, submit)
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("problems of the pages:\n%s", strings.Join(problems, "\n"))
	}
}

// deleteChosen selects all records of a page, one of which then changes, and deletes them.
func deleteChosen(t *testing.T, p *chromium.Page, e extension, records string) {
	t.Helper()
	for _, key := range []string{"old-1", "old-2", "old-3"} {
		e.want(http.StatusCreated, http.MethodPut, "/namespaces/bookings/records/"+key, `{"value":{"title":"Old","price":1}}`)
	}
	p.Go(t, records+"&prefix=old-")
	e.want(http.StatusOK, http.MethodPut, "/namespaces/bookings/records/old-2", `{"value":{"title":"New","price":2}}`)
	chromium.Run[bool](t, p, `$('th.choice input').click(); $('.bulk summary').click(); return true`)
	if says := chromium.Run[string](t, p, `return $('.bulk .chosen').textContent`); says != "3 selected" {
		t.Errorf("the bar says %q", says)
	}
	p.Await(t, func() {
		chromium.Run[bool](t, p, `$('.bulk button[formaction$="do=delete-chosen"]').click(); return true`)
	})
	if says := chromium.Run[string](t, p, `return $('[role=alert]').innerText + all('tbody tr').map(r => r.innerText)`); !strings.Contains(says, "Deleted 2 records; kept 1, changed since the page was shown: old-2.") || strings.Contains(says, "old-1") || !strings.Contains(says, "New") {
		t.Errorf("the page after it: %q", says)
	}
}

// checkWithoutScripts tests that the button checks, and that the page keeps the draft.
func checkWithoutScripts(t *testing.T, p *chromium.Page, edit, submit func(string)) {
	t.Helper()
	edit(`{"title":1,"price":1}`)
	submit("Check")
	if page := chromium.Run[string](t, p, `return $('[role=alert]').innerText + $('form[action$="do=save"] textarea').value`); !strings.Contains(page, "Value /title, line 1: must be") || !strings.HasSuffix(page, `{"title":1,"price":1}`) {
		t.Errorf("after a check without scripts: %q", page)
	}
	edit(`{"title":"t","price":1}`)
	submit("Check")
	if page := chromium.Run[string](t, p, `return $('main [role=status]').innerText + $('form[action$="do=save"] textarea').value`); !strings.HasPrefix(strings.TrimSpace(page), "Valid, ") || !strings.HasSuffix(page, `{"title":"t","price":1}`) {
		t.Errorf("after a check without scripts: %q", page)
	}
}

// bookings fills a namespace that has a schema.
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

// shootRecords writes pictures of a page to the folder of RECORD_PICTURES, if that is set, in three widths, light and dark.
func shootRecords(t *testing.T, p *chromium.Page, name string) {
	t.Helper()
	to := os.Getenv("RECORD_PICTURES")
	if to == "" {
		return
	}
	for width, scheme := range map[int]string{390: "dark", 768: "light", 1280: "light"} {
		p.Scheme(t, scheme)
		p.Resize(t, width, 900)
		if err := os.WriteFile(filepath.Join(to, fmt.Sprintf("%s-%d.png", name, width)), p.Screenshot(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Scheme(t, "light")
}
