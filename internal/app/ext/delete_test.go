package ext_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ext "holdfast/internal/extstorage"
)

// TestDeleteCommands tests --dry-run, confirmation, deletion and restoration of installs
// and tenants, and unknown IDs.
func TestDeleteCommands(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		at := owned(3, 1)
		tenant := []string{"--tenant", string(at.Tenant)}
		o := append(tenant, "--install", string(at.Install))
		fails := func(says string, args ...string) {
			t.Helper()
			if status, out, errs := p.types(args...); status == 0 || !strings.Contains(errs, says) {
				t.Errorf("%v: status %d, %q, %q, want %q", args, status, out, errs, says)
			}
		}
		prints := func(says string, args ...string) {
			t.Helper()
			if out := strings.Join(p.prints(args...), "\n"); !strings.Contains(out, says) {
				t.Errorf("%v prints %q, want %q", args, out, says)
			}
		}
		command := func(owner []string, words ...string) []string {
			return append(append([]string{"ext"}, words...), owner...)
		}
		r := ext.Request{Grant: ext.Grant{Owner: at, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
		put := func() {
			t.Helper()
			if _, err := p.records.Do(t.Context(), r, ext.Task{Namespace: "settings", Key: "a", Value: `"x"`}); err != nil {
				t.Fatal(err)
			}
		}
		for _, of := range [][]string{command(o, "install"), command(tenant, "tenant")} {
			of = append(slices.Insert(of, 2, "delete"), "--dry-run")
			fails(" is unknown: it has no data and no registration", of...)
			fails(" is unknown: it has no data and no registration", append(of[:len(of)-1], "--yes")...)
		}
		put()
		prints("settings", command(o, "usage")...)
		p.prints(command(o, "install", "revoke")...)
		prints("revoked             1               5", "ext", "install", "list", "--revoked")
		prints("holdfast ext install delete --tenant TENANT", "ext", "install", "list", "--revoked")
		prints(`"state":"revoked"`, "ext", "install", "list", "--json", "--tenant", string(at.Tenant))

		unknown := append(slices.Clone(tenant), "--install", string(owned(3, 2).Install))
		fails("install "+string(owned(3, 2).Install)+" of tenant "+string(at.Tenant)+" is unknown", command(unknown, "install", "delete", "--yes")...)
		fails("install is not registered", command(unknown, "install", "show")...) // it was not closed
		prints("deleted install", command(unknown, "install", "delete", "--yes", "--allow-missing")...)
		prints("deleted install", command(unknown, "install", "delete", "--yes")...) // its tombstone is known
		p.prints(command(unknown, "install", "set", "--restore")...)
		prints("deleted install", command(unknown, "install", "delete", "--yes")...) // registered, without data

		fails("--yes is required", command(o, "install", "delete")...)
		fails("--yes is required", command(tenant, "tenant", "delete")...)
		prints("would be deleted", command(o, "install", "delete", "--dry-run")...)
		prints(`{"records":1,"bytes":5,"schemas":0,"changes":1,"answers":0,"tokens":0}`, command(o, "install", "delete", "--dry-run", "--json")...)
		prints("deleted install", command(o, "install", "delete", "--yes")...)
		prints("deleted     ", command(o, "install", "show")...)
		prints(`{"records":1,"bytes":5,"schemas":0,"changes":1,"answers":0,"tokens":0}`, command(o, "install", "delete", "--yes", "--json")...)
		fails("--restore allows its ID again", command(o, "install", "set")...)
		// As in the guide: the tenant after its only install, by the same command with or without --yes.
		prints("would be deleted from tenant", command(tenant, "tenant", "delete", "--dry-run")...)
		p.prints(command(o, "install", "set", "--restore")...)
		prints("bytes       0 of", command(o, "usage")...)

		prints(`"installs":1,`, command(tenant, "tenant", "delete", "--yes", "--json")...)
		fails("restore a tenant with ext tenant restore", command(o, "install", "set", "--restore")...)
		prints("can be used again", command(tenant, "tenant", "restore")...)
		fails("was not deleted", command(tenant, "tenant", "restore")...)
		p.prints(command(o, "install", "set", "--restore")...)

		only := owned(4, 1)
		alone := []string{"--tenant", string(only.Tenant)}
		r.Grant.Owner = only
		put()
		prints("deleted install", command(append(slices.Clone(alone), "--install", string(only.Install)), "install", "delete", "--yes")...)
		prints("deleted tenant", command(alone, "tenant", "delete", "--yes")...)
	})
}

// TestSchemaFile checks the errors for a file that cannot be read.
func TestSchemaFile(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		at := owned(4, 1)
		dir := t.TempDir()
		for name, says := range map[string]string{
			dir:                               " is a folder: expected a file, or - for standard input",
			filepath.Join(dir, "schema.json"): " does not exist: expected a file, or - for standard input",
		} {
			status, _, errs := p.types("ext", "schema", "put", name, "--tenant", string(at.Tenant), "--install", string(at.Install), "--namespace", "settings")
			if status != 1 || !strings.Contains(errs, name+says) {
				t.Errorf("put %s: %d %q", name, status, errs)
			}
		}
	})
}

// TestSchemaCommands checks that the commands accept and refuse the same schemas as the
// API.
func TestSchemaCommands(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		at := owned(4, 1)
		o := []string{"--tenant", string(at.Tenant), "--install", string(at.Install), "--namespace", "settings"}
		file := filepath.Join(t.TempDir(), "schema.json")
		document := func(text string) string {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}
		put := func(text string, more ...string) (int, string, string) {
			return p.types(append(append([]string{"ext", "schema", "put", document(text)}, o...), more...)...)
		}
		if status, out, errs := put(`{"type":"object"}`, "--activate"); status != 0 || out != "registered version 1 of the schema of settings: active\n" {
			t.Errorf("put: %d %q %q", status, out, errs)
		}
		if status, out, errs := put(`{"type":"string"}`); status != 0 || out != "registered version 2 of the schema of settings: draft\n" {
			t.Errorf("put: %d %q %q", status, out, errs)
		}
		for text, says := range map[string]string{`{"type":"nothing"}`: "/type", `{`: "JSON", ``: "the schema is empty", strings.Repeat(" ", 1<<19): "more than"} {
			if status, _, errs := put(text); status != 1 || !strings.Contains(errs, says) {
				t.Errorf("put %.10q: %d %q", text, status, errs)
			}
		}
		r := ext.Request{Grant: ext.Grant{Owner: at, Every: ext.Read | ext.Modify}}
		if _, err := p.records.Do(t.Context(), r, ext.Task{Namespace: "settings", Key: "a", Value: `1`}); err == nil {
			t.Error("the schema does not hold")
		}
		list := p.prints(append([]string{"ext", "schema", "list"}, o...)...)
		if len(list) < 3 || !strings.HasPrefix(list[1], "2        draft") || !strings.HasPrefix(list[2], "1        active") {
			t.Errorf("list: %q", list)
		}
		for _, tc := range []struct {
			args   []string
			status int
			says   string
		}{
			{[]string{"--version", "1"}, 1, "cannot be deleted alone"},
			{[]string{"--version", "2"}, 1, "cannot be deleted alone"},
			{[]string{"--version", "7"}, 1, "has no version 7"},
			{[]string{"--version", "0"}, 2, "--version 0: must be 1 or more"},
			{[]string{"--all"}, 0, ""},
		} {
			args := append(append([]string{"ext", "schema", "delete"}, o...), tc.args...)
			if status, out, errs := p.types(args...); status != tc.status || !strings.Contains(errs, tc.says) {
				t.Errorf("%v: %d %q %q", args, status, out, errs)
			}
		}
		if _, out, errs := put(`{}`); out != "registered version 3 of the schema of settings: draft\n" {
			t.Errorf("put after all were deleted: %q %q", out, errs)
		}
	})
}
