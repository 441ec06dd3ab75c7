package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/cli"
	"holdfast/internal/engines/all"
	"holdfast/internal/testdb"
)

// oddKeys are object keys that a shell, a terminal, a path, a query, HTML, XML or a database could change. S3 takes any UTF-8
// of up to 1,024 bytes but U+0000.
var oddKeys = []string{
	"a/b", "/", "//", "/lead", "trail/", "a//b", ".", "..", "../up", "a/../b", "a/./b", "%", "%2F", "%00", "%zz", "?q=1", "#top", "+", " ", " a", "a ", "a b", "&amp;", "a&b=c", ";", ",", "=",
	`"`, "'", "`", `\`, `C:\x`, "-rf", "--json", "--", "-", "*", "[a]", "{x}", "$(x)", "|", "~", "^", ":", "@", "main:photos", "null", "0", "1e3", "<script>alert(1)</script>", `"><b>`, "]]>", "<!--", "{{.}}",
	"é", "e\u0301", "😀", "👩\u200d🚀", "שלום", "\u202e", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\u00a0", "\u2028",
	"\x01", "\t", "\n", "\r", "\r\n", "a\nb", "\x1b[31m", "\x7f", "\u0085", "\u009b31m", strings.Repeat("k", 1024), strings.Repeat("/", 1024), strings.Repeat("😀", 256), strings.Repeat("&", 1024),
}

// commands runs commands in the test's process.
type commands struct {
	t       *testing.T
	environ []string
}

// served returns a former server's environment.
func served(t *testing.T, settings ...string) (environ []string) {
	t.Helper()
	data := t.TempDir()
	environ = append([]string{"HOLDFAST_DATA=" + data, "HOLDFAST_LOG__LEVEL=error"}, settings...)
	cfg, _, err := app.Load(onAllEngines(), "", environ)
	if err != nil {
		t.Fatal(err)
	}
	server, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: app.ModeServeMigrating})
	if err == nil {
		err = server.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return environ
}

// run returns standard output. No command prints a character that could act on a terminal, except a file's contents.
func (c commands) run(stdin string, args ...string) string {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	if status := cli.Run(c.t.Context(), cli.Env{Args: args, Environ: c.environ, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Engines: all.Engines()}); status != 0 {
		c.t.Fatalf("%q: %d %s %s", args, status, &stdout, &stderr)
	}
	for _, out := range []string{stdout.String(), stderr.String()} {
		if service.PrintableLines(out) != out && !slices.Contains(args, "get") {
			c.t.Errorf("%q prints a control character: %q", args, out)
		}
	}
	return stdout.String()
}

// objects lists a bucket's keys.
func (c commands) objects(noun string) (all []string) {
	c.t.Helper()
	for line := range strings.Lines(c.run("", "buckets", noun, "list", "main", "photos", "--json")) {
		var row struct{ Object string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, row.Object)
	}
	return all
}

// TestOddObjectKeysByCommand walks keys through the commands, and through copies between the engines.
func TestOddObjectKeysByCommand(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "400 commands take seconds")
	want := slices.Sorted(slices.Values(oddKeys))
	environ := served(t)
	c := commands{t, environ}
	c.run("", "buckets", "accounts", "create", "main")
	c.run("", "buckets", "buckets", "create", "main", "photos")
	for _, key := range oddKeys {
		c.run("body of "+key, "buckets", "objects", "put", "main", "photos", "--", key)
	}
	check := func(on string) {
		t.Helper()
		for _, noun := range []string{"objects", "versions"} {
			if got := c.objects(noun); !slices.Equal(got, want) {
				t.Errorf("%s: %s are %q\nwant %q", on, noun, got, want)
			}
			if table := c.run("", "buckets", noun, "list", "main", "photos"); strings.Count(table, "\n") != len(want)+1 {
				t.Errorf("%s: the table has not a line for each of %d %s:\n%s", on, len(want), noun, table)
			}
		}
	}
	for _, url := range []string{testdb.PostgresDatabase(t), sqliteURL(t)} {
		c.run("", "copy", "buckets", "--to", url)
		c.environ = append(slices.Clone(environ), "HOLDFAST_BUCKETS__DATABASE_URL="+url)
		check(url)
	}
	for _, key := range want { // deleting another key would fail, or leave this one
		if got := c.run("", "buckets", "objects", "get", "main", "photos", "--", key); got != "body of "+key {
			t.Errorf("%q has the body %q", key, got)
		}
		c.run("", "buckets", "objects", "delete", "main", "photos", "--", key)
	}
	if got := c.objects("objects"); len(got) > 0 {
		t.Errorf("not deleted: %q", got)
	}
}

// TestOddObjectKeysInConsole walks keys through S3 and the console's pages, links and forms. Deleting a key must not
// delete another one, e.g. because browsers send CR as CR LF.
func TestOddObjectKeysInConsole(t *testing.T) {
	t.Parallel()
	b, text, environ := serveConsole(t)
	c := commands{t, environ}
	c.run("", "buckets", "buckets", "create", "main", "photos")
	var key struct{ AccessKey, SecretKey string }
	if err := json.Unmarshal([]byte(c.run("", "buckets", "keys", "create", "main", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	signer := sigv4test.Signer{AccessKeyID: key.AccessKey, Secret: key.SecretKey, Region: "us-east-1"}
	for _, key := range oddKeys {
		put(t, signer, addressOf(t, text, "s3")+"/photos/"+url.PathEscape(key), "body of "+key)
	}
	want := slices.Sorted(slices.Values(oddKeys))
	if got := c.objects("objects"); !slices.Equal(got, want) {
		t.Fatalf("stored %q\nwant %q", got, want)
	}
	page := func(key string) string {
		return "buckets/object?" + url.Values{"account": {"main"}, "bucket": {"photos"}, "object": {key}}.Encode()
	}
	for _, key := range want {
		b.open(page(key))
		if b.form("Delete object") == nil {
			t.Fatalf("%q has no form:\n%s", key, b.page)
		}
		shown := *b
		b.follow("Download")
		if b.raw != "body of "+key {
			t.Errorf("the download of %q is %q", key, b.raw)
		}
		f := shown.form("Delete object")
		sent := shown.fill(f)
		confirm, escaped := sent.Get("confirm-with"), sent.Get("*confirm-with")
		if escaped != "" {
			confirm, _ = url.QueryUnescape(escaped)
		}
		sent.Set("confirm", service.Printable(confirm)) // as the page asks for
		if status := shown.post(f, sent); status != http.StatusOK {
			t.Errorf("the deletion of %q: %d %s", key, status, shown.page)
		}
	}
	if got := c.objects("objects"); len(got) > 0 {
		t.Errorf("not deleted: %q", got)
	}
}
