package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

// maxParameters is how many parameters a function of the server has at most. A variadic list is not
// counted. What belongs together beyond that is a struct, whose fields have names where the function is called.
const maxParameters = 5

func TestParameters(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	readModule(t) // lets the cache of go test notice a change of any file
	report(t, parameters(readServer(t, os.DirFS(root))))
}

// parameters returns the functions, and the methods of interfaces, that have too many parameters.
func parameters(files serverFiles) (wrong []string) {
	for file, syntax := range files {
		ast.Inspect(syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				wrong = append(wrong, tooMany(file, n.Name.Name, n.Type)...)
			case *ast.InterfaceType:
				for _, m := range n.Methods.List {
					if of, ok := m.Type.(*ast.FuncType); ok {
						wrong = append(wrong, tooMany(file, m.Names[0].Name, of)...)
					}
				}
			}
			return true
		})
	}
	slices.Sort(wrong)
	return wrong
}

func tooMany(file, name string, of *ast.FuncType) []string {
	n := 0
	for _, p := range of.Params.List {
		if _, variadic := p.Type.(*ast.Ellipsis); !variadic {
			n += max(1, len(p.Names))
		}
	}
	if n <= maxParameters {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s has %d parameters, more than %d: make a struct of those that belong together", file, name, n, maxParameters)}
}

// TestParametersBite: functions and methods of interfaces with too many parameters are reported.
func TestParametersBite(t *testing.T) {
	t.Parallel()
	source := `package toy

type Store interface {
	Put(a, b, c string, d, e, f int)
	Get(a, b, c string, d, e int)
}

func long(a, b, c, d string, _ int, _ bool) {}

func list(a, b, c, d, e string, more ...string) {}
`
	got := parameters(readServer(t, fstest.MapFS{"cmd/toy.go": &fstest.MapFile{Data: []byte("package main\n")}, "internal/toy/toy.go": &fstest.MapFile{Data: []byte(source)}}))
	want := []string{
		"internal/toy/toy.go: Put has 6 parameters, more than 5: make a struct of those that belong together",
		"internal/toy/toy.go: long has 6 parameters, more than 5: make a struct of those that belong together",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
