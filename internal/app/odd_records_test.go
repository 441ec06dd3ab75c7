package app_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/testdb"
)

// oddRecordKeys are all characters but "/" and controls.
var oddRecordKeys = []string{
	".", "..", "...", "%", "%2F", "%00", "a%2Fb", "?q=1", "#top", "+", " ", " a", "a ", "a b", "&amp;", "a&b=c", ";", ",", "=", `"`, "'", "`", `\`, `\n`, "-rf", "--json", "--", "-", "*", "[a]", "{x}", "$(x)", "|",
	"~", "^", ":", "@", "null", "0", "1e3", "<script>alert(1)<script>", `"><b>`, "]]>", "{{.}}", "é", "e\u0301", "😀", "👩\u200d🚀", "שלום", "\u202e", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\u00a0", "\u2028",
	strings.Repeat("k", 128), strings.Repeat("😀", 128), strings.Repeat("&", 128),
}

// TestOddRecordKeys walks record keys through commands, the console's pages, links and forms, and copies between the engines.
func TestOddRecordKeys(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "200 commands take seconds")
	b, _, environ := serveConsole(t)
	c := commands{t, environ}
	place := []string{"--tenant", someTenant, "--install", someInstall, "--namespace", "settings"}
	records := func(stdin, verb string, more ...string) string {
		t.Helper()
		return c.run(stdin, slices.Concat([]string{"ext", "records", verb}, place, more)...)
	}
	listed := func() (all []string) {
		t.Helper()
		for line := range strings.Lines(records("", "list", "--json")) {
			var row struct{ Key string }
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			all = append(all, row.Key)
		}
		return all
	}
	value := func(key string) string {
		text, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, key := range oddRecordKeys {
		records(value(key), "put", "--", key)
	}
	want := slices.Sorted(slices.Values(oddRecordKeys))
	if got := listed(); !slices.Equal(got, want) {
		t.Fatalf("listed %q\nwant %q", got, want)
	}
	if table := records("", "list"); strings.Count(table, "\n") != len(want)+1 {
		t.Errorf("the table has not a line for each of %d records:\n%s", len(want), table)
	}
	here := c
	for _, to := range []string{testdb.PostgresDatabase(t), sqliteURL(t)} {
		c.run("", "copy", "extstorage", "--to", to)
		c.environ = append(slices.Clone(environ), "HOLDFAST_EXTSTORAGE__DATABASE_URL="+to)
		if got := listed(); !slices.Equal(got, want) {
			t.Errorf("copied to %s: %q\nwant %q", to, got, want)
		}
	}
	for _, key := range want {
		var got string
		if err := json.Unmarshal([]byte(records("", "get", "--", key)), &got); err != nil || got != key {
			t.Errorf("%q has the value %q, %v", key, got, err)
		}
		records("", "delete", "--", key)
	}
	if got := listed(); len(got) > 0 {
		t.Errorf("not deleted: %q", got)
	}

	c = here
	c.run("", "copy", "extstorage", "--reopen")
	for _, key := range want {
		b.open("extstorage/record?" + url.Values{"tenant": {someTenant}, "install": {someInstall}, "namespace": {"settings"}, "key": {key}}.Encode())
		b.shows(service.Printable(strings.TrimSpace(key)))
		b.submit("Delete record")
	}
	if got := listed(); len(got) > 0 {
		t.Errorf("the console did not delete %q", got)
	}
}
