package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/test/binary"
	"holdfast/test/chromium"
)

// step fills and submits a console form. If page is empty, the form is on the page after the previous step.
type step struct {
	page, button string
	fields       []string
	says         string // text on the next page
}

func changesOf(folder, key string) []step {
	const (
		object   = "buckets/object?account=main&bucket=pictures&object=page.html"
		pictures = "buckets/objects?account=main&bucket=pictures"
	)
	return slices.Concat([]step{
		{"read-only", "Stop writes: service extstorage", nil, "Extstorage is read-only."},
		{"", "Accept writes: service extstorage", nil, "Extstorage accepts writes again."},
		{"databases", "Dismiss database former", nil, "Dismissed former"},
		{"alerts", "Send a test", nil, "The test alert was sent."},
		{"sweeps", "Sweep now: sweep deleted buckets", nil, "Sweep started."},
		{"settings", "Reload", nil, "The configuration has not changed."},

		{"tokenserver/access", "Allow", []string{"account", consoleAccount, "note", "a friend"}, "Account " + consoleAccount + " may sign in."},
		{"", "Deny", []string{"account", consoleAccount}, "Account " + consoleAccount + " may not sign in."},
		{"", "Remove from the lists: account " + consoleAccount, nil, "Removed account " + consoleAccount},
		{"tokenserver/refused", "Allow account " + consoleStranger, nil, "Account " + consoleStranger + " may sign in."},
		{"tokenserver/accounts", "Show account", []string{"account", consoleUser}, "Storage user"},
		{"", "Set label", []string{"label", hostileText}, "is labelled"},
		{"", "Set quota", []string{"quota", "1GiB"}, "The quota is set"},
		{"", "Import", []string{"file", "no export\n"}, "Line 1: "},
		{"", "Delete data", []string{"confirm", consoleUser}, "Deleted the data of 1 storage user."},
		{"syncstorage/tokens", "Create", []string{"uid", "77"}, "The token is shown only once."},
		{"syncstorage/comparisons", "Compare now", []string{"uid", "77"}, "Comparison started."},
		{"syncstorage/comparisons", "End it", nil, "No comparison is running"},
		{"tokenserver/users", "Import", []string{"uid", "77", "file", "no export\n"}, "Line 1: "},
		{"tokenserver/users", "Set quota", []string{"uid", "77", "quota", "5"}, "The quota is set"},
		{"tokenserver/users", "Export", []string{"uid", "77"}, "Download the file"},
		{"tokenserver/nodes", "Add", []string{"node", "https://sync2.example.org", "no-check", "yes"}, "gets new accounts, up to 100000"},
		{"tokenserver/nodes", "Drain", nil, "gets no new accounts"},
		{"", "Undo", nil, "gets new accounts again"},
	}, changesOfExtensions(), []step{
		{object, "Create link", nil, "X-Amz-Signature="},
		{object, "Move or copy", []string{"keep", "yes", "to", "copy.html"}, "Copied object page.html."},
		{pictures + "&prefix=pixel", "Move or copy", []string{"key", "object:pixel.png", "keep", "yes", "to-folder", "copied"}, "Copied 1 object."},
		{pictures + "&prefix=copied/", "Delete the selected objects", []string{"key", "object:copied/pixel.png"}, "Deleted 1 object."},
	}, changesOfABucket(object), []step{
		{object, "Delete object", []string{"confirm", "page.html"}, "Deleted object page.html."},
		{"buckets/buckets/show?account=main&bucket=pictures", "Set versioning", []string{"versioning", "enabled"}, "Versioning for bucket pictures is enabled."},
		{"", "Set object lock", nil, "Object lock for bucket pictures: enabled, without a default retention."},
		{"buckets/versions/show?account=main&bucket=pictures&object=copy.html&version=null", "Set legal hold", []string{"hold", "off"}, "The legal hold on copy.html is off."},
		{"", "Set retention", []string{"mode", "governance", "for", "1h"}, "copy.html is in governance mode until"},
		{"", "Delete version", []string{"bypass-governance", "yes"}, "Deleted a version of copy.html."},
		{"buckets/keys?account=main", "Create access key", nil, "Secret key"},
		{"buckets/keys/show?account=main&key=" + key, "Change limits", []string{"right", "read"}, "Limits for access key"},
		{"buckets/keys?account=main", "Revoke", nil, "is revoked."},
		{"buckets/accounts", "Create account", []string{"account", "other"}, "Secret key"},
		{"buckets/accounts/show?account=other", "Delete account", []string{"confirm", "other"}, "Deleted account other."},
		{"buckets/quotas", "Set quota", []string{"account", "main", "bytes", "1GiB"}, "1.0 GiB"},
		{"buckets/quotas", "Show quota", []string{"account", "main"}, "1.0 GiB"},
		{"buckets/tokens", "Create token", []string{"account", "main"}, "The token is shown only once."},
		{"buckets/nodes", "Add storage node", []string{"node", "a:new", "url", "file://" + folder}, "Storage node a:new is active"},
		{"", drainLocal, nil, "Drain started."},
		{"", stopDrain, nil, "The job is being stopped."},
		{"", drainLocal, nil, "Drain started."},
		{"buckets/audits", "Start", nil, "Audit started."},
		{"buckets/imports", "Import", []string{"account", "main", "source", "s3://photos", "endpoint", "http://127.0.0.1:1", "access-key", "a", "secret-key", "b"}, "Import started."},
	}, changesOfGuests(), []step{
		{"sessions", "End session 2", nil, "The session has ended."},
		{"sessions", "End all sessions", nil, "Holdfast console"},
	})
}

func changesOfABucket(object string) []step {
	return []step{
		{"buckets/buckets", "Create bucket", []string{"account", "main", "bucket", "extra"}, "Created bucket extra of account main."},
		{"buckets/buckets/show?account=main&bucket=extra", "Set access", []string{"access", "public-read"}, "Bucket extra is public-read."},
		{"", "Set CORS rule", []string{"origins", "*"}, "Set the CORS rule for bucket extra."},
		{"buckets/buckets/show?account=main&bucket=extra", acceptImport, nil, "Accepted what the last import left out of bucket extra."},
		{"buckets/names", "Free", nil, "Freed the name extra: bucket extra of account main is reached as main:extra."},
		{"buckets/lifecycle", "Show rules", []string{"account", "main", "bucket", "extra"}, "Lifecycle rules for bucket extra"},
		{"", "Set rule", []string{"rule", "logs", "prefix", "logs/", "expire-days", "30"}, "Rule logs in bucket extra deletes objects after 30 days."},
		{"buckets/lifecycle/show?account=main&bucket=extra&rule=logs", "Set rule", []string{"expire-days", "40"}, "Rule logs in bucket extra deletes objects after 40 days."},
		{"", "Delete", nil, "Deleted rule logs in bucket extra."},
		{"", "Set rule", []string{"rule", "uploads", "abort-days", "2"}, "Rule uploads in bucket extra aborts incomplete uploads after 2 days."},
		{"", "Delete all rules", nil, "Bucket extra has no lifecycle rules."},
		{"buckets/lifecycle/show?account=main&bucket=extra", "Run now", nil, "Run started."},
		{"buckets/buckets/show?account=main&bucket=extra", "Set versioning", []string{"versioning", "enabled"}, "Versioning for bucket extra is enabled."},
		{object, "Move or copy", []string{"keep", "yes", "to-bucket", "extra", "to", "page.html"}, "Copied object page.html."},
		{object, "Move or copy", []string{"keep", "yes", "replace", "yes", "to-bucket", "extra", "to", "page.html"}, "Copied object page.html."},
		{"buckets/object?account=main&bucket=extra&object=page.html", "Restore", nil, "Restored page.html."},
		{"", "Delete", nil, "Deleted a version of page.html."},
		{"", "Delete", nil, "Deleted a version of page.html."},
		{"", "Delete", nil, "Deleted a version of page.html."},
		{"buckets/policy/show?account=main&bucket=extra", "Set policy", []string{"policy", `{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::extra/*"}}`}, "Set the policy for bucket extra."},
		{"", "Delete policy", nil, "Bucket extra has no policy."},
		{"buckets/policy/show?account=main&bucket=extra", "Block public access", []string{"block", "all"}, "The public access block for bucket extra is all."},
		{"buckets/notifications/show?account=main&bucket=extra", "Set notifications", []string{"notifications", `{"QueueConfigurations": [{"QueueArn": "arn:holdfast:webhook:::hook", "Events": ["s3:ObjectCreated:*"]}]}`}, "Set the notifications for bucket extra."},
		{"", "Delete notifications", nil, "Bucket extra has no notifications."},
		{bucketLetters, "Drop", nil, "1 event deleted."},
		{bucketLetters, "Retry", nil, "1 event queued again."},
		{bucketLetters, "Retry all", nil, "1 event queued again."},
		{bucketLetters, "Drop all", []string{"confirm", "drop all"}, "1 event deleted."},
		{"buckets/buckets/show?account=main&bucket=extra", "Delete bucket", []string{"confirm", "extra"}, "Deleted bucket extra of account main."},
	}
}

func firstKey(s *binary.Server) string {
	_, key, _ := strings.Cut(s.Verb("buckets", "keys", "list", "main", "--json"), `"accessKey":"`)
	key, _, _ = strings.Cut(key, `"`)
	return key
}

func changesOfExtensions() []step {
	const (
		tokens        = "extstorage/tokens?tenant=" + consoleTenant + "&install=" + consoleInstall
		serviceTokens = "extstorage/service-tokens?tenant=" + consoleTenant
		tenantPage    = "extstorage/tenants/show?tenant=" + consoleTenant
		install       = "extstorage/installs/show?tenant=" + consoleTenant + "&install=" + consoleInstall
		records       = "extstorage/records" + consolePlace
		newRecord     = "extstorage/records/create" + consolePlace
		schemas       = "extstorage/schemas" + consolePlace
	)
	return []step{
		{"extstorage/installs", "Register", []string{"tenant", consoleTenant, "install", consoleInstall}, "256.0 MiB"},
		{install, "Change quota", []string{"bytes", "1048576"}, "The quota is 1048576 bytes, "},
		{install, "Open", []string{"namespace", "settings"}, "Records in settings"},
		{newRecord, "Check", []string{"key", "mine", "value", `{"n":1}`}, "Valid, 7 B."},
		{newRecord, "Create", []string{"key", "mine", "value", `{"n":1}`}, "Saved revision 1."},
		{"", "Check", []string{"value", "{"}, "Value, line 1: "},
		{"", "Save", []string{"value", `{"n":2}`}, "Saved revision 2."},
		{"", "Delete record", nil, "Deleted record mine."},
		{newRecord, "Create", []string{"key", "chosen", "value", "1"}, "Saved revision 1."},
		{records + "&prefix=chosen", "Delete the selected records", []string{"key", "1:chosen"}, "Deleted 1 record."},
		{schemas, "Try draft", []string{"document", `{"type":"string"}`}, "Draft trial for settings"},
		{"", "Register draft", nil, "Registered version 1 as a draft."},
		{"", "Activate", nil, "Version 1 is active."},
		{"", "Deprecate", nil, "Version 1 is deprecated."},
		{"", "Register draft", nil, "Registered version 2 as a draft."}, // the newest version cannot be deleted alone
		{"extstorage/schemas/show" + consolePlace + "&version=1", "Delete version", nil, "Deleted schema version 1 for settings."},
		{"", "Register file", []string{"file", `{"type":"number"}`}, "Registered schema version 3 for settings: draft."},
		{"", "Delete all versions", []string{"confirm", "settings"}, "Deleted 2 versions of the schema for settings."},
		{install, "Import", []string{"file", `{"namespace":"settings","key":"imported","value":1}` + "\n" + `{"complete":true,"records":1}`}, "Records: 1, written: 1, "},
		{tokens, "Create token", []string{"namespace", "settings=r"}, "The token is shown only once."},
		{tokens, "Revoke token", []string{"token", "a.b.c"}, "The token is not valid"},
		{tokens, "Revoke", []string{"id", "an-id"}, "Revoked token an-id"},
		{install, "Revoke access", nil, "Access was revoked"},
		{"", "Restore", nil, "The install can be used again."},
		{"", "Delete install", []string{"confirm", consoleInstall}, "Deleted install " + consoleInstall},
		{serviceTokens, "Create token", []string{"service", "runner"}, "The token is shown only once."},
		{serviceTokens, "Revoke", []string{"id", "an-id"}, "Revoked token an-id"},
		{tenantPage, "Delete tenant", []string{"confirm", consoleTenant}, "Deleted tenant " + consoleTenant},
		{"extstorage/usage", "Start the audit", nil, "Audit started."},
		{tenantPage, "Restore", nil, "The tenant can be used again, with new tokens."},
	}
}

// Buttons for which the test prepares the server. A backup that blocks garbage collection makes the drain wait. After a stop, the drain starts again.
const (
	drainLocal = "Drain node local:1"
	stopDrain  = "Stop the drain"

	acceptImport = "Accept what is missing"
)

// bucketLetters is the page with set-aside bucket notifications. Each step handles a notification.
const bucketLetters = "buckets/dead-letters"

func changesOfGuests() []step {
	const tenant = "33333333-4444-4333-8444-555555555555"
	return []step{
		{"guest/sessions", "Show wishlist", []string{"session", "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B"}, "The wishlist is empty."},
		{"guest/dead-letters", "Drop", nil, "1 event deleted."},
		{"guest/dead-letters", "Retry", nil, "1 event queued again."},
		{"guest/dead-letters", "Retry all", nil, " queued again."},
		{"guest/dead-letters", "Drop all", []string{"confirm", "drop all"}, " deleted."},
		{"guest/events", "Replay", []string{"from", "1"}, " queued again; events are kept since "},
		{"guest/tenants", "Suspend", []string{"tenant", tenant, "reason", hostileText}, "Tenant " + tenant + " is suspended."},
		{"", "Reinstate", nil, "Tenant " + tenant + " is reinstated."},
		{"guest/keys", "Add a key", nil, "is verify-only."},
		{"", "Activate", nil, "is active."},
		{"", "Retire", nil, "is retired."},
		{"", "Add and activate a key", nil, "is active."},
		{"", "Revoke", nil, "is retired."},
		{"", "Revoke all keys", []string{"confirm", "revoke all"}, "All keys are revoked; the new key"},
		{"guest/tenant-keys", "Create keys", []string{"tenant", tenant}, " of tenant " + tenant + " is active."},
		{"", "Rotate", nil, "The next key was published less than 20 minutes ago"},
		{"", "Revoke", nil, " of tenant " + tenant + " is retired."},
		{"guest/user-sessions", "End", nil, "1 session ended."},
		{"guest/user-sessions", "Sign out", []string{"user", "u-4711"}, "0 sessions ended."},
		{"guest/tokens", "Create token", []string{"service", "booking"}, "The token is shown only once."},
		{"guest/jobs", "Run", nil, " deleted."},
		{"guest/jobs", "Run all", nil, " deleted"},
		{"guest/sessions", "Show session", []string{"cookie", "x"}, "The cookie is not valid"},
		{"guest/sessions", "Erase", []string{"session", "gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B"}, "Kept events"},
	}
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

// refuseEvents makes three events that the webhook refuses. The relay sets them aside only after the webhook accepts
// other events. Until then the relay treats the webhook as broken and retries after up to a minute.
func (c *consolePages) refuseEvents() {
	c.t.Helper()
	for range 3 {
		c.wish(c.begin(), consoleTenant, 1)
	}
}

// awaitDeadLetter reloads a page until the relay has set an event aside and the button appears.
func (c *consolePages) awaitDeadLetter(page, button string) {
	c.t.Helper()
	const has = `return all('main button[type=submit]').some(b => b.textContent === arguments[0])`
	other, end := c.begin(), time.Now().Add(3*time.Minute)
	for i := 0; !chromium.Run[bool](c.t, c.p, has, button); i++ {
		if time.Now().After(end) {
			c.t.Fatalf("%s: no button %q", page, button)
		}
		if i%5 == 0 && i < 100 {
			c.wish(other, "11111111-2222-4333-8444-555555555555", i)
		}
		time.Sleep(20 * time.Millisecond)
		c.p.Go(c.t, c.base+page)
	}
}

func (c *consolePages) awaitNode() {
	c.t.Helper()
	const isUsed = `return all('main tbody tr').find(r => r.cells[0].textContent === 'a:new').cells[2].textContent !== '-'`
	for !chromium.Run[bool](c.t, c.p, isUsed) {
		c.p.Go(c.t, c.base+"buckets/nodes")
	}
}

func (c *consolePages) awaitStopped() {
	c.t.Helper()
	for text := stopDrain; strings.Contains(text, stopDrain); {
		c.p.Go(c.t, c.base+"buckets/nodes")
		text = chromium.Run[string](c.t, c.p, `return $('main').textContent`)
		if !strings.Contains(text, stopDrain) && !strings.Contains(text, "run the command again to continue") {
			c.t.Errorf("the drain was not stopped:\n%s", text)
		}
	}
}

func (c *consolePages) note(actions []string) {
	for _, action := range actions {
		c.offered[action] = true
	}
}

func (c *consolePages) submit(s step) string {
	c.t.Helper()
	c.p.Await(c.t, func() {
		to := chromium.Run[[]string](c.t, c.p, `
			const [name, fields] = arguments, buttons = all('main button[type=submit]');
			const button = buttons.find(b => b.textContent === name || b.getAttribute('aria-label') === name);
			if (!button) throw new Error('no button ' + name + ' in ' + document.body.textContent);
			for (let d = button.closest('details'); d; d = d.parentElement.closest('details')) if (!d.open) d.querySelector('summary').click();
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
			const to = b => b.getAttribute('formaction') || b.form.getAttribute('action'), offered = buttons.map(to);
			setTimeout(() => button.click()); // the next page must not take the answer away
			return [to(button), ...offered]`, s.button, append([]string{}, s.fields...))
		c.submitted[to[0]] = true
		c.note(to)
	})
	return chromium.Run[string](c.t, c.p, `return $('main').textContent`)
}

// prepare makes the state for a step that no earlier step makes, and goes to the step's page. holds is the database of
// buckets.
func (c *consolePages) prepare(s step, holds string) {
	c.t.Helper()
	if s.page == bucketLetters {
		alter(c.t, holds, `INSERT INTO manta_bucket_event_refused (owner, stream, seq, topic, key, payload, created_at, attempts, reason, refused_at)
			VALUES ('`+consoleTenant+`', '`+consoleInstall+`', 1, 'hook', 'extra/page.html',
			'{"event":"ObjectCreated:Put","rule":"1","owner":"`+consoleTenant+`","bucket":"extra","key":"page.html"}', 1, 1, 'the webhook answered with status 400', 1)`)
	}
	if s.page != "" {
		c.p.Go(c.t, c.base+s.page)
	}
	if s.page == "guest/dead-letters" {
		if s.button == "Drop" { // first step on this page
			c.refuseEvents()
		}
		c.awaitDeadLetter(s.page, s.button)
	}
	switch s.button {
	case acceptImport:
		alter(c.t, holds, `UPDATE manta_bucket_settings SET settings = json_set(settings, '$.import_notes', json('[{"setting":"tags","reason":"a test"}]'))
			WHERE bucket_id = (SELECT id FROM manta_bucket WHERE name = 'extra')`)
		for !strings.Contains(chromium.Run[string](c.t, c.p, `return document.body.textContent`), "tags: a test") { // cached for a second
			c.p.Go(c.t, c.base+s.page)
		}
	case drainLocal:
		c.awaitNode()
	case stopDrain:
		chromium.Run[bool](c.t, c.p, `return !!await until(() => $('.live').textContent.includes('waiting for a backup to end'))`)
	}
}

// makeChanges clicks the buttons for every form action that a page offers.
func (c *consolePages) makeChanges() {
	c.t.Helper()
	consoleCookie(c.t, c.s)
	// The only backup contains the database of a service that the server lacks.
	record := filepath.Join(c.s.Data, "last-backup.json")
	if err := os.WriteFile(record, []byte(`{"at": "2026-01-01T00:00:00Z", "path": "`+c.s.Data+`", "has": ["former.db"]}`), 0o600); err != nil {
		c.t.Fatal(err)
	}
	holds := filepath.Join(c.s.Data, "buckets.db")
	alter(c.t, holds, `INSERT INTO manta_bucket_hold (id, expires) VALUES ('backup', 9000000000000000)`)
	for _, s := range changesOf(filepath.Join(c.s.Data, "new-node"), firstKey(c.s)) {
		if s.page == "alerts" { // later deletions would name the backup
			if err := os.Remove(record); err != nil {
				c.t.Fatal(err)
			}
		}
		c.prepare(s, holds)
		text := c.submit(s)
		for i := 0; i < 20 && strings.Contains(text, "retry later"); i++ { // schema trials can time out
			text = c.submit(s)
		}
		if !strings.Contains(text, s.says) {
			c.t.Fatalf("%s %q %q: no %q in\n%s", s.page, s.button, s.fields, s.says, text)
		}
		if s.button == stopDrain {
			c.awaitStopped()
			alter(c.t, holds, `DELETE FROM manta_bucket_hold`)
		}
	}
	for action := range c.offered {
		if strings.Contains(action, "?do=") && !c.submitted[action] {
			c.t.Errorf("no step submits the form for %s", action)
		}
	}
	// The sign-in is also a form.
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
