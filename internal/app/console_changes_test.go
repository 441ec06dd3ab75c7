package app_test

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/auth/sigv4/sigv4test"
)

const (
	consolePlace    = "?tenant=" + someTenant + "&install=" + someInstall + "&namespace=settings"
	consoleStranger = "0f21e4d0000000000000000000000002"
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

		{"tokenserver/access", "Allow", []string{"account", largeAccount, "note", "a friend"}, "Account " + largeAccount + " may sign in."},
		{"", "Deny", []string{"account", largeAccount}, "Account " + largeAccount + " may not sign in."},
		{"", "Remove from the lists: account " + largeAccount, nil, "Removed account " + largeAccount},
		{"tokenserver/refused", "Allow account " + consoleStranger, nil, "Account " + consoleStranger + " may sign in."},
		{"tokenserver/accounts", "Show account", []string{"account", smallAccount}, "Storage user"},
		{"", "Set label", []string{"label", hostile}, "is labelled"},
		{"", "Set quota", []string{"quota", "1GiB"}, "The quota is set"},
		{"", "Import", []string{"file", "no export\n"}, "Line 1: "},
		{"", "Delete data", []string{"confirm", smallAccount}, "Deleted the data of 1 storage user."},
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
		{pictures, "Upload", []string{"file", "text"}, "Uploaded 1 object."},
		{"buckets/uploads?account=main&bucket=pictures", "Abort", nil, "Aborted the upload of video.mp4."},
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

func changesOfExtensions() []step {
	const (
		tokens        = "extstorage/tokens?tenant=" + someTenant + "&install=" + someInstall
		serviceTokens = "extstorage/service-tokens?tenant=" + someTenant
		tenantPage    = "extstorage/tenants/show?tenant=" + someTenant
		install       = "extstorage/installs/show?tenant=" + someTenant + "&install=" + someInstall
		records       = "extstorage/records" + consolePlace
		newRecord     = "extstorage/records/create" + consolePlace
		schemas       = "extstorage/schemas" + consolePlace
	)
	return []step{
		{"extstorage/installs", "Register", []string{"tenant", someTenant, "install", someInstall}, "256.0 MiB"},
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
		{"", "Delete install", []string{"confirm", someInstall}, "Deleted install " + someInstall},
		{serviceTokens, "Create token", []string{"service", "runner"}, "The token is shown only once."},
		{serviceTokens, "Revoke", []string{"id", "an-id"}, "Revoked token an-id"},
		{tenantPage, "Delete tenant", []string{"confirm", someTenant}, "Deleted tenant " + someTenant},
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
		{"guest/tenants", "Suspend", []string{"tenant", tenant, "reason", hostile}, "Tenant " + tenant + " is suspended."},
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

// changing submits a console's forms.
type changing struct {
	*browser
	data, main string
	offered    map[string]bool // forms that pages showed, by their address
	submitted  map[string]bool
}

// ownForms are forms on pages that services wrote themselves, by the operation that does the same.
var ownForms = map[string]string{
	"/console/buckets/objects?do=put":       "/console/buckets/objects?do=upload",
	"/console/buckets/objects?do=delete":    "/console/buckets/object?do=delete",
	"/console/extstorage/records?do=put":    "/console/extstorage/record?do=save",
	"/console/extstorage/records?do=delete": "/console/extstorage/record?do=delete",
}

// TestConsoleChanges submits every form that a page offers, and the form for every operation that changes something.
func TestConsoleChanges(t *testing.T) {
	t.Parallel()
	sink, _ := newPoisonedSink(t)
	b, text, environ := serveConsole(t, "HOLDFAST_GUEST__EVENTS="+sink, "HOLDFAST_GUEST__EVENT_ATTEMPTS=1", "HOLDFAST_ALERTS__URL="+sink,
		"HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL=http://127.0.0.1:1/", "HOLDFAST_BUCKETS__INLINE=0", "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://127.0.0.1:1")
	data, _ := strings.CutPrefix(environ[0], "HOLDFAST_DATA=")
	c := &changing{browser: b, data: data, main: addressOf(t, text, "clients"), offered: map[string]bool{}, submitted: map[string]bool{}}
	c.fill(environ)
	holds := filepath.Join(c.data, "buckets.db")
	alter(t, holds, `INSERT INTO manta_bucket_hold (id, expires) VALUES ('backup', 9000000000000000)`)
	// The only backup contains a database whose service this server lacks.
	record := filepath.Join(c.data, "last-backup.json")
	if err := os.WriteFile(record, []byte(`{"at": "2026-01-01T00:00:00Z", "path": "`+filepath.ToSlash(c.data)+`", "has": ["former.db"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open("buckets/keys?account=main")
	key := b.page.all("tbody")[0].all("td")[0].String()
	for _, s := range changesOf(filepath.ToSlash(filepath.Join(c.data, "new-node")), key) {
		if s.page == "alerts" { // later deletions would name the backup
			if err := os.Remove(record); err != nil {
				t.Fatal(err)
			}
		}
		c.prepare(s, holds)
		if c.step(s); s.button == stopDrain {
			c.awaitStopped()
			alter(t, holds, `DELETE FROM manta_bucket_hold`)
		}
	}
	for _, s := range allDeclared() {
		section := "/console/"
		if s.command != "" {
			section += s.folder + "/"
		}
		for i := range s.all {
			if o := &s.all[i]; o.Kind.Changes() && !o.ServerOnly {
				c.offered[section+o.Noun()+"?do="+o.Verb()] = true
			}
		}
	}
	for operation, own := range ownForms {
		c.submitted[operation] = c.submitted[own]
	}
	for action := range c.offered {
		// Only a message broker sets audit events aside. Guests and buckets have the same forms.
		if !c.submitted[action] && !strings.HasPrefix(action, "/console/extstorage/dead-letters?") {
			t.Errorf("no step submits the form for %s", action)
		}
	}
}

// fill stores the things that the steps change.
func (c *changing) fill(environ []string) {
	c.t.Helper()
	c.importAccounts(environ)
	alter(c.t, filepath.Join(c.data, "tokenserver.db"), `INSERT INTO refused_sign_ins VALUES ('`+consoleStranger+`', 1, unixepoch() * 1000, 1)`)
	alter(c.t, filepath.Join(c.data, "guest.db"), `INSERT INTO bff_consumer_user_sessions (session_id, user_id, list_id, linked_at, seen_at)
		VALUES ('gus_01J8ZQ4Y7N5M3K2H1G0F9E8D7B', 'u-1', 'gms_01J8ZQ4Y7N5M3K2H1G0F9E8D7B', unixepoch() * 1000000, unixepoch() * 1000000)`) // sweeps delete older rows
	c.open("buckets/keys?account=main")
	c.submit("Create access key", "right", "")
	shown := c.page.all("pre")
	signer := sigv4test.Signer{AccessKeyID: shown[2].String(), Secret: shown[3].String(), Region: "us-east-1"}
	put(c.t, signer, shown[1].String()+"/pictures", "")
	for _, name := range []string{"pixel.png", "page.html"} {
		put(c.t, signer, shown[1].String()+"/pictures/"+name, "body of "+name)
	}
	signed(c.t, signer, http.MethodPost, shown[1].String()+"/pictures/video.mp4?uploads=", "")
}

// alter runs a statement beside the server.
func alter(t *testing.T, path, statement string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	c.SetBlockOnBusy()
	err = sqlitex.ExecuteTransient(c, statement, nil)
	if err = cmp.Or(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

// prepare makes the state for a step that no earlier step makes, and opens the step's page. holds is the buckets
// database.
func (c *changing) prepare(s step, holds string) {
	c.t.Helper()
	if s.page == bucketLetters {
		alter(c.t, holds, `INSERT INTO manta_bucket_event_refused (owner, stream, seq, topic, key, payload, created_at, attempts, reason, refused_at)
			VALUES ('`+someTenant+`', '`+someInstall+`', 1, 'hook', 'extra/page.html',
			'{"event":"ObjectCreated:Put","rule":"1","owner":"`+someTenant+`","bucket":"extra","key":"page.html"}', 1, 1, 'the webhook answered with status 400', 1)`)
	}
	if s.page != "" {
		c.open(s.page)
	}
	switch {
	case s.page == "guest/dead-letters" && c.form(s.button) == nil:
		newVisitor(c.t, c.main).wish(1, poison)
		c.awaitDead(c.main, 1)
	case s.button == acceptImport:
		alter(c.t, holds, `UPDATE manta_bucket_settings SET settings = json_set(settings, '$.import_notes', json('[{"setting":"tags","reason":"a test"}]'))
			WHERE bucket_id = (SELECT id FROM manta_bucket WHERE name = 'extra')`)
		c.await(s.page, "tags: a test") // cached for a second
	case s.button == drainLocal:
		c.awaitNode()
	case s.button == stopDrain:
		c.await("buckets/nodes", "waiting for a backup to end")
	}
}

// awaitNode waits until the server uses the new node.
func (c *changing) awaitNode() {
	c.t.Helper()
	c.awaitPage("buckets/nodes", "no used node a:new", func() bool {
		return slices.ContainsFunc(c.page.all("tbody")[0].all("tr"), func(row *element) bool {
			cells := row.all("td")
			return cells[0].String() == "a:new" && cells[2].String() != "-"
		})
	})
}

// awaitStopped waits until the drain has ended.
func (c *changing) awaitStopped() {
	c.t.Helper()
	c.awaitPage("buckets/nodes", "no end of the drain", func() bool { return c.form(stopDrain) == nil })
	c.shows("run the command again to continue")
}

// note records the page's forms before or after a step. While a background job runs, a page also offers to stop it; except
// for the drain, which the test makes wait and stops, note waits until the job has ended.
func (c *changing) note(s step) {
	c.t.Helper()
	stops := func() bool {
		return slices.ContainsFunc(c.actions(), func(to string) bool { return strings.HasSuffix(to, "/runs?do=stop") && !c.submitted[to] })
	}
	if s.button != drainLocal && s.button != stopDrain && stops() {
		c.awaitPage(strings.TrimPrefix(c.at, c.base+"/console/"), "no end of a background job", func() bool { return !stops() })
	}
	for _, to := range c.actions() {
		c.offered[to] = true
	}
}

// actions returns the addresses of the page's forms that change something, except those in the menu.
func (c *changing) actions() (all []string) {
	for _, main := range c.page.all("main") {
		for _, f := range main.all("form") {
			for _, button := range f.all("button") {
				if to := cmp.Or(button.attrs["formaction"], f.attrs["action"]); strings.Contains(to, "?do=") {
					all = append(all, to)
				}
			}
		}
	}
	return all
}

// step submits a form as a browser does: a file is sent with the form, and the chosen row must be in the table.
func (c *changing) step(s step) {
	c.t.Helper()
	c.note(s)
	inMain := browser{page: c.page.all("main")[0]} // the menu has forms, too
	f := inMain.form(s.button)
	if f == nil {
		c.t.Fatalf("%s: no button %q in\n%s", c.at, s.button, c.page)
	}
	var values, files []string
	row := ""
	for i := 0; i < len(s.fields); i += 2 {
		switch name := s.fields[i]; {
		case name == "file":
			files = []string{"chosen.ndjson", s.fields[i+1]}
		case name == "key" && slices.ContainsFunc(c.page.all("input"), func(e *element) bool { return e.attrs["name"] == "key" && e.attrs["value"] == s.fields[i+1] }):
			row = s.fields[i+1]
		default:
			values = append(values, name, s.fields[i+1])
		}
	}
	sent := c.browser.fill(f, values...)
	if row != "" {
		sent.Set("key", row)
	}
	c.submitted[f.attrs["action"]] = true
	if f.attrs["enctype"] == "multipart/form-data" {
		sent.Del("file")
		c.sendFiles(f, sent, files...)
	} else {
		c.post(f, sent)
	}
	if !strings.Contains(c.page.String(), s.says) {
		c.t.Fatalf("%s %q %q: no %q in\n%s", s.page, s.button, s.fields, s.says, c.page)
	}
	if c.note(s); s.button == "End all sessions" && !strings.Contains(c.at, "/console/sign-in") {
		c.t.Errorf("after %s: %s", s.button, c.at)
	}
}
