package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
	"testing/fstest"
)

// maxParameters limits a function's parameters, without a variadic parameter. More parameters belong in a struct,
// whose fields are named at the call.
const maxParameters = 5

func TestParameters(t *testing.T) {
	t.Parallel()
	report(t, parameters(ownServer(t)))
}

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
	return []string{fmt.Sprintf("%s: %s has %d parameters, more than %d: group related parameters in a struct", file, name, n, maxParameters)}
}

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
		"internal/toy/toy.go: Put has 6 parameters, more than 5: group related parameters in a struct",
		"internal/toy/toy.go: long has 6 parameters, more than 5: group related parameters in a struct",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
