package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// distributed are the services that Citus distributes: their packages, the distribution column,
// and the tables.
var distributed = []struct {
	folder, column string
	tables         *regexp.Regexp
}{
	{"internal/syncstorage/postgres", "user_id", regexp.MustCompile(`\b(user_collections|bsos|batches|batch_bsos)\b`)},
	{"internal/extstorage/postgres", "tenant_id", regexp.MustCompile(`\bext_storage_(records|schemas|usage|namespaces|changes|answers|installs|revoked_tokens|outbox)\b`)},
	{"internal/buckets/postgres", "owner", regexp.MustCompile(`\bmanta_bucket(_object|_deleted_bucket|_deleted_object|_upload|_part|_settings|_usage)?\b`)},
}

// TestStatementsNameTheirNode: a statement for one value of the distribution column has its Key, and
// one that uses a distributed table without it is Wide, so that no worker of Citus that hangs takes
// all connections.
func TestStatementsNameTheirNode(t *testing.T) {
	t.Parallel()
	for _, d := range distributed {
		key := regexp.MustCompile(`\b` + d.column + ` = \$1::|_v\d+\((\.\.\.\)|\w+ => \$1::(uuid|bigint)\b)`)
		names, found := statementsOf(t, d.folder)
		for _, s := range found {
			text := names.text(s.sql, 0)
			switch {
			case s.key || s.wide:
			case key.MatchString(text):
				t.Errorf("%s: the statement %s needs Key: 1", s.at, s.name)
			case d.tables.MatchString(text):
				t.Errorf("%s: the statement %s uses every worker of Citus: it needs Wide: true", s.at, s.name)
			}
		}
		if len(found) < 10 {
			t.Errorf("%s: only %d statements found", d.folder, len(found))
		}
	}
}

// literal is a statement in the source.
type literal struct {
	at, name  string
	sql       ast.Expr
	key, wide bool
}

// values are the values of the names of a package.
type values map[string]ast.Expr

// text returns the string literals of an expression.
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
		case *ast.Ident:
			if value := v[n.Name]; value != nil {
				all += v.text(value, depth+1)
			}
		}
		return true
	})
	return all
}

func statementsOf(t *testing.T, folder string) (names values, found []literal) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names = values{}
	set := token.NewFileSet()
	for _, path := range files {
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
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						names[name.Name] = n.Values[i]
					}
				}
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Statement" {
					found = append(found, literalOf(n, set.Position(n.Pos()).String()))
				}
			}
			return true
		})
	}
	return names, found
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
			s.key = true
		case "Wide":
			s.wide = true
		}
	}
	return s
}

// TestStatementsNameTheirNodeBites finds statements in this source.
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
	if text := (values{"ofOwner": owner}).text(s.sql, 0); !s.key || s.wide || s.name != "`x`" || !strings.HasSuffix(text, "WHERE user_id = $1::bigint") {
		t.Errorf("%+v with the text %s", s, text)
	}
}
