package e2e

import (
	"strings"

	"holdfast/test/chromium"
)

// step is a form of a page of the console that is filled and submitted. Without a page it is one of the
// page that the step before led to.
type step struct {
	page, button string
	fields       []string // names and values
	says         string   // the page after it
}

// changesOf are changes of every service.
func changesOf() []step {
	const (
		install = "extstorage/install?tenant=" + consoleTenant + "&install=" + consoleInstall
		records = "extstorage/records" + consolePlace
		schemas = "extstorage/schemas" + consolePlace
		object  = "buckets/object?account=main&bucket=pictures&object=page.html"
		tenant  = "33333333-4444-4333-8444-555555555555"
	)
	return []step{
		{"tokenserver/access", "Allow", []string{"account", consoleAccount, "note", "a friend"}, "Account " + consoleAccount + " may sign in."},
		{"", "Deny", []string{"account", consoleAccount}, "Account " + consoleAccount + " may not sign in."},
		{"", "Remove account " + consoleAccount + " from the lists", nil, "Removed account " + consoleAccount},
		{"tokenserver/nodes", "Drain", nil, "gets no new accounts"},
		{"", "Undo", nil, "gets new accounts again"},

		{records, "Create", []string{"key", "mine", "value", `{"n":1}`}, "Saved revision 1."},
		{"", "Save", []string{"value", `{"n":2}`}, "Saved revision 2."},
		{"", "Delete record", nil, "Deleted record mine."},
		{schemas, "Try draft", []string{"document", `{"type":"string"}`}, "Trial of a draft for settings"},
		{"", "Register draft", nil, "Registered version 1 as a draft."},
		{"", "Compare and try", nil, "Check of schema version 1 of settings"},
		{"", "Activate", nil, "Version 1 is active."},
		{"", "Deprecate", nil, "Version 1 is deprecated."},
		{"", "Register draft", nil, "Registered version 2 as a draft."}, // the newest one cannot be deleted alone
		{"extstorage/schema" + consolePlace + "&version=1", "Delete version", nil, "Deleted version 1."},
		{install, "Create token", []string{"namespaces", "settings=r"}, "The token is shown only once."},
		{install, "Revoke access", nil, "Access was revoked"},
		{"", "Restore", nil, "The install can be used again."},
		{"", "Delete install", []string{"confirm", consoleInstall}, "Deleted the install with"},

		{object, "Create link", nil, "X-Amz-Signature="},
		{object, "Delete object", []string{"confirm", "page.html"}, "Deleted object page.html."},
		{"buckets/account?account=main", "Create access key", nil, "Secret key"},
		{"buckets/accounts", "Create account", []string{"account", "other"}, "Secret key"},
		{"buckets/account?account=other", "Delete account", []string{"confirm", "other"}, "Deleted account other."},
		{"buckets/audit", "Start", nil, "The audit has begun."},

		{"guest/suspensions", "Suspend", []string{"tenant", tenant, "reason", hostileText}, "Tenant " + tenant + " is suspended."},
		{"", "Reinstate", nil, "Tenant " + tenant + " is reinstated."},
		{"guest/keys", "Add a key", nil, "is verify-only."},
		{"", "Activate", nil, "is active."},
		{"", "Retire", nil, "is retired."},
		{"guest/session", "Show session", []string{"cookie", "x"}, "The cookie is not valid"},
		{"sessions", "End all sessions", nil, "Holdfast console"},
	}
}

// makeChanges submits forms as an operator does, with a click of their button.
func (c *consolePages) makeChanges() {
	c.t.Helper()
	for _, s := range changesOf() {
		if s.page != "" {
			c.p.Go(c.t, c.base+s.page)
		}
		c.p.Await(c.t, func() {
			chromium.Run[bool](c.t, c.p, `
				const [name, fields] = arguments, buttons = all('main button[type=submit]');
				const button = buttons.find(b => b.textContent === name || b.getAttribute('aria-label') === name);
				if (!button) throw new Error('no button ' + name + ' in ' + document.body.textContent);
				for (let i = 0; i < fields.length; i += 2) button.form.elements[fields[i]].value = fields[i + 1];
				button.click();
				return true`, s.button, append([]string{}, s.fields...))
		})
		if text := chromium.Run[string](c.t, c.p, `return $('main').textContent`); !strings.Contains(text, s.says) {
			c.t.Fatalf("%s %q %q: no %q in\n%s", s.page, s.button, s.fields, s.says, text)
		}
	}
}
