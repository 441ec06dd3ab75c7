package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestQuickTests checks that the tests selected for `make test` exist, because go test does not miss a name: each string
// that starts with Test in a file with binary.Select is a test in the same package.
func TestQuickTests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../test/*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("../../test/*/*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests, selected := map[string]bool{}, map[string]string{} // folder and name; the file that selects it
	for _, file := range append(files, deeper...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		selects := strings.Contains(string(text), "binary.Select(")
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				tests[filepath.Join(filepath.Dir(file), n.Name.Name)] = true
			case *ast.BasicLit:
				if name, err := strconv.Unquote(n.Value); err == nil && selects && strings.HasPrefix(name, "Test") {
					selected[filepath.Join(filepath.Dir(file), name)] = file
				}
			}
			return true
		})
	}
	for name, file := range selected {
		if !tests[name] {
			t.Errorf("%s: there is no test %s", file, filepath.Base(name))
		}
	}
	if len(selected) < 40 {
		t.Errorf("%d selected tests, want at least 40", len(selected))
	}
}
