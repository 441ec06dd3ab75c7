package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// distributed lists the packages with statements on tables that Citus distributes, with the distribution column and
// the tables. The names in internal/outbox/postgres come from the service.
var distributed = []struct {
	folder, column string
	tables         *regexp.Regexp
}{
	{"internal/syncstorage/postgres", "user_id", regexp.MustCompile(`\b(user_collections|bsos|batches|batch_bsos)\b`)},
	{
		"internal/extstorage/postgres", "tenant_id",
		regexp.MustCompile(`\bext_storage_(records|schemas|usage|namespaces|changes|answers|installs|revoked_tokens|outbox|outbox_refused)\b`),
	},
	{"internal/buckets/postgres", "owner", regexp.MustCompile(`\bmanta_bucket(_object|_deleted_bucket|_deleted_object|_upload|_part|_settings|_usage|_lifecycle|_version|_event|_event_refused)?\b`)},
	{"internal/outbox/postgres", "t.Owner", regexp.MustCompile(`\bt\.Name(_refused)?\b`)},
}

// undistributed lists the other packages with statements, with reasons.
var undistributed = map[string]string{
	"internal/db/pgdb":              "only commands, such as copy, run its statements on service tables",
	"internal/tokenserver/postgres": "Citus distributes none of its tables",
	"internal/guest/postgres":       "Citus distributes none of its tables",
	"internal/inbox/postgres":       "only the service guest has an inbox",
}

// TestStatementsNameTheirNode checks that a statement for a single distribution column value sets Key, and that a
// statement on a distributed table without that column sets Wide. This prevents a hanging Citus worker from using up
// all connections.
func TestStatementsNameTheirNode(t *testing.T) {
	t.Parallel()
	for _, d := range distributed {
		byCall := regexp.MustCompile(`_v\d+(\(\.\.\.\)|\(\w+ => \$1::(uuid|bigint)\b)`)
		byColumn := regexp.MustCompile(`\b` + regexp.QuoteMeta(d.column) + ` = \$(\d+)::`)
		found := statementsOf(t, d.folder)
		for _, s := range found {
			text, want := s.text(), ""
			if key := byColumn.FindStringSubmatch(text); key != nil {
				want = key[1]
			} else if byCall.MatchString(text) {
				want = "1"
			}
			switch {
			case s.wide || s.key != "" && (want == "" || s.key == want):
			case want != "":
				t.Errorf("%s: the statement %s needs Key: %s", s.at, s.name, want)
			case d.tables.MatchString(text):
				t.Errorf("%s: the statement %s uses every worker of Citus: it needs Wide: true", s.at, s.name)
			}
		}
		if len(found) < 10 {
			t.Errorf("%s: only %d statements found", d.folder, len(found))
		}
	}
}

var createsDistributed = regexp.MustCompile(`create_distributed_table\('(\w+)', '(\w+)'`)

// TestDistributedPackages checks that TestStatementsNameTheirNode covers every package with statements and every table
// that a migration distributes.
func TestDistributedPackages(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, d := range distributed {
		known[d.folder] = true
		for _, table := range distributedTables(t, d.folder) {
			if table[1] != d.column || d.tables.FindString(table[0]) != table[0] {
				t.Errorf("%s: the table %s, distributed by %s, is not in the list", d.folder, table[0], table[1])
			}
		}
	}
	for folder := range undistributed {
		known[folder] = true
		if tables := distributedTables(t, folder); len(tables) > 0 {
			t.Errorf("%s: distributes %v", folder, tables)
		}
	}
	for _, folder := range readModule(t).folders() {
		if !strings.HasPrefix(folder, "internal/") || folder == "internal/testdb" || strings.HasPrefix(folder, "internal/testdb/") {
			continue
		}
		found := statementsOf(t, folder)
		if len(found) > 0 && !known[folder] {
			t.Errorf("%s: has statements, such as %s, and is in neither list", found[0].at, found[0].name)
		}
		if len(found) == 0 && known[folder] {
			t.Errorf("%s: has no statements", folder)
		}
	}
}

func distributedTables(t *testing.T, folder string) (tables [][]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "migrations", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range createsDistributed.FindAllStringSubmatch(string(source), -1) {
			tables = append(tables, found[1:])
		}
	}
	return tables
}

type literal struct {
	at, name, key string
	sql           ast.Expr
	names         values
	wide          bool
}

func (s literal) text() string { return s.names.text(s.sql, 0) }

// values maps names to values, for the names in a package and in the function around a statement.
type values map[string]ast.Expr

// text returns an expression's string literals and selectors, e.g. t.Name.
func (v values) text(e ast.Expr, depth int) (all string) {
	if depth > 5 {
		return ""
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil {
				all += s
			}
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok {
				all += of.Name + "." + n.Sel.Name
				return false
			}
		case *ast.Ident:
			if value := v[n.Name]; value != nil {
				all += v.text(value, depth+1)
			}
		}
		return true
	})
	return all
}

func (v values) add(decl ast.Node) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					v[name.Name] = n.Values[i]
				}
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if name, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					v[name.Name] = n.Rhs[i]
				}
			}
		}
		return true
	})
}

func statementsOf(t *testing.T, folder string) (found []literal) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set, ofPackage := token.NewFileSet(), values{}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, path, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		for _, decl := range file.Decls {
			if _, ok := decl.(*ast.GenDecl); ok {
				ofPackage.add(decl)
			}
		}
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			names := maps.Clone(ofPackage)
			names.add(decl)
			found = append(found, statementsIn(decl, names, set, folder == "internal/db/pgdb")...)
		}
	}
	return found
}

// statementsIn returns the statements in a declaration. In package pgdb their type has no package name.
func statementsIn(decl ast.Decl, names values, set *token.FileSet, own bool) (found []literal) {
	ast.Inspect(decl, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch of := lit.Type.(type) {
		case *ast.SelectorExpr:
			ok = of.Sel.Name == "Statement"
			if pkg, is := of.X.(*ast.Ident); !is || pkg.Name != "pgdb" {
				ok = false
			}
		case *ast.Ident:
			ok = own && of.Name == "Statement"
		default:
			ok = false
		}
		if ok {
			s := literalOf(lit, set.Position(lit.Pos()).String())
			s.names = names
			found = append(found, s)
		}
		return true
	})
	return found
}

func literalOf(n *ast.CompositeLit, at string) literal {
	s := literal{at: at, sql: n}
	for _, e := range n.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch field, _ := pair.Key.(*ast.Ident); field.Name {
		case "Name":
			if name, ok := pair.Value.(*ast.BasicLit); ok {
				s.name = name.Value
			}
		case "SQL":
			s.sql = pair.Value
		case "Key":
			if number, ok := pair.Value.(*ast.BasicLit); ok {
				s.key = number.Value
			}
		case "Wide":
			s.wide = true
		}
	}
	return s
}

func TestStatementsNameTheirNodeBites(t *testing.T) {
	t.Parallel()
	e, err := parser.ParseExpr("pgdb.Statement{Name: `x`, Key: 1, SQL: `SELECT ` + columns + ofOwner}")
	if err != nil {
		t.Fatal(err)
	}
	owner, err := parser.ParseExpr("` FROM bsos WHERE user_id = $1::bigint`")
	if err != nil {
		t.Fatal(err)
	}
	s := literalOf(e.(*ast.CompositeLit), "here")
	s.names = values{"ofOwner": owner}
	if text := s.text(); s.key != "1" || s.wide || s.name != "`x`" || !strings.HasSuffix(text, "WHERE user_id = $1::bigint") {
		t.Errorf("%+v with the text %s", s, text)
	}
}
