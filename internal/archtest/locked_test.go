package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// changesVersions lists the statements and functions that delete or change rows in object version tables, each with
// the reason why it keeps locked versions (docs/decisions/0059-object-lock.md). storetest calls each store method on
// locked versions; this list covers statements that a method might not reach.
var changesVersions = map[string]string{
	"sqlPutObject":     "write.replace has copied the row to manta_bucket_version, or write.locks has checked the null version",
	"sqlUpdateObject":  "Update.ApplyLock has checked the lock",
	"sqlUpdateVersion": "Update.ApplyLock has checked the lock",
	"sqlDeleteObject":  "checkDelete or write.checkNull has checked the lock, or the row was copied, or the bucket has no versions",
	"sqlDeleteVersion": "checkDelete or write.checkNull has checked the lock, or the row was copied to manta_bucket_object",
	"sqlPassMarker":    "sets the time of a delete marker, which has no lock",
	"sqlRevealMarker":  "sets the time of a delete marker, which has no lock",
	"sqlSetModified":   "the object was written in the same transaction",
	"sqlMoveObject":    "moves a body to other nodes", "sqlMoveVersion": "moves a body to other nodes",
	"sqlFrameObject": "sets how a body is read", "sqlFrameVersion": "sets how a body is read",

	"sqlSetMarker":     "sets the time of a delete marker, which has no lock",
	"sqlSetSuperseded": "sets when an imported version was superseded, which no lock forbids",

	"sqlUpdate": "applyLock has checked the lock",

	"bucket_put_v3":            "copies the row to manta_bucket_version before, or bucket_null_v1 has checked the null version, or the bucket has no versions",
	"bucket_keep_v1":           "sets the time of a delete marker, which has no lock",
	"bucket_delete_v2":         "bucket_keep_v1 has copied the row, or bucket_null_v1 has checked the null version, or the bucket has no versions",
	"bucket_delete_version_v1": "bucket_locked_v1 has checked the lock",
	"bucket_drop_version_v1":   "its callers are bucket_delete_version_v1, and bucket_keep_v1 after bucket_null_v1",
	"bucket_reveal_v1":         "copies the row to manta_bucket_object before",
	"bucket_delete_objects_v2": "refuses a bucket with versions", "bucket_expire_v2": "refuses a bucket with versions",
	"bucket_set_sharks_v2": "moves a body to other nodes",
}

var (
	changesVersion = regexp.MustCompile(`(?i)\b(DELETE\s+FROM|UPDATE|REPLACE\s+INTO|TRUNCATE|MERGE\s+INTO)\s+(ONLY\s+)?manta_bucket_(object|version)\b|\bINSERT\s+INTO\s+manta_bucket_(object|version)\b[^;]*ON CONFLICT`)
	definition     = regexp.MustCompile(`(?s)CREATE (?:OR REPLACE )?FUNCTION (\w+)\(.*?\$\$(.*?)\$\$;`)
	callsFunction  = regexp.MustCompile(`\bbucket_\w+_v\d+\b`)
)

// TestLockedVersions checks that the list contains every statement that deletes or changes object versions.
func TestLockedVersions(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, backend := range []string{"sqlite", "postgres"} {
		statements := textsOf(t, filepath.Join("..", "buckets", backend))
		functions := definitionsIn(t, filepath.Join("..", "buckets", backend, "migrations"))
		for name, sql := range statements {
			if changesVersion.MatchString(sql) {
				found[name] = true
			}
			for _, called := range callsFunction.FindAllString(sql, -1) {
				markChanges(functions, called, map[string]bool{}, found)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if changesVersions[name] == "" {
			t.Errorf("%s changes object versions but is not in the list: add the reason why it keeps locked versions", name)
		}
	}
	for name := range changesVersions {
		if !found[name] {
			t.Errorf("%s does not exist, or changes no versions", name)
		}
	}
}

func markChanges(functions map[string]string, name string, seen, found map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	if changesVersion.MatchString(functions[name]) {
		found[name] = true
	}
	for _, called := range callsFunction.FindAllString(functions[name], -1) {
		markChanges(functions, called, seen, found)
	}
}

// definitionsIn returns the function bodies that exist after the last migration.
func definitionsIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]string{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range definition.FindAllStringSubmatch(string(source), -1) {
			functions[f[1]] = f[2]
		}
	}
	return functions
}

func textsOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := values{}
	inFunctions := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range syntax.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				all.add(d)
			case *ast.FuncDecl:
				ast.Inspect(d, func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && changesVersion.MatchString(lit.Value) {
						inFunctions[filepath.Base(file)+" "+d.Name.Name] = lit.Value
					}
					return true
				})
			}
		}
	}
	texts := inFunctions
	for name, value := range all {
		texts[name] = all.text(value, 0)
	}
	return texts
}

func TestLockedVersionsBites(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`DELETE FROM manta_bucket_object WHERE owner = $1`, "UPDATE\n\tmanta_bucket_version SET body = NULL", `INSERT OR REPLACE INTO manta_bucket_object (id)`,
		`TRUNCATE manta_bucket_version`, `INSERT INTO manta_bucket_object (id) VALUES ($1) ON CONFLICT DO UPDATE`, `update only manta_bucket_object set id = $1`,
	} {
		if !changesVersion.MatchString(sql) {
			t.Errorf("not found: %s", sql)
		}
	}
	if changesVersion.MatchString(`INSERT INTO manta_bucket_deleted_object SELECT id FROM manta_bucket_object`) {
		t.Error("a copy counts as a change")
	}
	found := map[string]bool{}
	functions := map[string]string{"bucket_a_v1": "PERFORM bucket_b_v1();", "bucket_b_v1": "PERFORM bucket_a_v1(); DELETE FROM manta_bucket_object;"}
	if markChanges(functions, "bucket_a_v1", map[string]bool{}, found); len(found) != 1 || !found["bucket_b_v1"] {
		t.Errorf("found %v", found)
	}
}
