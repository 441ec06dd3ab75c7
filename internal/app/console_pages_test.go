package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pages "holdfast/internal/operate/console"
	"holdfast/internal/testdb"
)

const hostile = `"><script>alert(1)<img src=x onerror=alert(2)>'`

// TestConsolePages shares a server among all subtests.
func TestConsolePages(t *testing.T) {
	t.Parallel()
	consolePages(t)
}

func TestConsolePagesOnServers(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "TestConsolePages has shown it on SQLite")
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		consolePages(t, onDatabase(testdb.PostgresDatabase(t))...)
	})
	t.Run("Citus", func(t *testing.T) {
		t.Parallel()
		consolePages(t, onDatabase(testdb.CitusDatabase(t))...)
	})
}

func onDatabase(url string) (settings []string) {
	for _, name := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "BUCKETS", "GUEST"} {
		settings = append(settings, "HOLDFAST_"+name+"__DATABASE_URL="+url)
	}
	return settings
}

func consolePages(t *testing.T, settings ...string) {
	t.Helper()
	sink, accepts := newPoisonedSink(t)
	// Checks of a running server query the accounts server.
	settings = append(settings, "HOLDFAST_GUEST__EVENTS="+sink, "HOLDFAST_GUEST__EVENT_ATTEMPTS=1", "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://127.0.0.1:1")
	b, text, environ := serveConsole(t, settings...)
	t.Run("server", func(t *testing.T) { consoleServer(b.in(t), environ) })
	t.Run("extension storage", func(t *testing.T) { consoleExtensions(b.in(t)) })
	t.Run("accounts", func(t *testing.T) { consoleAccounts(b.in(t), environ) })
	t.Run("guests", func(t *testing.T) { consoleGuests(b.in(t), addressOf(t, text, "clients"), accepts) })
	t.Run("buckets", func(t *testing.T) { consoleBuckets(b.in(t)) })
	t.Run("search", func(t *testing.T) { consoleSearch(b.in(t)) })
	t.Run("problems", func(t *testing.T) { consoleProblems(b.in(t)) })
	t.Run("viewer", func(t *testing.T) { consoleViewer(b.viewer.in(t)) })
	t.Run("links", func(t *testing.T) { consoleLinks(b.in(t)) })
}

func consoleLinks(b *browser) {
	b.open("buckets/quotas")
	b.try(http.StatusOK, "Bytes", "Show quota", "account", "main")
	b.open("tokenserver/users")
	b.try(http.StatusOK, "Download the file", "Export", "uid", "1")
	b.open("syncstorage/comparisons")
	b.submit("Compare now")
	b.open("syncstorage/runs")
	b.open("extstorage/usage")
	b.submit("Start the audit")
	b.open("extstorage/runs")
	b.open("buckets/runs")
	// Only a message broker creates dead letters in the audit, and buckets have no destination. The same link is tested
	// for guests.
	b.linked["/console/extstorage/dead-letters/show"], b.linked["/console/buckets/dead-letters/show"] = true, true
	b.linked["/console/backup/show"] = true
	// Events usually leave the outbox before its page is opened. TestConsoleShowsEvent finds the link to an event that stays.
	b.linked["/console/guest/outbox/show"] = true
	seen := 0
	for _, s := range allDeclared() {
		prefix := "/console/"
		if s.command != "" {
			prefix += s.folder + "/"
		}
		for _, p := range pages.Pages(nil, s.all) {
			if seen++; !b.linked[prefix+p.Path] {
				b.t.Errorf("no page links to %s%s", prefix, p.Path)
			}
		}
	}
	if seen < 40 {
		b.t.Errorf("there are only %d pages", seen)
	}
}

// consoleProblems checks that error pages keep the navigation and link to other pages.
func consoleProblems(b *browser) {
	const missing = "?account=missing&bucket=missing&object=missing&node=missing&session=missing&event=missing&key=missing&uid=987654&id=missing&path=missing&run=987654&name=missing" +
		"&tenant=99999999-2222-4333-8444-555555555555&install=99999999-2222-4333-8444-555555555555&namespace=missing&version=987"
	paths := slices.Sorted(maps.Keys(b.linked))
	for _, section := range []string{"", "syncstorage/", "tokenserver/", "extstorage/", "buckets/", "guest/"} {
		paths = append(paths, "/console/"+section+"nothing", "/console/"+section+"nothing/show")
	}
	failed, exist := map[int]int{}, map[string]bool{}
	for _, path := range paths {
		if strings.HasPrefix(path, "/console/sign") || !strings.HasPrefix(path, "/console/") {
			continue
		}
		for _, values := range []string{"", missing} {
			status := b.send(http.MethodGet, b.base+path+values, nil)
			if strings.Contains(path, "/nothing") && status != http.StatusNotFound || status >= http.StatusInternalServerError {
				b.t.Errorf("%s%s: %d\n%s", path, values, status, b.page)
			}
			if status < http.StatusBadRequest {
				continue
			}
			failed[status]++
			b.isProblem(exist)
		}
	}
	if failed[http.StatusNotFound] < 20 || failed[http.StatusBadRequest] < 10 {
		b.t.Errorf("the errors are %v", failed)
	}
	b.send(http.MethodGet, b.base+"/console/buckets/accounts/show?account=missing", nil)
	b.shows("Choose it from a list")
	if current := b.page.all("nav")[0].all("a"); !slices.ContainsFunc(current, func(a *element) bool { return a.attrs["aria-current"] == "page" && a.String() == "Accounts" }) {
		b.t.Errorf("the navigation does not say where a missing account is:\n%s", b.raw)
	}
}

// isProblem checks an error page. exist caches which pages exist.
func (b *browser) isProblem(exist map[string]bool) {
	b.t.Helper()
	isAlert := func(e *element) bool { return e.attrs["role"] == "alert" && strings.HasSuffix(e.String(), ".") }
	navs, main := b.page.all("nav"), b.page.all("main")[0]
	if len(navs) != 2 || navs[1].attrs["aria-label"] != "Breadcrumb" || len(navs[0].all("a")) < 20 || !slices.ContainsFunc(main.all("p"), isAlert) {
		b.t.Errorf("%s: the page of an error has no navigation or message:\n%s", b.at, b.raw)
	}
	links := main.all("ul")[0].all("a")
	if len(links) < 2 {
		b.t.Errorf("%s: the page of an error has no links:\n%s", b.at, b.raw)
	}
	for _, a := range links {
		to, other := a.attrs["href"], *b
		if exist[to] = exist[to] || other.send(http.MethodGet, b.base+to, nil) == http.StatusOK; !exist[to] {
			b.t.Errorf("%s leads to %s, which does not exist", b.at, to)
		}
	}
}

func (b *browser) in(t *testing.T) *browser {
	part := *b
	part.t = t
	if b.viewer != nil {
		part.viewer = b.viewer.in(t)
	}
	return &part
}

func consoleServer(b *browser, environ []string) {
	b.open("checks")
	b.shows("extstorage database", "buckets nodes", "accounts server", "no answer from http://127.0.0.1:1", "guest hot state")
	b.open("sweeps")
	b.shows("expired records and batches", "5m")
	b.submit("Sweep now: sweep deleted buckets")
	b.shows("Sweep started.")
	b.open("runs")
	b.shows("sweeps/run")
	b.open("")
	b.shows("no sign-ins yet", "Database size", "no answer from http://127.0.0.1:1", "Let the server reach it") // a sweep may precede the creation of a database server's tables
	kinds := b.page.all("tbody")[0].all("tr")[0].all("td")
	if engine, size := kinds[1].String(), kinds[3].String(); engine == "sqlite" {
		b.shows("holdfast backup makes one")
		dir := filepath.Join(b.t.TempDir(), "backup")
		runCommand(b.t, environ, "backup", dir)
		b.open("")
		b.shows("0 minutes ago", "in "+dir)
	} else if size == "-" {
		b.t.Errorf("the size of the database is unknown:\n%s", b.page)
	}
	b.consoleReadOnly()
	b.viewer.open("checks")
	b.viewer.open("sweeps")
	b.viewer.open("")
}

func (b *browser) consoleReadOnly() {
	b.open("read-only")
	b.submit("Stop writes: service extstorage")
	b.shows("Extstorage is read-only.", "read-only, by an operator")
	if b.form("Stop writes: service extstorage") != nil {
		b.t.Errorf("a service that is read-only can be made read-only:\n%s", b.page)
	}
	b.viewer.open("read-only")
	b.open("")
	b.shows("read-only, by an operator")
	b.open("extstorage/records/create?namespace=settings&install=" + someInstall + "&tenant=" + someTenant)
	b.try(http.StatusServiceUnavailable, "Extstorage is read-only, by an operator", "Create", "key", "k", "value", `"typed"`)
	b.shows(`"typed"`)
	b.open("read-only")
	b.submit("Accept writes: service extstorage")
	b.shows("Extstorage accepts writes again.")
	b.hides("an operator")
	b.try(http.StatusNotFound, "No such service", "Stop writes: service extstorage", "service", "nothing")
}

// consoleViewer checks that no page in the navigation offers changes to a viewer.
func consoleViewer(b *browser) {
	b.open("")
	var links []string
	for _, a := range b.page.all("nav")[0].all("a") {
		links = append(links, strings.TrimPrefix(a.attrs["href"], "/console/"))
	}
	if len(links) < 8 {
		b.t.Errorf("the navigation has %q", links)
	}
	for _, path := range links {
		b.open(path)
		for _, f := range b.page.all("form") {
			_, do, _ := strings.Cut(f.attrs["action"], "?do=")
			if f.attrs["method"] == "post" && f.attrs["action"] != "/console/sign-out" && !slices.Contains([]string{"find", "show", "export", "open"}, do) {
				b.t.Errorf("%s: a viewer sees the form %s", path, f.attrs["action"])
			}
		}
	}
}

const (
	someTenant  = "11111111-2222-4333-8444-555555555555"
	someInstall = "aaaaaaaa-2222-4333-8444-555555555555"
)

func consoleExtensions(b *browser) {
	b.open("extstorage/installs")
	b.shows("There are no installs.")
	b.try(http.StatusBadRequest, "Tenant: must be a UUID", "Register", "tenant", hostile, "install", someInstall)
	b.try(http.StatusBadRequest, "Bytes: must be at least 1", "Register", "tenant", someTenant, "install", someInstall, "bytes", "0")
	b.submit("Register", "tenant", someTenant, "install", someInstall, "bytes", "")
	b.shows("registered", "256.0 MiB, 32 namespaces")
	install := "extstorage/installs/show?install=" + someInstall + "&tenant=" + someTenant
	b.open(install)
	b.shows("There are no records.")
	b.try(http.StatusBadRequest, "Namespace: must be 1 to 64", "Open", "namespace", "UPPER")
	b.try(http.StatusOK, "Records in settings", "Open", "namespace", "settings")

	b.follow("Create a record")
	b.try(http.StatusBadRequest, "Value, line 1: ", "Create", "key", "k", "value", "{")
	if f := b.form("Create"); b.fill(f).Get("value") != "{" {
		b.t.Error("the form has lost what was typed")
	}
	b.submit("Create", "key", hostile, "value", `{"note":"`+strings.ReplaceAll(hostile, `"`, `\"`)+`"}`, "metadata", `{"n":1.50}`, "ttl", "86400")
	b.shows("Saved revision 1.", hostile, `"n": 1.5`)
	b.try(http.StatusBadRequest, "Metadata, line 1: must be a JSON object", "Save", "metadata", "[]")
	b.try(http.StatusBadRequest, "expected a whole number", "Save", "metadata", "", "ttl", "soon")
	old := *b
	b.submit("Save", "value", `{"note":2}`, "ttl", "86400")
	b.shows("Saved revision 2.", `"note": 2`)
	if f := b.fill(b.form("Save")); f.Get("ttl") == "" {
		b.t.Error("the record lost its expiry")
	}
	old.try(http.StatusConflict, "Nothing was saved", "Save", "value", `"typed"`, "ttl", "")
	old.shows("Save your draft all the same", `"typed"`)
	old.follow("Show the record as it is now")
	old.shows(`"note": 2`)
	b.open(strings.TrimPrefix(b.at, b.base+"/console/")) // the old form contains a former revision
	b.follow("settings")
	b.follow("Create a record")
	b.submit("Create", "key", "kept", "value", "1")
	b.follow("settings")
	b.shows(hostile, "kept")
	b.follow("Create a record")
	b.try(http.StatusConflict, "Nothing was saved", "Create", "key", "kept", "value", "2")
	b.open(install)
	b.follow("settings")
	b.try(http.StatusOK, "kept", "Search", "prefix", "ke")
	b.hides(hostile)
	b.try(http.StatusOK, hostile, "Search", "prefix", hostile[:2])
	b.follow(hostile)
	b.submit("Delete record")
	b.shows("Deleted record " + hostile)
	b.open(install)
	b.follow("Install changes")
	b.shows("Latest change4", "delete", hostile, "kept")
	if rows := b.page.all("tbody")[0].all("tr"); len(rows) != 4 || rows[0].all("td")[2].String() != "delete" || rows[3].all("td")[2].String() != "put" {
		b.t.Errorf("the feed has %d rows:\n%s", len(rows), b.page)
	}
	b.follow("Load again")
	b.consolePagesOfRecords(install)
	b.open(install)
	b.follow("Install changes")
	if rows := b.page.all("tbody")[0].all("tr"); len(rows) != 100 || rows[0].all("td")[0].String() != "105" {
		b.t.Errorf("the feed has %d rows", len(rows))
	}
	b.consoleSchemas(install)
	b.consoleTokens(install)
}

// leadsTo follows a link by its path, because the navigation may contain the same text.
func (b *browser) leadsTo(path string) {
	b.t.Helper()
	isLink := func(a *element) bool { return a.attrs["href"] == "/console/"+path }
	if !slices.ContainsFunc(b.page.all("a"), isLink) {
		b.t.Errorf("no link to %s in\n%s", path, b.page)
	}
	b.open(path)
}

func (b *browser) consolePagesOfRecords(install string) {
	var lines strings.Builder
	for i := range 101 {
		fmt.Fprintf(&lines, `{"namespace":"many","key":"key-%s%d","value":true}`+"\n", strings.Repeat("x", i%7), i)
	}
	lines.WriteString(`{"complete":true,"records":101}`)
	b.open(install)
	b.upload(http.StatusOK, "Records: 101, written: 101, ", "Import", b.fill(b.form("Import")), "many.ndjson", lines.String())
	b.open(install)
	b.follow("many")
	b.follow("Next page")
	if rows := b.page.all("tbody")[0].all("tr"); len(rows) != 1 {
		b.t.Errorf("the second page has %d rows", len(rows))
	}
	b.follow("First page")
	if rows := b.page.all("tbody")[0].all("tr"); len(rows) != 100 {
		b.t.Errorf("the first page has %d rows", len(rows))
	}
}

func (b *browser) consoleSchemas(install string) {
	b.open(install)
	b.follow("settings")
	b.follow("Schemas for settings")
	b.try(http.StatusBadRequest, "/type: ", "Register draft", "document", `{"type":"nothing"}`)
	b.try(http.StatusBadRequest, "/schema/type: ", "Try draft", "document", `{"type":"nothing"}`)
	if f := b.form("Register draft"); b.fill(f).Get("document") != `{"type":"nothing"}` {
		b.t.Error("the form has lost what was typed")
	}
	b.try(http.StatusOK, "Draft trial for settings", "Try draft", "document", `{"type":"integer"}`)
	b.shows("none: every JSON value is valid", "All these records are valid.")
	b.try(http.StatusOK, "must be of type string", "Try draft", "document", `{"type":"string"}`)
	b.viewer.open("extstorage/schemas?install=" + someInstall + "&namespace=settings&tenant=" + someTenant)
	b.viewer.shows("There are no schemas")
	b.viewer.try(http.StatusOK, "must be of type string", "Try draft", "document", `{"type":"string"}`)
	if b.viewer.form("Register draft") != nil {
		b.t.Error("a viewer may register")
	}
	b.submit("Register draft", "document", `{"type":"integer","title":`+`"`+strings.ReplaceAll(hostile, `"`, `\"`)+`"}`)
	b.shows("Registered version 1 as a draft.", `"type": "integer"`)
	b.follow("Check for schema version")
	b.shows("Check for schema version 1", "none: every JSON value is valid", "There are no differences.", "All these records are valid.")
	b.submit("Activate")
	b.shows("Version 1 is active.")
	b.follow("Schema version")
	b.try(http.StatusBadRequest, "/type: ", "Register draft", "document", `{"type":"nothing"}`)
	b.shows("Schema version 1 for settings") // the form with the typed values
	if f := b.form("Register draft"); b.fill(f).Get("document") != `{"type":"nothing"}` {
		b.t.Error("the form has lost what was typed")
	}
	b.submit("Register draft", "document", `{"type":"string"}`)
	b.follow("Check for schema version")
	b.shows("breaking", "version 1", "must be of type string")
	b.leadsTo("extstorage/record?install=" + someInstall + "&key=kept&namespace=settings&tenant=" + someTenant + "&version=2")
	b.open("extstorage/schemas?install=" + someInstall + "&namespace=settings&tenant=" + someTenant)
	b.try(http.StatusOK, "harmless", "Try draft", "document", `{"type":["integer","string"]}`)
	b.shows("string is now allowed", "version 1")
	b.open("extstorage/schemas/show?install=" + someInstall + "&namespace=settings&tenant=" + someTenant + "&version=2")
	b.viewer.open("extstorage/schemas/check?install=" + someInstall + "&namespace=settings&tenant=" + someTenant + "&version=2")
	b.viewer.shows("breaking")
	b.submit("Activate")
	b.submit("Deprecate")
	b.shows("Version 2 is deprecated.")
	version := func(n string) {
		b.open("extstorage/schemas/show?install=" + someInstall + "&namespace=settings&tenant=" + someTenant + "&version=" + n)
	}
	version("1")
	b.submit("Delete version")
	b.shows("Deleted schema version 1 for settings.")
	if rows := b.page.all("tbody")[0].all("tr"); len(rows) != 1 || rows[0].all("td")[0].String() != "2" {
		b.t.Errorf("the versions are\n%s", b.page)
	}
	version("2")
	b.try(http.StatusConflict, "or delete all", "Delete version")
	b.follow("Schemas for settings")
	b.try(http.StatusBadRequest, "Nothing was changed: type settings", "Delete all versions", "confirm", "no")
	b.submit("Delete all versions", "confirm", "settings")
	b.shows("Deleted 1 version of the schema for settings.", "There are no schemas")
}

func (b *browser) consoleTokens(install string) {
	b.open(install)
	b.leadsTo("extstorage/tokens?install=" + someInstall + "&tenant=" + someTenant)
	b.shows("Tokens of install "+someInstall, "No token is revoked.")
	tokens := strings.TrimPrefix(b.at, b.base+"/console/")
	b.try(http.StatusBadRequest, "at least one", "Create token", "namespace", " ")
	b.try(http.StatusBadRequest, "expected settings=r", "Create token", "namespace", "settings")
	b.submit("Create token", "namespace", "settings=rw log=r", "ttl", "24h")
	b.shows("The token is shown only once.")
	token := b.page.all("pre")[0].String()
	if strings.Count(token, ".") != 2 || b.page.all("main")[0].all("button")[0].attrs["data-copy"] != b.page.all("pre")[0].attrs["id"] {
		b.t.Errorf("the token is %q", token)
	}
	if codes := b.page.all("main")[0].all("svg"); len(codes) == 0 || codes[len(codes)-1].attrs["aria-label"] != "The token as a QR code" || len(codes[len(codes)-1].all("path")[0].attrs["d"]) < 1000 {
		b.t.Errorf("the token has no QR code in\n%s", b.raw)
	}
	b.open(tokens)
	b.hides(token)
	b.try(http.StatusBadRequest, "not valid", "Revoke token", "token", "a.b.c")
	b.submit("Revoke token", "token", token)
	b.shows("Revoked token ")
	b.submit("Revoke", "id", hostile)
	b.shows("Revoked token " + hostile + "; it expires at ")

	b.open(install)
	b.submit("Revoke access")
	b.shows("Access was revoked")
	b.submit("Restore")
	b.shows("The install can be used again.")
	b.hides("Access was revoked")

	b.open("extstorage/tenants")
	b.follow(someTenant)
	b.leadsTo("extstorage/installs?tenant=" + someTenant)
	b.shows(someInstall)
	b.follow(someTenant)
	b.leadsTo("extstorage/service-tokens?tenant=" + someTenant)
	services := strings.TrimPrefix(b.at, b.base+"/console/")
	b.try(http.StatusBadRequest, "expected 1 to 64", "Create token", "service", hostile)
	b.submit("Create token", "service", "runner", "schemas", "yes")
	service := b.page.all("pre")[0].String()
	b.open(tokens)
	b.submit("Revoke token", "token", service)
	b.open(services)
	b.hides("No token is revoked.")
	b.submit("Revoke", "id", hostile)
	b.shows(hostile)
	b.open(install)

	b.try(http.StatusBadRequest, "Nothing was changed: type "+someInstall, "Delete install", "confirm", "no")
	b.submit("Delete install", "confirm", someInstall)
	b.shows("with 102 records, ", "The install was deleted at")
	b.submit("Restore")
	b.open("changes")
	b.shows("id="+hostile, "namespace=settings=rw log=r, ttl=24h, id=")
	b.open("extstorage/installs")
	b.try(http.StatusBadRequest, "Tenant: must be a UUID", "Search", "tenant", hostile)
	b.open("extstorage/installs")
	b.try(http.StatusOK, someInstall, "Search", "tenant", someTenant)
	b.open("extstorage/tenants/show?tenant=" + someTenant)
	b.submit("Delete tenant", "confirm", someTenant)
	b.shows("The tenant was deleted at")
	b.submit("Restore")
	b.shows("The tenant can be used again, with new tokens.")
}
