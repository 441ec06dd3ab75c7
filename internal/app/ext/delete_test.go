package ext_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

func command(owner []string, words ...string) []string {
	return append(append([]string{"ext"}, words...), owner...)
}

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
			if out := strings.Join(strings.Fields(strings.Join(p.prints(args...), "\n")), " "); !strings.Contains(out, says) {
				t.Errorf("%v prints %q, want %q", args, out, says)
			}
		}
		r := ext.Request{Grant: ext.Grant{Owner: at, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
		put := func() {
			t.Helper()
			if _, err := p.records.Do(t.Context(), r, ext.Task{Namespace: "settings", Key: "a", Value: `"x"`}); err != nil {
				t.Fatal(err)
			}
		}
		for _, of := range [][]string{command(o, "installs"), command(tenant, "tenants")} {
			of = append(slices.Insert(of, 2, "delete"), "--dry-run")
			fails(" is unknown, without data or registration", of...)
			fails(" is unknown, without data or registration", append(of[:len(of)-1], "--yes")...)
		}
		fails("the tenant has no installs", command(tenant, "tenants", "show")...)
		put()
		prints("STATE not registered", command(o, "installs", "show")...)
		prints("settings 1", command(o, "installs", "show")...)
		prints("access to the install is revoked", command(o, "installs", "revoke")...)
		if status, out, errs := p.types("ext", "installs", "list", "--revoked"); status != 0 || !strings.Contains(out, "  revoked  ") || strings.Count(out, "\n") != 2 ||
			!strings.HasSuffix(errs, "holdfast ext installs delete --tenant TENANT --install INSTALL\n") {
			t.Errorf("revoked installs: %d\n%s%s", status, out, errs)
		}
		prints(`"state":"revoked"`, "ext", "installs", "list", "--json", "--tenant", string(at.Tenant))
		prints(`"schemas":0,"changes":1,"answers":0,"tokens":0}`, "ext", "installs", "list", "--json", "--holdings")
		prints("SCHEMAS CHANGES", "ext", "installs", "list", "--holdings")
		prints("the install can be used again", command(o, "installs", "restore")...)
		prints("STATE registered", command(o, "installs", "show")...)

		unknown := append(slices.Clone(tenant), "--install", string(owned(3, 2).Install))
		fails("install "+string(owned(3, 2).Install)+" of tenant "+string(at.Tenant)+" is unknown", command(unknown, "installs", "delete", "--yes")...)
		fails("install is not registered", command(unknown, "installs", "show")...) // it was never closed
		fails("install is not registered", command(unknown, "installs", "restore")...)
		prints("deleted install", command(unknown, "installs", "delete", "--yes", "--allow-missing")...)
		prints("deleted install", command(unknown, "installs", "delete", "--yes")...) // its tombstone remains
		p.prints(command(unknown, "installs", "set", "--restore")...)
		prints("deleted install", command(unknown, "installs", "delete", "--yes")...)

		fails("nothing was changed; confirm with --yes", command(o, "installs", "delete")...)
		fails("nothing was changed; confirm with --yes", command(tenant, "tenants", "delete")...)
		prints("would be deleted", command(o, "installs", "delete", "--dry-run")...)
		prints(`"state":"active","records":1,"bytes":5,"schemas":0,"changes":1,"answers":0,"tokens":0,"retained":[]}`, command(o, "installs", "delete", "--dry-run", "--json")...)
		prints("1 record, 5 bytes, 0 schemas, 1 change, 0 kept answers, 0 revoked tokens", command(o, "installs", "delete", "--yes")...)
		prints("STATE deleted", command(o, "installs", "show")...)
		prints(`"records":1,"bytes":5,"schemas":0,"changes":1,"answers":0,"tokens":0,"retained":[]}`, command(o, "installs", "delete", "--yes", "--json")...)
		fails("--restore allows its ID again", command(o, "installs", "set")...)
		// The guide deletes a tenant after its only install, with the same command with or without --yes.
		prints("would be deleted from tenant", command(tenant, "tenants", "delete", "--dry-run")...)
		p.prints(command(o, "installs", "restore")...)
		prints("BYTES 0", command(o, "installs", "show")...)
		prints("STATE active", command(tenant, "tenants", "show")...)
		prints(string(at.Tenant), "ext", "tenants", "list")

		prints(`"installs":1,`, command(tenant, "tenants", "delete", "--yes", "--json")...)
		prints("STATE deleted", command(tenant, "tenants", "show")...)
		fails("restore a tenant with ext tenants restore", command(o, "installs", "set", "--restore")...)
		fails("restore a tenant with ext tenants restore", command(o, "installs", "restore")...)
		prints("can be used again", command(tenant, "tenants", "restore")...)
		fails("was not deleted", command(tenant, "tenants", "restore")...)
		p.prints(command(o, "installs", "set", "--restore")...)

		only := owned(4, 1)
		alone := []string{"--tenant", string(only.Tenant)}
		r.Grant.Owner = only
		put()
		prints("deleted install", command(append(slices.Clone(alone), "--install", string(only.Install)), "installs", "delete", "--yes")...)
		prints("deleted tenant", command(alone, "tenants", "delete", "--yes")...)
	})
}

func TestSchemaFile(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		at := owned(4, 1)
		dir := t.TempDir()
		for name, says := range map[string]string{
			dir:                               " is a folder: expected a file, or - for standard input",
			filepath.Join(dir, "schema.json"): " does not exist: expected a file, or - for standard input",
		} {
			status, _, errs := p.types("ext", "schemas", "put", name, "--tenant", string(at.Tenant), "--install", string(at.Install), "--namespace", "settings")
			if status != 1 || !strings.Contains(errs, name+says) {
				t.Errorf("put %s: %d %q", name, status, errs)
			}
		}
	})
}

// TestSchemaCommands checks that the commands accept and refuse the same schemas as the API.
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
			return p.types(append(append([]string{"ext", "schemas", "put", document(text)}, o...), more...)...)
		}
		if status, out, errs := put(`{"type":"object"}`, "--activate"); status != 0 || out != "registered schema version 1 for settings: active\n" {
			t.Errorf("put: %d %q %q", status, out, errs)
		}
		if status, out, errs := put(`{"type":"string"}`); status != 0 || out != "registered schema version 2 for settings: draft\n" {
			t.Errorf("put: %d %q %q", status, out, errs)
		}
		for text, says := range map[string]string{`{"type":"nothing"}`: "/type", `{`: "JSON", ``: "the schema is empty", strings.Repeat(" ", 1<<19): "larger than"} {
			if status, _, errs := put(text); status != 1 || !strings.Contains(errs, says) {
				t.Errorf("put %.10q: %d %q", text, status, errs)
			}
		}
		r := ext.Request{Grant: ext.Grant{Owner: at, Every: ext.Read | ext.Modify}}
		if _, err := p.records.Do(t.Context(), r, ext.Task{Namespace: "settings", Key: "a", Value: `1`}); err == nil {
			t.Error("the schema does not hold")
		}
		if shown := strings.Join(p.prints(append([]string{"ext", "schemas", "show", "--version", "1"}, o...)...), "\n"); !strings.Contains(shown, `"type": "object"`) {
			t.Errorf("version 1 is %s", shown)
		}
		for _, words := range [][]string{{"ext", "schemas", "export"}, {"ext", "schemas", "export"}} {
			if documents := p.prints(append(words, o...)...); !slices.Equal(documents, []string{`{"type":"string"}`, `{"type":"object"}`}) {
				t.Errorf("%v: %q", words, documents)
			}
		}
		list := p.prints(append([]string{"ext", "schemas", "list"}, o...)...)
		if len(list) < 3 || !strings.HasPrefix(list[1], "2        draft") || !strings.HasPrefix(list[2], "1        active") {
			t.Errorf("list: %q", list)
		}
		deleteSchemas(t, p, o)
		if _, out, errs := put(`{}`); out != "registered schema version 3 for settings: draft\n" {
			t.Errorf("put after all were deleted: %q %q", out, errs)
		}
	})
}

func deleteSchemas(t *testing.T, p operator, namespace []string) {
	t.Helper()
	if check := strings.Join(p.prints(append([]string{"ext", "schemas", "check", "--version", "2"}, namespace...)...), "\n"); !strings.Contains(check, "ACTIVE           version 1") || !strings.Contains(check, "breaking") {
		t.Errorf("the check of version 2 is %s", check)
	}
	for _, tc := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--version", "1"}, 1, "cannot be deleted alone"},
		{[]string{"--version", "2"}, 1, "cannot be deleted alone"},
		{[]string{"--version", "7"}, 1, "has no schema version 7"},
		{[]string{"--version", "0"}, 2, "--version: must be at least 1"},
		{[]string{"--version", "4294967297"}, 1, "has no schema version 4294967297"},
		{[]string{}, 2, "--version is required"},
	} {
		args := append(append([]string{"ext", "schemas", "delete"}, namespace...), tc.args...)
		if status, out, errs := p.types(args...); status != tc.status || !strings.Contains(errs, tc.says) {
			t.Errorf("%v: %d %q %q", args, status, out, errs)
		}
	}
	p.prints(append([]string{"ext", "schemas", "delete-all"}, namespace...)...)
	for _, verb := range []string{"activate", "deprecate"} {
		if status, _, errs := p.types(append([]string{"ext", "schemas", verb, "--version", "2"}, namespace...)...); status != 1 || !strings.Contains(errs, "schema") {
			t.Errorf("%s what is deleted: %d %q", verb, status, errs)
		}
	}
}

// TestImportedValuesAndSchemas imports an export with a value from before its schema: the import takes it over, as no
// data may be lost, and names it, because no client could write it.
func TestImportedValuesAndSchemas(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		from, to := owned(5, 1), owned(5, 2)
		at := func(o ext.Owner, more ...string) []string {
			return append([]string{"--tenant", string(o.Tenant), "--install", string(o.Install)}, more...)
		}
		r := ext.Request{Grant: ext.Grant{Owner: from, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
		for key, value := range map[ext.Key]canonjson.Value{"old": `1`, "good": `"x"`} {
			if _, err := p.records.Do(t.Context(), r, ext.Task{Namespace: "settings", Key: key, Value: value}); err != nil {
				t.Fatal(err)
			}
		}
		dir := t.TempDir()
		document, export := filepath.Join(dir, "schema.json"), filepath.Join(dir, "export.ndjson")
		if err := os.WriteFile(document, []byte(`{"type":"string"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		p.prints(append([]string{"ext", "schemas", "put", document, "--activate"}, at(from, "--namespace", "settings")...)...)
		p.prints(append([]string{"ext", "installs", "export", "-o", export}, at(from)...)...)
		says := "namespace settings: the active schema version 1 refuses 1 of the 2 records that were checked; a client cannot write them again. " +
			"holdfast ext schemas check --namespace settings --version 1 lists them"
		if lines := strings.Join(p.prints(append([]string{"ext", "installs", "import", export}, at(to)...)...), ""); !strings.HasSuffix(lines, "; "+says) {
			t.Errorf("the import says %s", lines)
		}
		json := strings.Join(p.prints(append([]string{"ext", "installs", "import", export, "--json"}, at(to)...)...), "")
		if !strings.Contains(json, `"unmatched":[{"namespace":"settings","version":1,"failed":1,"checked":2}]`) {
			t.Errorf("the import again: %s", json)
		}
	})
}
