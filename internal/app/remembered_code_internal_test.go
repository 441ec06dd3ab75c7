package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// notRemembered lists places that look like a remembered failure, with the reason why none is shown later.
var notRemembered = map[string]string{
	"app.ServerState.ReloadRefused":               "an answer of the API",
	"app.ServiceState.Reason":                     "an answer of the API",
	"app/buckets.drainOutput.Reasons":             "the result of a command",
	"buckets/blobs/filedriver.syncBatch.err":      "ends with the writes that share a sync",
	"buckets/maintenance.Drained.Reasons":         "the result of a job",
	"buckets/maintenance.ServiceOptions.ReadOnly": "an option",
	"certificates.ACME.warned":                    "keeps the log from repeating itself",
	"changes.Entry.Failed":                        "history: the change itself told its error",
	"db/sourcedb.cause.err":                       "ends with the import",
	"db/sqlitedb.pendingWrite.err":                "ends with the write",
	"extstorage/postgres.answer.Error":            "a statement's result",
	"extstorage/postgres.outcome.err":             "ends with the write",
	"guest/handoffs.Refusal.Reason":               "history of refused attempts, swept with its handoff",
	"guest/tenants.Suspension.Reason":             "a state that a tenant's operator set",
	"jsonschema.Entry.err":                        "a schema that is not valid never becomes valid",
	"jsonschema.verdict.Broken":                   "the result of a trial",
	"jsonschema.verdict.Reason":                   "the result of a trial",
	"obs.traffic.errors":                          "a counter",
	"readonly.settled.warned":                     "keeps the log from repeating itself",
	"replica.guarded.err":                         "ends with the body",
	"replica.source.broken":                       "the next capture begins with all pages",
	"tokenserver/fxa.fetchedKeys.failure":         "a pause of a minute; each check asks the accounts server itself",
	"web.response.full":                           "ends with the response",
	"SQL:handoff_refusals.reason":                 "see guest/handoffs.Refusal",
	"SQL:inbox_quarantine.reason":                 "history, deleted after 30 days",
	"SQL:tenant_suspended_cache.reason":           "see guest/tenants.Suspension",
}

var (
	failureWord   = regexp.MustCompile(`(?i)(problem|fail|damage|warned|refus|broken|lasterr|says|noticed|unready|unhealthy|^err$|error|reason|down$)`)
	failureColumn = regexp.MustCompile(`(?i)^\s+([a-z_]*(?:reason|error|problem|failure|damage|failed)[a-z_]*)\s+TEXT`)
	tableName     = regexp.MustCompile(`(?i)^CREATE TABLE (?:IF NOT EXISTS )?(?:[a-z_]+\.)?([a-z_]+)`)
	testPackages  = regexp.MustCompile(`/(testdb|testdata|storetest|workload|suite|webtest|servicetest|archtest|openapitest|sigv4test|hotstatetest|drivertest)(/|$)`)
)

// TestRememberedIsWhole finds every place in the code that keeps a failure: a field of a struct that goroutines share, or
// that is stored as JSON, and a column. Each is in allRemembered, or in notRemembered with a reason.
func TestRememberedIsWhole(t *testing.T) {
	t.Parallel()
	found := keptFailures(t, os.DirFS(".."))
	if len(found) < 40 {
		t.Fatalf("only %d places found", len(found))
	}
	declared := maps.Clone(notRemembered)
	for _, one := range allRemembered {
		if one.begin == nil || one.shown == "" || one.ends == "" || one.off == "" {
			t.Errorf("%s: incomplete", one.name)
		}
		for _, place := range one.held {
			declared[place] = one.name
		}
	}
	for _, place := range found {
		if declared[place] == "" {
			t.Errorf("%s keeps a failure: declare it in allRemembered, or give the reason in notRemembered", place)
		}
	}
	for place := range declared {
		if !slices.Contains(found, place) {
			t.Errorf("%s is declared, but the code has no such place", place)
		}
	}
}

// shared is a struct with its package, to resolve its fields' types.
type keptStruct struct {
	folder  string
	syntax  *ast.StructType
	imports map[string]string // by the package's name
}

// keptFailures returns the places below a folder, as in remembered.held.
func keptFailures(t *testing.T, root fs.FS) (found []string) {
	t.Helper()
	all := map[string]keptStruct{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && testPackages.MatchString("/"+name):
			return fs.SkipDir
		case path.Ext(name) == ".sql":
			text, err := fs.ReadFile(root, name)
			found = append(found, failureColumns(string(text))...)
			return err
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return structsOf(all, name, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	isShared := map[string]bool{}
	for name, s := range all {
		for _, f := range s.syntax.Fields.List {
			if of := typeName(f.Type); strings.HasPrefix(of, "sync.Mutex") || strings.HasPrefix(of, "sync.RWMutex") || strings.HasPrefix(of, "atomic.") {
				markShared(all, name, isShared)
			}
		}
	}
	for name, s := range all {
		for _, f := range s.syntax.Fields.List {
			isStored := f.Tag != nil && strings.Contains(f.Tag.Value, "json:") && !strings.Contains(f.Tag.Value, "doc:") && !strings.Contains(f.Tag.Value, "title:") && !strings.HasPrefix(s.folder, "operate")
			for _, field := range f.Names {
				if (isShared[name] || isStored) && keepsFailure(field.Name, typeName(f.Type)) {
					found = append(found, name+"."+field.Name)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func structsOf(all map[string]keptStruct, name string, text []byte) error {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	imports := map[string]string{}
	for _, spec := range syntax.Imports {
		if folder, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "holdfast/internal/"); ok {
			imports[path.Base(folder)] = folder
		}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				all[path.Dir(name)+"."+spec.Name.Name] = keptStruct{path.Dir(name), s, imports}
			}
		}
		return true
	})
	return nil
}

// markShared marks a struct, and the structs in its fields.
func markShared(all map[string]keptStruct, name string, isShared map[string]bool) {
	s, ok := all[name]
	if !ok || isShared[name] {
		return
	}
	isShared[name] = true
	for _, f := range s.syntax.Fields.List {
		for _, inner := range typesIn(f.Type) {
			switch of := inner.(type) {
			case *ast.Ident:
				markShared(all, s.folder+"."+of.Name, isShared)
			case *ast.SelectorExpr:
				markShared(all, s.imports[typeName(of.X)]+"."+of.Sel.Name, isShared)
			}
		}
	}
}

// typesIn returns the names in a type, without function results and map keys.
func typesIn(of ast.Expr) []ast.Expr {
	switch of := of.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return []ast.Expr{of}
	case *ast.StarExpr:
		return typesIn(of.X)
	case *ast.ArrayType:
		return typesIn(of.Elt)
	case *ast.MapType:
		return typesIn(of.Value)
	case *ast.IndexExpr:
		return append(typesIn(of.X), typesIn(of.Index)...)
	}
	return nil
}

func typeName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return typeName(of.X) + "." + of.Sel.Name
	case *ast.StarExpr:
		return "*" + typeName(of.X)
	case *ast.ArrayType:
		return "[]" + typeName(of.Elt)
	case *ast.MapType:
		return "map[" + typeName(of.Key) + "]" + typeName(of.Value)
	case *ast.IndexExpr:
		return typeName(of.X) + "[" + typeName(of.Index) + "]"
	}
	return "other"
}

// keepsFailure reports whether a field keeps an error, or a text, flag or pointer that is named like one.
func keepsFailure(name, of string) bool {
	if of == "error" || strings.HasSuffix(of, "]error") || strings.HasSuffix(of, "[error]") {
		return true
	}
	return failureWord.MatchString(name) && (of == "bool" || strings.HasSuffix(of, "string") || strings.HasPrefix(of, "atomic.") || strings.HasPrefix(of, "map[string]*"))
}

// failureColumns returns a migration's columns that are named like a failure.
func failureColumns(sql string) (found []string) {
	table := ""
	for line := range strings.Lines(sql) {
		if m := tableName.FindStringSubmatch(line); m != nil {
			table = strings.TrimPrefix(m[1], "bff_consumer_")
		}
		if m := failureColumn.FindStringSubmatch(line); m != nil {
			found = append(found, "SQL:"+table+"."+m[1])
		}
	}
	return found
}

// TestRememberedIsWholeBites checks that fields of shared structs, stored members and columns are found, and other fields
// are not.
func TestRememberedIsWholeBites(t *testing.T) {
	t.Parallel()
	got := keptFailures(t, fstest.MapFS{
		"a/a.go": {Data: []byte(`package a

import "holdfast/internal/b"

type shared struct {
	mu    sync.Mutex
	inner map[string]*inner
	other b.Other
	n     int
}

type inner struct{ err error }

type request struct{ err error }

type stored struct {
	Says string ` + "`json:\"says\"`" + `
	Name string ` + "`json:\"name\"`" + `
}`)},
		"b/b.go":                  {Data: []byte("package b\n\ntype Other struct { last map[string]error; failures int }")},
		"c/sqlite/0001_first.sql": {Data: []byte("CREATE TABLE jobs (\n\tid INTEGER,\n\tlast_error TEXT\n);")},
	})
	if want := []string{"SQL:jobs.last_error", "a.inner.err", "a.stored.Says", "b.Other.last"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
