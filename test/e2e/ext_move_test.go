package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestMoveToPostgres and TestMoveToSQLite move an install to a server on the other engine, with a killed import. The
// install must stay unchanged.
func TestMoveToPostgres(t *testing.T) {
	t.Parallel()
	moveInstall(t, moveServer(t), moveServer(t, "HOLDFAST_EXTSTORAGE__DATABASE_URL="+testdb.PostgresDatabase(t)))
}

func TestMoveToSQLite(t *testing.T) {
	t.Parallel()
	moveInstall(t, moveServer(t, "HOLDFAST_EXTSTORAGE__DATABASE_URL="+testdb.PostgresDatabase(t)), moveServer(t))
}

func moveServer(t *testing.T, vars ...string) *binary.Server {
	t.Helper()
	s := binary.Launch(t, t.TempDir(), append(vars, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false")...)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	return s
}

func moveInstall(t *testing.T, from, to *binary.Server) {
	t.Helper()
	const install = "7e000000-0000-4000-8000-000000000071"
	access := []string{"a=rw", "b-1=rw", "schemas=rw"}
	source, target := newExtension(t, from, install, access...), newExtension(t, to, install, access...)
	live(source)
	dir := t.TempDir()
	file := filepath.Join(dir, "install.ndjson")
	source.verb("ext", "installs", "export", "-o", file)
	whole := readFile(t, file)
	if a := source.want(http.StatusOK, "GET", "/export", ""); withoutCursors(a.Body) != whole {
		t.Errorf("export by the API:\n%s\nby the command:\n%s", a.Body, whole)
	}

	killImport(t, target, whole)
	lines := strings.SplitAfter(whole, "\n")
	cut := filepath.Join(dir, "cut.ndjson")
	if err := os.WriteFile(cut, []byte(strings.Join(lines[:len(lines)*3/4], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"ext", "installs", "import", "--preserve"}, target.flags())
	if r := binary.Run(t, to.Env, append(args, cut)...); r.Status != 1 || !strings.Contains(r.Stderr, "no last line with complete") {
		t.Errorf("truncated file: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	records := strings.Count(whole, `"revision":`)
	out := to.Verb(append(args, file)...)
	if !strings.HasPrefix(out, fmt.Sprintf("records: %d, written: ", records)) || !strings.Contains(out, ", expired: 0, newer here: 0; schemas: 3; namespace schemas: ") {
		t.Errorf("import: %s", out)
	}
	// The workload has a value from before its schema, which both imports name.
	if want := fmt.Sprintf("records: %d, written: 0, unchanged: %d, expired: 0, newer here: 0; schemas: 3; namespace schemas: ", records, records); !strings.HasPrefix(to.Verb(append(args, file)...), want) {
		t.Errorf("import again, want %s", want)
	}
	if got, want := withoutNumbers(target.verb("ext", "installs", "export")), withoutNumbers(whole); got != want {
		t.Errorf("source:\n%s\ntarget:\n%s", got, want)
	}
	for _, path := range []string{"/usage", "/namespaces/schemas/schemas", "/namespaces/schemas/schemas/2"} {
		if got, want := target.want(http.StatusOK, "GET", path, "").Body, source.want(http.StatusOK, "GET", path, "").Body; got != want {
			t.Errorf("%s at the source:\n%s\nat the target:\n%s", path, got, want)
		}
	}
	target.want(http.StatusBadRequest, "PUT", "/namespaces/schemas/records/new", `{"value":"text"}`)
	target.want(http.StatusGone, "GET", "/changes?since=1", "") // change numbers differ between servers
	target.verb("ext", "usage", "audit")
}

// live writes all kinds of records: expiring, large, with unusual names, deleted, written often, and older than the
// active schema.
func live(e extension) {
	e.t.Helper()
	put := func(ns, key, body string) {
		e.t.Helper()
		if a, err := e.send("PUT", "/namespaces/"+ns+"/records/"+url.PathEscape(key), body); err != nil || a.Status/100 != 2 {
			e.t.Fatalf("put %q: %d %s %v", key, a.Status, a.Body, err)
		}
	}
	seed := rand.Uint64()
	e.t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	odd := []string{".", "..", "%41", `"\`, "é", "e\u0301", "日本", "😀", "a b", "\U0010ffff"}
	for i := range 130 {
		ns := []string{"a", "b-1"}[r.IntN(2)]
		key := fmt.Sprint(odd[r.IntN(len(odd))], r.IntN(100))
		value := fmt.Sprintf(`{"n":%d.250,"é":["\u0001",null,1e300,"%s"]}`, i, strings.Repeat("x", r.IntN(1<<r.IntN(16))))
		ttl := ""
		if r.IntN(3) == 0 {
			ttl = fmt.Sprintf(`,"ttlSeconds":%d`, 3600+r.IntN(10_000))
		}
		put(ns, key, `{"value":`+value+`,"metadata":{"i":`+fmt.Sprint(i)+`}`+ttl+`}`)
		if r.IntN(6) == 0 {
			e.want(http.StatusNoContent, "DELETE", "/namespaces/"+ns+"/records/"+url.PathEscape(key), "")
		}
	}
	put("schemas", "older", `{"value":"text"}`)
	for _, schema := range []string{`{"type":"string"}`, `{"type":"number","maximum":1.50}`, `true`} {
		e.register(http.StatusCreated, "schemas", schema)
	}
	e.want(http.StatusOK, "PATCH", "/namespaces/schemas/schemas/1", `{"status":"active"}`)
	e.want(http.StatusOK, "PATCH", "/namespaces/schemas/schemas/2", `{"status":"active"}`)
	put("schemas", "newer", `{"value":1}`)
}

func killImport(t *testing.T, e extension, lines string) {
	t.Helper()
	polled := e.poll("0")
	cmd := exec.CommandContext(t.Context(), binary.Path(), slices.Concat([]string{"ext", "installs", "import", "--preserve", "-"}, e.flags())...)
	cmd.Env = e.server.Env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(lines, "\n")
	if _, err := io.WriteString(stdin, strings.Join(all[:len(all)/2], "")); err != nil { // exceeds one batch
		t.Errorf("the import has ended: %v\n%s", err, out.String())
	}
	if answer := <-polled; !strings.Contains(answer, "CHANGES_EXPIRED") {
		t.Errorf("the poll returned %s", answer)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("killed import succeeded")
	}
}

var (
	cursorLine = regexp.MustCompile(`(?m)^\{"cursor":.*\n`)
	ownNumbers = regexp.MustCompile(`"etag":"\\"[0-9]+\\""|"lastChange":[0-9]+`)
)

func withoutCursors(lines string) string { return cursorLine.ReplaceAllString(lines, "") }

// withoutNumbers removes server-specific numbers from an export.
func withoutNumbers(lines string) string { return ownNumbers.ReplaceAllString(lines, "") }
