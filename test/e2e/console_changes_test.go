package e2e

import (
	"strings"

	"holdfast/test/chromium"
)

// step fills and submits a console form. If page is empty, the form is on the page after the previous step.
type step struct {
	page, button string
	fields       []string
	says         string // text on the next page
}

// changes submit forms that differ in the browser: with fields, behind a question, with a file, for selected rows, and
// with a secret as the result. app.TestConsoleChanges submits every form.
var changes = []step{
	{"tokenserver/access", "Allow", []string{"account", consoleAccount, "note", "a friend"}, "Account " + consoleAccount + " may sign in."},
	{"", "Deny", []string{"account", consoleAccount}, "Account " + consoleAccount + " may not sign in."},
	{"", "Remove from the lists: account " + consoleAccount, nil, "Removed account " + consoleAccount},
	{"tokenserver/users", "Import", []string{"uid", "77", "file", "no export\n"}, "Line 1: "},
	{"tokenserver/accounts/show?account=" + consoleUser, "Delete data", []string{"confirm", consoleUser}, "Deleted the data of 1 storage user."},
	{"extstorage/records/create" + consolePlace, "Check", []string{"key", "mine", "value", `{"n":1}`}, "Valid, 7 B."},
	{"extstorage/records/create" + consolePlace, "Create", []string{"key", "chosen", "value", "1"}, "Saved revision 1."},
	{"extstorage/records" + consolePlace + "&prefix=chosen", "Delete the selected records", []string{"key", "1:chosen"}, "Deleted 1 record."},
	{"buckets/objects?account=main&bucket=pictures&prefix=pixel", "Move or copy", []string{"key", "object:pixel.png", "keep", "yes", "to-folder", "copied"}, "Copied 1 object."},
	{"guest/keys", "Add a key", nil, "is verify-only."},
	{"", "Activate", nil, "is active."},
	{"buckets/tokens", "Create token", []string{"account", "main"}, "The token is shown only once."},
	{"sessions", "End all sessions", nil, "Holdfast console"},
}

// askByKeyboard opens and closes a row's menu and a button's dialog on a phone, by keyboard.
func (c *consolePages) askByKeyboard(axe *chromium.Axe) {
	c.t.Helper()
	const menu, ask = "main .more > summary", "main .ask > summary"
	c.p.Go(c.t, c.base+"guest/keys")
	chromium.Run[bool](c.t, c.p, `$(arguments[0]).focus(); return true`, menu)
	c.p.Press(c.t, menu, "Enter")
	chromium.Run[bool](c.t, c.p, `return !!await until(() => $(arguments[0]).checkVisibility())`, ask)
	c.p.Press(c.t, menu, "Tab")
	c.p.AwaitFocus(c.t, ask)
	c.p.Press(c.t, ask, "Enter")
	chromium.Run[bool](c.t, c.p, `return !!await until(() => $('main .ask').open && $('main .ask button').checkVisibility())`)
	for _, v := range axe.Violations(c.t, c.p) {
		c.t.Errorf("dialog of a button: %s", v)
	}
	c.p.Press(c.t, ask, "Tab")
	c.p.AwaitFocus(c.t, "main .ask button")
	chromium.Run[bool](c.t, c.p, `$(arguments[0]).focus(); return true`, ask)
	c.p.Press(c.t, ask, " ")
	chromium.Run[bool](c.t, c.p, `return !!await until(() => !$('main .ask').open)`)
	chromium.Run[bool](c.t, c.p, `$(arguments[0]).focus(); return true`, menu)
	c.p.Press(c.t, menu, " ")
	chromium.Run[bool](c.t, c.p, `return !!await until(() => !$(arguments[0]).checkVisibility())`, ask)
}

// openAll opens the drawer and the menus around a button. The drawer may be opened in a menu.
const openAll = `const open = (e) => {
		for (let d = e.closest('details'); d; d = d.parentElement.closest('details')) if (!d.open) d.querySelector('summary').click();
	};
	const sheet = button.closest('[popover]');
	if (sheet && !sheet.matches(':popover-open')) {
		const opener = $('main :not(.sheet *)[popovertarget="' + sheet.id + '"]');
		open(opener);
		if (!opener.checkVisibility()) throw new Error('nothing opens ' + sheet.id);
		opener.click();
	}
	open(button);`

// drawerByKeyboard opens a drawer, which takes the focus, and closes it, which gives the focus back.
func (c *consolePages) drawerByKeyboard(axe *chromium.Axe) {
	c.t.Helper()
	const opener = "main .starts button"
	c.p.Go(c.t, c.base+"buckets/buckets")
	c.p.TabTo(c.t, opener)
	c.p.Press(c.t, opener, "Enter")
	c.p.AwaitFocus(c.t, ".sheet [name=bucket]")
	for _, v := range axe.Violations(c.t, c.p) {
		c.t.Errorf("drawer: %s", v)
	}
	c.p.Press(c.t, ".sheet [name=bucket]", "Escape")
	c.p.AwaitFocus(c.t, opener)
	c.p.Go(c.t, c.base+"buckets/buckets#form--create")
	c.p.AwaitFocus(c.t, ".sheet [name=bucket]")
	c.p.Go(c.t, c.base+"buckets/buckets")
	text := c.submit(step{button: "Create bucket", fields: []string{"bucket", "A bucket"}})
	if !strings.Contains(text, "lower-case") || !chromium.Run[bool](c.t, c.p, `const name = $('.sheet.shown [name=bucket]'); return name.value === 'A bucket' && name.checkVisibility()`) {
		c.t.Errorf("the drawer of a failed form does not show it: %s", text)
	}
}

func (c *consolePages) submit(s step) string {
	c.t.Helper()
	c.p.Await(c.t, func() {
		chromium.Run[bool](c.t, c.p, `
			const [name, fields] = arguments, buttons = all('main button[type=submit]');
			const button = buttons.find(b => b.textContent === name || b.getAttribute('aria-label') === name);
			if (!button) throw new Error('no button ' + name + ' in ' + document.body.textContent);
			`+openAll+`
			if (!button.checkVisibility()) button.closest('tr')?.querySelector('.more > summary').click();
			if (!button.checkVisibility()) throw new Error('the button ' + name + ' is hidden');
			for (let i = 0; i < fields.length; i += 2) {
				let field = button.form.elements[fields[i]];
				if (field instanceof RadioNodeList) field = [...field].find(f => f.value === fields[i + 1]); // rows
				if (field.type === 'file') {
					const chosen = new DataTransfer();
					chosen.items.add(new File([fields[i + 1]], 'chosen.ndjson'));
					field.files = chosen.files;
					continue;
				}
				field.checked = field.type === 'checkbox';
				field.value = fields[i + 1];
			}
			setTimeout(() => button.click()); // the next page must not take the answer away
			return true`, s.button, append([]string{}, s.fields...))
	})
	return chromium.Run[string](c.t, c.p, `return $('main').textContent`)
}

// buttonsCanBeSeen checks that each form's button is visible, or that clicks on the page show it.
func (c *consolePages) buttonsCanBeSeen(page string) {
	c.t.Helper()
	for _, hidden := range chromium.Run[[]string](c.t, c.p, `return all('main button[type=submit]').filter(button => {
		`+openAll+`
		if (!button.checkVisibility()) button.closest('tr')?.querySelector('.more > summary').click();
		const hidden = !button.checkVisibility();
		sheet?.hidePopover();
		return hidden;
	}).map(button => button.textContent)`) {
		c.t.Errorf("%s: the button %s is hidden", page, hidden)
	}
}

// makeChanges submits the forms, and signs in and out by keyboard.
func (c *consolePages) makeChanges() {
	c.t.Helper()
	consoleCookie(c.t, c.s) // another session
	for _, s := range changes {
		if s.page != "" {
			c.p.Go(c.t, c.base+s.page)
		}
		text := c.submit(s)
		for i := 0; i < 20 && strings.Contains(text, "retry later"); i++ { // schema trials can time out
			text = c.submit(s)
		}
		if !strings.Contains(text, s.says) {
			c.t.Fatalf("%s %q %q: no %q in\n%s", s.page, s.button, s.fields, s.says, text)
		}
	}
	c.p.Type(c.t, "[name=token]", "a wrong token")
	c.p.Await(c.t, func() { c.p.Press(c.t, "[name=token]", "Enter") })
	if says := chromium.Run[string](c.t, c.p, `return $('[role=alert]').textContent`); says != "The token is wrong." {
		c.t.Errorf("a wrong token: %q", says)
	}
	c.p.Type(c.t, "[name=token]", secretOf(c.t, c.s, "admin_token"))
	c.p.Await(c.t, func() { c.p.Press(c.t, "[name=token]", "Enter") })
	if title := chromium.Run[string](c.t, c.p, `return $('h1').textContent`); title != "Sessions" {
		c.t.Errorf("after the sign-in: %s", title)
	}
	c.p.Await(c.t, func() { chromium.Run[bool](c.t, c.p, `$('header button').click(); return true`) })
	if path := chromium.Run[string](c.t, c.p, `return location.pathname`); path != "/console/sign-in" {
		c.t.Errorf("after the sign-out: %s", path)
	}
}
