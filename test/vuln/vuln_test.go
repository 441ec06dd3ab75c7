// Package vuln tests the program behind make vuln with small vulnerability databases.
package vuln

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "holdfast-vuln-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "vuln")
	cmd := exec.Command("go", "build", "-C", "../../packaging/vuln", "-buildvcs=false", "-o", path, ".")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	return path, nil
})

// write writes files by path.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// module returns a module that calls lib.Bad, and utf8.RuneLen of the standard library, which is scanned
// faster than larger packages. It imports lib/quiet without
// calling anything, and a file with a build tag calls lib.Tagged.
func module(t *testing.T) string {
	t.Helper()
	return write(t, map[string]string{
		"go.mod":                            "module example.org/app\n\ngo 1.26.11\n\nrequire example.org/lib v1.2.0\n",
		"main.go":                           "package main\n\nimport (\n\t\"unicode/utf8\"\n\n\t\"example.org/lib\"\n\t_ \"example.org/lib/quiet\"\n)\n\nfunc main() { println(lib.Bad(), utf8.RuneLen('a')) }\n",
		"tagged.go":                         "//go:build special\n\npackage main\n\nimport \"example.org/lib\"\n\nvar _ = lib.Tagged()\n",
		"vendor/modules.txt":                "# example.org/lib v1.2.0\n## explicit; go 1.26.11\nexample.org/lib\nexample.org/lib/quiet\n",
		"vendor/example.org/lib/lib.go":     "package lib\n\nfunc Bad() int { return 1 }\n\nfunc Tagged() int { return 1 }\n\nfunc Unused() int { return 1 }\n",
		"vendor/example.org/lib/quiet/q.go": "package quiet\n\nfunc Never() int { return 1 }\n",
	})
}

// advisory is for one function of one module.
type advisory struct{ id, module, path, symbol, fixed string }

func (a advisory) entry() string {
	return fmt.Sprintf(`{"schema_version":"1.3.1","id":%q,"modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z","summary":"A hole","details":"A hole.",
		"affected":[{"package":{"name":%q,"ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}%s]}],
		"ecosystem_specific":{"imports":[{"path":%q,"symbols":[%q]}]}}]}`, a.id, a.module, a.event(), a.path, a.symbol)
}

func (a advisory) event() string {
	if a.fixed == "" {
		return ""
	}
	return fmt.Sprintf(`,{"fixed":%q}`, a.fixed)
}

// database returns the files of a database that was changed some days ago.
func database(days int, all ...advisory) map[string]string {
	modified := time.Now().Add(-time.Duration(days)*24*time.Hour - time.Hour).UTC().Format(time.RFC3339)
	byModule := map[string][]string{"stdlib": nil}
	files := map[string]string{"index/db.json": fmt.Sprintf(`{"modified":%q}`, modified)}
	var vulns []string
	for _, a := range all {
		files["ID/"+a.id+".json"] = a.entry()
		fixed := ""
		if a.fixed != "" {
			fixed = fmt.Sprintf(`,"fixed":%q`, a.fixed)
		}
		byModule[a.module] = append(byModule[a.module], fmt.Sprintf(`{"id":%q,"modified":%q%s}`, a.id, modified, fixed))
		vulns = append(vulns, fmt.Sprintf(`{"id":%q,"modified":%q}`, a.id, modified))
	}
	var modules []string
	for _, path := range slices.Sorted(maps.Keys(byModule)) {
		modules = append(modules, fmt.Sprintf(`{"path":%q,"vulns":[%s]}`, path, strings.Join(byModule[path], ",")))
	}
	files["index/modules.json"], files["index/vulns.json"] = "["+strings.Join(modules, ",")+"]", "["+strings.Join(vulns, ",")+"]"
	return files
}

var (
	bad      = advisory{"GO-2026-0001", "example.org/lib", "example.org/lib", "Bad", "1.2.1"}
	unfixed  = advisory{"GO-2026-0002", "example.org/lib", "example.org/lib", "Bad", ""}
	unused   = advisory{"GO-2026-0003", "example.org/lib", "example.org/lib", "Unused", "1.2.1"}
	quiet    = advisory{"GO-2026-0004", "example.org/lib", "example.org/lib/quiet", "Never", "1.2.1"}
	missing  = advisory{"GO-2026-0005", "example.org/lib", "example.org/lib/other", "Other", "1.2.1"}
	standard = advisory{"GO-2026-0006", "stdlib", "unicode/utf8", "RuneLen", "1.99.0"}
	tagged   = advisory{"GO-2026-0007", "example.org/lib", "example.org/lib", "Tagged", "1.2.1"}
	former   = advisory{"GO-2026-0008", "example.org/lib", "example.org/lib", "Bad", "1.2.0"}
)

type result struct {
	status int
	text   string
}

func check(t *testing.T, db string, args ...string) result {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"-db", db}, args...)...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off")
	text, err := cmd.CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return result{ended.ExitCode(), string(text)}
	}
	if err != nil {
		t.Fatal(err)
	}
	return result{0, string(text)}
}

func (r result) want(t *testing.T, name string, status int, says ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("%s: status %d, want %d\n%s", name, r.status, status, r.text)
	}
	for _, want := range says {
		if !strings.Contains(r.text, want) {
			t.Errorf("%s: no %q in\n%s", name, want, r.text)
		}
	}
	if clean := strings.Contains(r.text, "no known vulnerability"); clean && status != 0 {
		t.Errorf("%s: it says that it is clean:\n%s", name, r.text)
	}
}

func fileDB(t *testing.T, files map[string]string) string {
	t.Helper()
	return "file://" + write(t, files)
}

// TestAdvisories checks which advisories fail the check: those for functions that the module reaches.
func TestAdvisories(t *testing.T) {
	t.Parallel()
	app := module(t)
	today := time.Now().Add(-time.Hour).UTC().Format(time.DateOnly)
	for name, tc := range map[string]struct {
		all    []advisory
		args   []string
		status int
		says   []string
	}{
		"none":                  {nil, nil, 0, []string{" of " + today + "\n", "with go1.26", "no known vulnerability is reachable"}},
		"reached":               {[]advisory{bad}, nil, 1, []string{"REACHABLE: GO-2026-0001 in example.org/lib@v1.2.0: A hole: calls example.org/lib.Bad from example.org/app.main (main.go:10); fixed in v1.2.1"}},
		"reached, not fixed":    {[]advisory{unfixed}, nil, 1, []string{"REACHABLE: GO-2026-0002", "no version fixes it"}},
		"reached, and may fail": {[]advisory{bad}, []string{"-unchecked-ok"}, 1, []string{"REACHABLE: GO-2026-0001"}},
		"standard library":      {[]advisory{standard}, nil, 1, []string{"REACHABLE: GO-2026-0006 in stdlib@v1.26", "calls unicode/utf8.RuneLen", "fixed in v1.99.0"}},
		"imported":              {[]advisory{unused, quiet}, nil, 0, []string{"imported, not reached: GO-2026-0003 in example.org/lib@v1.2.0", "imported, not reached: GO-2026-0004", "no known vulnerability is reachable"}},
		"required":              {[]advisory{missing}, nil, 0, []string{"required, not imported: GO-2026-0005", "no known vulnerability is reachable"}},
		"fixed":                 {[]advisory{former}, nil, 0, []string{"no known vulnerability is reachable"}},
		"without the tag":       {[]advisory{tagged}, nil, 0, []string{"imported, not reached: GO-2026-0007"}},
		"with the tag":          {[]advisory{tagged}, []string{"-tags", "special"}, 1, []string{"REACHABLE: GO-2026-0007"}},
		"several":               {[]advisory{unused, bad, standard}, nil, 1, []string{"REACHABLE: GO-2026-0001", "REACHABLE: GO-2026-0006", "imported, not reached: GO-2026-0003"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := filepath.Join(t.TempDir(), "new", "record.txt")
			r := check(t, fileDB(t, database(0, tc.all...)), slices.Concat([]string{"-record", record}, tc.args, []string{app})...)
			r.want(t, name, tc.status, tc.says...)
			text, err := os.ReadFile(record)
			if err != nil || !strings.HasPrefix(r.text, string(text)) || len(text) == 0 {
				t.Errorf("the record is %q, %v", text, err)
			}
		})
	}
}

// TestNotChecked checks that a database which is old, missing or damaged is never taken for one without advisories.
func TestNotChecked(t *testing.T) {
	t.Parallel()
	app := module(t)
	edit := func(name, text string) string {
		files := database(0, bad)
		if files[name] = text; text == "" {
			delete(files, name)
		}
		return fileDB(t, files)
	}
	refused := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refused.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	plain := httptest.NewServer(http.FileServer(http.Dir(write(t, map[string]string{"index/db.json.gz": `{"modified":"2026-01-01T00:00:00Z"}`}))))
	t.Cleanup(plain.Close)
	for name, tc := range map[string]struct{ db, says string }{
		"15 days old":           {fileDB(t, database(15, bad)), "15 days old, more than 14"},
		"the future":            {fileDB(t, database(-3, bad)), "in the future"},
		"no folder":             {"file:///nonexistent", "no database: cannot read index/db.json of file:///nonexistent: no such file"},
		"an empty folder":       {fileDB(t, nil), "no database"},
		"nobody answers":        {gone.URL, "connection refused"},
		"an error":              {refused.URL, "404 Not Found"},
		"not compressed":        {plain.URL, "gzip"},
		"no URL":                {"none", `"none" is not a URL`},
		"another scheme":        {"ftp://127.0.0.1/", "is not a URL that begins with"},
		"no date":               {edit("index/db.json", `{}`), "has no date"},
		"a damaged date":        {edit("index/db.json", `{"modified":"soon"}`), "index/db.json is not valid"},
		"a cut index":           {edit("index/modules.json", `[{"path":"stdlib"`), "index/modules.json is not valid"},
		"an empty index":        {edit("index/modules.json", `[]`), "does not have the standard library"},
		"no index":              {edit("index/modules.json", ""), "cannot read index/modules.json"},
		"a damaged advisory":    {edit("ID/GO-2026-0001.json", `{"id":`), "govulncheck"},
		"an advisory is absent": {edit("ID/GO-2026-0001.json", ""), "govulncheck"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.db, app).want(t, name, 3, "VULNERABILITIES NOT CHECKED", tc.says)
			check(t, tc.db, "-unchecked-ok", app).want(t, name, 0, "VULNERABILITIES NOT CHECKED", tc.says)
		})
	}
	check(t, fileDB(t, database(13)), app).want(t, "13 days old", 0, "no known vulnerability is reachable")
}

// TestModuleThatDoesNotCompile checks that such a module is not checked, and that others still fail the check.
func TestModuleThatDoesNotCompile(t *testing.T) {
	t.Parallel()
	db, app := fileDB(t, database(0, bad)), module(t)
	broken := write(t, map[string]string{"go.mod": "module example.org/broken\n\ngo 1.26.11\n", "main.go": "package main\n\nfunc main() { missing() }\n"})
	check(t, db, broken).want(t, "broken", 3, "VULNERABILITIES NOT CHECKED in "+broken)
	for _, folders := range [][]string{{broken, app}, {app, broken}} {
		check(t, db, folders...).want(t, "both", 1, "VULNERABILITIES NOT CHECKED in "+broken, "REACHABLE: GO-2026-0001")
	}
	check(t, db, filepath.Join(app, "nothing")).want(t, "no folder", 3, "VULNERABILITIES NOT CHECKED in ")
	check(t, db).want(t, "nothing to check", 1, "expected at least one folder")
}

// TestDatabaseOverHTTP checks a database as vuln.go.dev serves it.
func TestDatabaseOverHTTP(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for name, text := range database(0, bad) {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files[name+".gz"] = b.String()
	}
	s := httptest.NewServer(http.FileServer(http.Dir(write(t, files))))
	t.Cleanup(s.Close)
	check(t, s.URL+"/", module(t)).want(t, "over HTTP", 1, "vulnerability database: "+s.URL+" of ", "REACHABLE: GO-2026-0001")
}
