package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// internalErrors lists the functions that say "internal error", with the reason why no operator can end it. Something that
// an operator can end gets a sentence of its own: for errors of drivers, package tests walk those that are known
// (TestFixableErrors), and TestOutsideFailures walks failures outside of the server.
var internalErrors = map[string]string{
	"internal/app/console/console.go Message":               "an error with Fix is shown before",
	"internal/app/handlers.go notFound":                     "it only answers 404, so only a panic is an error",
	"internal/buckets/httpapi/errors.go asRefusal":          "clients of the service; operators see the log",
	"internal/db/pgdb/classify.go classify":                 "all classes of errors of the server, the network and files are known before",
	"internal/db/pgdb/classify.go classifyState":            "the classes that remain are faults of a statement",
	"internal/db/spannerdb/classify.go classifyStatus":      "the codes that remain are faults of a statement",
	"internal/db/spannerdb/statement.go Exec":               "a mutation changed other rows than it names",
	"internal/db/sqlitedb/classify.go classify":             "all results of SQLite that the file system or another process causes are known before",
	"internal/db/sqlitedb/writer.go protect":                "a panic",
	"internal/extstorage/httpapi/errors.go problemOf":       "clients of the service; operators see the log",
	"internal/extstorage/postgres/install.go broken":        "the server wrote what it cannot decode",
	"internal/extstorage/postgres/registry.go schemaOf":     "a function of the server answered something else",
	"internal/extstorage/postgres/restore.go Restore":       "a function of the server answered something else",
	"internal/extstorage/postgres/revise.go reviseAll":      "a panic",
	"internal/extstorage/postgres/revise.go reviseTogether": "a lock did not hold",
	"internal/extstorage/postgres/write.go unexpected":      "a function of the server answered something else",
	"internal/extstorage/sqlite/apply.go replay":            "the server wrote what it cannot decode",
	"internal/extstorage/sqlite/apply.go keep":              "its own types cannot be encoded",
	"internal/extstorage/sqlite/delete.go setDeleted":       "its own types cannot be encoded",
	"internal/extstorage/sqlite/install.go scanInstall":     "the server wrote what it cannot decode",
	"internal/extstorage/sqlite/install.go SetInstall":      "its own types cannot be encoded",
	"internal/operate/run.go do":                            "a panic",
	"internal/syncstorage/postgres/list.go must":            "a list has other rows than were counted",
	"internal/syncstorage/postgres/write.go unexpected":     "a function of the server answered something else",
	"internal/syncstorage/spanner/read.go nameAll":          "a collection has no name",
	"internal/syncstorage/spanner/read.go errTwice":         "a record was returned twice",
	"internal/syncstorage/spanner/read.go errShort":         "a list has fewer rows than were counted",
	"internal/web/handler.go serve":                         "a panic",
	"internal/web/problem/problem.go Refusal":               "clients of the service; operators see the log",
}

// TestInternalErrors checks that each function that says "internal error" has a reason.
func TestInternalErrors(t *testing.T) {
	t.Parallel()
	report(t, saysInternal(ownServer(t), internalErrors))
}

// saysInternal returns the functions and variables with a text that begins with "internal error" and have no reason, and
// the reasons that nothing needs.
func saysInternal(files serverFiles, except map[string]string) (wrong []string) {
	used := map[string]bool{}
	for name, syntax := range files {
		for _, d := range syntax.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				if s, err := strconv.Unquote(text.Value); err != nil || !strings.HasPrefix(s, "internal error") {
					return true
				}
				key := name + " " + holder(d, text.Pos())
				used[key] = true
				if except[key] == "" {
					wrong = append(wrong, fmt.Sprintf("%s says internal error: say what is wrong and what to do, or give the reason in this test", key))
				}
				return true
			})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(except)) {
		if !used[key] {
			wrong = append(wrong, key+" does not say internal error: remove it from this test")
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// holder names the function or variable that contains a position.
func holder(d ast.Decl, at token.Pos) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && v.Pos() <= at && at < v.End() {
				return v.Names[0].Name
			}
		}
	}
	return "?"
}

// TestInternalErrorsBite checks that the rule finds a violation.
func TestInternalErrorsBite(t *testing.T) {
	t.Parallel()
	files := readServer(t, fstest.MapFS{"cmd/b/b.go": {Data: []byte("package b\n")}, "internal/a/a.go": {Data: []byte("package a\nvar err = \"internal error\"\nfunc F() string { return \"internal error: x\" }\nfunc G() string { return \"no internal error\" }\n")}})
	got := saysInternal(files, map[string]string{"internal/a/a.go F": "a panic", "internal/a/a.go G": "stale"})
	want := []string{"internal/a/a.go G does not say internal error: remove it from this test", "internal/a/a.go err says internal error: say what is wrong and what to do, or give the reason in this test"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
