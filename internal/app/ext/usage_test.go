package ext_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/app"
	extapp "holdfast/internal/app/ext"
	"holdfast/internal/app/service"
	"holdfast/internal/cli"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/engines"
	"holdfast/internal/engines/postgres"
	ext "holdfast/internal/extstorage"
	extpostgres "holdfast/internal/extstorage/postgres"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

type operator struct {
	t       *testing.T
	environ []string
	records *ext.Service
	pages   []service.Page
	damage  func(t *testing.T, sql string)
}

func onEachEngine(t *testing.T, fn func(t *testing.T, p operator)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, onSQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := testdb.PostgresDatabase(t)
		opened.Postgres(t, pgdb.Options{URL: url}, extpostgres.Migrations)
		p := newOperator(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__DATABASE_URL="+url)
		p.damage = func(t *testing.T, sql string) { testdb.Script(t, url, sql) }
		fn(t, p)
	})
}

func onSQLite(t *testing.T) operator {
	t.Helper()
	data := testdb.SQLite(t)
	p := newOperator(t, data)
	p.damage = func(t *testing.T, sql string) {
		t.Helper()
		c, err := sqlite.OpenConn(filepath.Join(data, "extstorage.db"), sqlite.OpenReadWrite)
		if err == nil {
			err = errors.Join(sqlitex.ExecuteTransient(c, sql, nil), c.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func newOperator(t *testing.T, data string, environ ...string) operator {
	t.Helper()
	environ = append(environ, "HOLDFAST_EXTSTORAGE__TIERS__GOLD__KEYS=7")
	x := extapp.New(postgres.Engine().Extensions)
	cfg, _, err := app.Load([]service.Service{x.Service()}, "", environ)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: app.ModeServe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return operator{t: t, environ: append(environ, "HOLDFAST_DATA="+data), records: x.Opened(), pages: x.Pages()}
}

// othersOff turns the other services off. The ports are those of a server that may run anywhere, so that commands do not ask for
// one at the usual addresses.
var othersOff = []string{
	"HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
	"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0",
}

func (p *operator) types(args ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = cli.Run(p.t.Context(), cli.Env{Engines: []engines.Engine{postgres.Engine()}, Args: args, Environ: append(p.environ, othersOff...), Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr})
	return status, stdout.String(), stderr.String()
}

func (p *operator) prints(args ...string) []string {
	p.t.Helper()
	status, out, errs := p.types(args...)
	if status != 0 || errs != "" {
		p.t.Fatalf("%v: status %d\n%s%s", args, status, out, errs)
	}
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

// put stores records of 3 bytes, each in its own namespace.
func (p *operator) put(o ext.Owner, namespaces ...ext.Namespace) {
	p.t.Helper()
	var tasks []ext.Task
	for _, ns := range namespaces {
		tasks = append(tasks, ext.Task{Namespace: ns, Key: "k", Value: "1"})
	}
	r := ext.Request{Grant: ext.Grant{Owner: o, Every: ext.Modify}}
	if _, err := p.records.Batch(p.t.Context(), r, tasks); err != nil {
		p.t.Fatal(err)
	}
}

func owned(tenant, install int) ext.Owner {
	return ext.Owner{
		Tenant:  ext.TenantID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", tenant)),
		Install: ext.InstallID(fmt.Sprintf("%08d-1111-4000-8000-000000000000", install)),
	}
}

func where(o ext.Owner) string {
	return fmt.Sprintf(` WHERE tenant_id = '%s' AND extension_install_id = '%s'`, o.Tenant, o.Install)
}

// TestUsageOfAll checks that every install that ever stored a record is listed in order across pages, for a single
// tenant and for all.
func TestUsageOfAll(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		if out := p.prints("ext", "usage", "list"); len(out) != 1 || !strings.HasPrefix(out[0], "TENANT ") {
			t.Errorf("of none: %q", out)
		}
		const many = ext.MaxPage + 3
		testdb.Concurrently(10, func(i int) error {
			for n := i; n < many; n += 10 {
				p.put(owned(1, n), "a")
			}
			return nil
		})
		big, revoked := owned(2, 1), owned(2, 2)
		p.put(big, "a", "b")
		p.put(revoked, "a")
		p.prints("ext", "installs", "set", "--tenant", string(big.Tenant), "--install", string(big.Install), "--bytes", "1000", "--tier", "gold")
		p.prints("ext", "installs", "revoke", "--tenant", string(revoked.Tenant), "--install", string(revoked.Install))
		nobody := owned(2, 3)
		p.prints("ext", "installs", "set", "--tenant", string(nobody.Tenant), "--install", string(nobody.Install))

		if installs := p.prints("ext", "installs", "list"); len(installs) != 1+many+3 || !slices.IsSorted(installs[1:]) {
			t.Errorf("%d installs\n%s", len(installs), strings.Join(installs, "\n"))
		}
		lines := p.prints("ext", "usage", "list")
		if len(lines) != 1+many+2 || !slices.IsSorted(lines[1:]) {
			t.Errorf("%d lines\n%s", len(lines), strings.Join(lines, "\n"))
		}
		if got := strings.Fields(lines[many+1]); !slices.Equal(got, []string{string(big.Tenant), string(big.Install), "registered", "gold", "6", "0.6%", "2", "2"}) {
			t.Errorf("the line of an install is %q", got)
		}
		lines = p.prints("ext", "usage", "list", "--tenant", string(big.Tenant), "--json")
		want := []string{
			`{"tenant":"00000002-0000-4000-8000-000000000000","install":"00000001-1111-4000-8000-000000000000","state":"registered","tier":"gold","revokedAt":null,` +
				`"bytes":{"limit":1000,"used":6},"keys":{"limitPerNamespace":7,"used":2},"namespaces":{"limit":32,"used":2}}`,
			`{"tenant":"00000002-0000-4000-8000-000000000000","install":"00000002-1111-4000-8000-000000000000","state":"revoked","tier":"","revokedAt":"…",` +
				`"bytes":{"limit":268435456,"used":3},"keys":{"limitPerNamespace":5120,"used":1},"namespaces":{"limit":32,"used":1}}`,
		}
		if len(lines) != 2 || lines[0] != want[0] || !alike(lines[1], want[1]) {
			t.Errorf("as JSON\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
		one := p.prints("ext", "installs", "show", "--tenant", string(big.Tenant), "--install", string(big.Install), "--json")
		if with := strings.TrimSuffix(want[0], "}") + `,"byNamespace":[{"namespace":"a","keys":1,"bytes":3},{"namespace":"b","keys":1,"bytes":3}],"overrides":{"bytes":1000,"until":"`; !strings.HasPrefix(one[0], with) {
			t.Errorf("of one as JSON: %s\nwant %s", one[0], with)
		}
		if out := p.prints("ext", "usage", "audit"); !slices.Equal(out, []string{fmt.Sprintf("installs audited: %d, with differences: 0", many+2)}) {
			t.Errorf("audit: %q", out)
		}
		if out := p.prints("ext", "usage", "audit", "--tenant", string(nobody.Tenant)); !slices.Equal(out, []string{"installs audited: 2, with differences: 0"}) {
			t.Errorf("audit of a tenant: %q", out)
		}
	})
}

// alike compares lines; … in want matches any text.
func alike(got, want string) bool {
	before, after, _ := strings.Cut(want, "…")
	return strings.HasPrefix(got, before) && strings.HasSuffix(got, after) && len(got) > len(before)+len(after)
}

func TestAuditFindsDamage(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		for tenant := range 3 {
			for install := range 3 {
				p.put(owned(tenant, install), "a", "b")
			}
		}
		bytesOff, nsOff, lost := owned(0, 1), owned(1, 0), owned(1, 2)
		p.damage(t, `UPDATE ext_storage_usage SET bytes_used = 7`+where(bytesOff))
		p.damage(t, `UPDATE ext_storage_namespaces SET keys_count = 2`+where(nsOff)+` AND namespace = 'b'`)
		p.damage(t, `DELETE FROM ext_storage_usage`+where(lost))

		status, out, errs := p.types("ext", "usage", "audit")
		want := []string{"the counters differ from the rows for 3 of 9 installs"}
		for _, o := range []ext.Owner{bytesOff, nsOff, lost} {
			want = append(want, fmt.Sprintf("install %s of tenant %s", o.Install, o.Tenant))
			if !strings.Contains(out, fmt.Sprintf("tenant %s, install %s\n", o.Tenant, o.Install)) {
				t.Errorf("%v is not in\n%s", o, out)
			}
		}
		if status != 1 || strings.Count(errs, "  install ") != 3 || strings.Count(out, "ITEM") != 3 {
			t.Errorf("status %d\n%s%s", status, out, errs)
		}
		for _, w := range want {
			if !strings.Contains(errs, w) {
				t.Errorf("no word of %q in\n%s", w, errs)
			}
		}
		for _, w := range []string{"bytes       7        6\n", "keys in b   2        1\n", "keys        0        2\n", "\ninstalls audited: 9, with differences: 3\n"} {
			if !strings.Contains(out, w) {
				t.Errorf("no %q in\n%s", w, out)
			}
		}
		if out := p.prints("ext", "usage", "audit", "--tenant", string(owned(2, 0).Tenant)); out[0] != "installs audited: 3, with differences: 0" {
			t.Errorf("of a tenant that is right: %q", out)
		}
		if status, _, errs := p.types("ext", "usage", "audit", "--tenant", string(lost.Tenant), "--install", string(lost.Install)); status != 1 || !strings.Contains(errs, "differ") {
			t.Errorf("of one that is wrong: %d %s", status, errs)
		}
		p.auditAsJSON(bytesOff, nsOff, lost)
	})
}

func (p *operator) auditAsJSON(wrong ...ext.Owner) {
	p.t.Helper()
	status, out, errs := p.types("ext", "usage", "audit", "--json", "--all")
	out, summary, _ := strings.Cut(strings.TrimSuffix(out, "\n"), `{"audited":`)
	if summary != fmt.Sprintf(`9,"different":%d}`, len(wrong)) {
		p.t.Errorf("the result is %q", summary)
	}
	if status != 1 || strings.Count(errs, "  install ") != len(wrong) {
		p.t.Errorf("status %d\n%s", status, errs)
	}
	n := 0
	for line := range strings.Lines(out) {
		var l struct {
			Tenant         ext.TenantID
			Install        ext.InstallID
			Right          bool
			Counters, Rows map[string]int64
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			p.t.Fatalf("%v: %s", err, line)
		}
		n++
		o := ext.Owner{Tenant: l.Tenant, Install: l.Install}
		if l.Right == slices.Contains(wrong, o) || l.Rows["bytes"] != 6 || l.Rows["keys"] != 2 || l.Rows["namespaces"] != 2 || len(l.Counters) != 3 {
			p.t.Errorf("%v: %s", o, line)
		}
	}
	if n != 9 {
		p.t.Errorf("%d lines:\n%s", n, out)
	}
}

// TestAuditNamesSome checks that the error names only some of many damaged installs, and that the output names all.
func TestAuditNamesSome(t *testing.T) {
	t.Parallel()
	p := onSQLite(t)
	const many = ext.MaxPage + extapp.NamedMost + 1
	for install := range many {
		p.put(owned(1, install), "a")
	}
	p.damage(t, `DELETE FROM ext_storage_usage`)
	status, out, errs := p.types("ext", "usage", "audit")
	if status != 1 || strings.Count(out, "ITEM") != many || strings.Count(errs, "  install ") != extapp.NamedMost || !strings.Contains(errs, "and 101 more") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

type hook func() error

func (h hook) Write(b []byte) (int, error) { return len(b), h() }

// TestUsageIsStopped checks that a command fails at once if it is interrupted before the last page or its output
// fails.
func TestUsageIsStopped(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		for install := range ext.MaxPage + 1 {
			p.put(owned(1, install), "a")
		}
		for _, args := range [][]string{{"ext", "usage", "list"}, {"ext", "usage", "list", "--json"}, {"ext", "usage", "audit", "--json", "--all"}} {
			ctx, stop := context.WithCancel(t.Context())
			var stderr bytes.Buffer
			status := cli.Run(ctx, cli.Env{Engines: []engines.Engine{postgres.Engine()}, Args: args, Environ: append(p.environ, othersOff...), Stdout: hook(func() error { stop(); return nil }), Stderr: &stderr})
			if status != 1 || stderr.String() != "holdfast: stopped before the end\n" {
				t.Errorf("%v that is interrupted: status %d, %s", args, status, &stderr)
			}
			stderr.Reset()
			status = cli.Run(t.Context(), cli.Env{Engines: []engines.Engine{postgres.Engine()}, Args: args, Environ: append(p.environ, othersOff...), Stdout: hook(func() error { return errors.New("full") }), Stderr: &stderr})
			if status != 1 || stderr.String() != "holdfast: full\n" {
				t.Errorf("%v without space: status %d, %s", args, status, &stderr)
			}
		}
	})
}

// TestUsageOfNobody checks that an empty or missing flag value does not mean all.
func TestUsageOfNobody(t *testing.T) {
	t.Parallel()
	p := onSQLite(t)
	p.put(owned(1, 1), "a")
	some := string(owned(1, 1).Tenant)
	for _, tc := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--install", some}, 2, "tenant"},
		{[]string{"--tenant", "", "--install", some}, 2, "--tenant: must not be empty"},
		{[]string{"--tenant", some, "--install", ""}, 2, "--install: must not be empty"},
		{[]string{"--tenant", some, "--install", "x"}, 2, "--install: must be a UUID"},
		{[]string{some}, 2, `"` + some + `"`},
	} {
		for _, command := range [][]string{{"ext", "installs", "show"}, {"ext", "usage", "audit"}} {
			status, out, errs := p.types(append(command, tc.args...)...)
			if status != tc.status || !strings.Contains(errs, tc.says) || out != "" {
				t.Errorf("%q: status %d\n%s%s", tc.args, status, out, errs)
			}
		}
	}
}
