package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// policyFolder decides by condition values, and valuesFile of each listener fills them.
const policyFolder, valuesFile = "internal/buckets/policy", "values.go"

// TestPolicyValues checks that condition values come from the parsed operation: no code that fills or evaluates them
// reads a request.
func TestPolicyValues(t *testing.T) {
	t.Parallel()
	report(t, policyValues(ownServer(t)))
}

func policyValues(files serverFiles) (wrong []string) {
	filled := map[string]bool{} // folders
	for file, syntax := range files {
		v := valuesReader{file, path.Dir(file), path.Base(file) == valuesFile}
		if v.folder != policyFolder && !imports(syntax, modulePath+policyFolder) {
			continue
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			if madeValues(n) != "" {
				filled[v.folder] = true
			}
			if problem := v.problem(n); problem != "" {
				wrong = append(wrong, problem)
			}
			return true
		})
	}
	if len(filled) < 2 {
		wrong = append(wrong, fmt.Sprintf("%d listeners fill condition values, want 2 or more", len(filled)))
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// valuesReader is a file of policyFolder, or one that imports it.
type valuesReader struct {
	file, folder string
	fills        bool // whether it is a valuesFile
}

// problem describes a mistake in a node of the file, or returns "".
func (v valuesReader) problem(n ast.Node) string {
	switch n := n.(type) {
	case *ast.ImportSpec:
		if n.Path.Value == `"net/http"` && (v.fills || v.folder == policyFolder) {
			return v.file + " imports net/http: condition values come from the parsed operation"
		}
	case *ast.SelectorExpr:
		if v.fills && slices.Contains([]string{"in", "query", "Header", "Values", "URL"}, n.Sel.Name) && !isPackage(n.X, "policy") {
			return fmt.Sprintf("%s reads .%s: condition values come from the parsed operation", v.file, n.Sel.Name)
		}
	case *ast.CompositeLit:
		if made := madeValues(n); made != "" && !v.fills {
			return fmt.Sprintf("%s makes a policy.%s: only %s does", v.file, made, valuesFile)
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Context" && !v.fills && !isValues(n.Value) && v.folder != policyFolder {
			return v.file + " passes another Context: expected the values of " + valuesFile
		}
	}
	return ""
}

// madeValues returns which type with condition values a literal makes, "Values" or "Operation". It returns "" for any
// other node.
func madeValues(n ast.Node) string {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	of, ok := literal.Type.(*ast.SelectorExpr)
	if !ok || !isPackage(of.X, "policy") || of.Sel.Name != "Values" && of.Sel.Name != "Operation" {
		return ""
	}
	return of.Sel.Name
}

func imports(syntax *ast.File, name string) bool {
	return slices.ContainsFunc(syntax.Imports, func(i *ast.ImportSpec) bool { return strings.Trim(i.Path.Value, `"`) == name })
}

func isPackage(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// isValues reports whether an expression is x.values(…) or a variable of this name.
func isValues(x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok {
		of, ok := call.Fun.(*ast.SelectorExpr)
		return ok && of.Sel.Name == "values"
	}
	return isPackage(x, "values")
}

func TestPolicyValuesBite(t *testing.T) {
	t.Parallel()
	source := func(pkg, text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package " + pkg + "\n\nimport (\n\t\"holdfast/internal/buckets/policy\"\n\t\"net/http\"\n)\n\n" + text)}
	}
	got := policyValues(readServer(t, fstest.MapFS{
		"cmd/toy.go":                       &fstest.MapFile{Data: []byte("package main\n")},
		"internal/buckets/policy/key.go":   &fstest.MapFile{Data: []byte("package policy\n\nimport \"net/http\"\n\nvar h http.Header\n")},
		"internal/toy/values.go":           source("toy", "func (x *t) values() policy.Values { return policy.Values{Now: x.in.Header, Version: x.query} }\n"),
		"internal/toy/policy.go":           source("toy", "var v = policy.Values{}\n\nvar r = policy.Request{Context: headers}\n"),
		"internal/other/policy.go":         source("other", "func (x *t) check() { return policy.Request{Context: x.values(1)} }\n"),
		"internal/unrelated/values.go":     &fstest.MapFile{Data: []byte("package unrelated\n\nimport \"net/http\"\n\nvar h = r.Header\n")},
		"internal/unrelated/unrelated.go":  &fstest.MapFile{Data: []byte("package unrelated\n")},
		"internal/buckets/policy/parse.go": &fstest.MapFile{Data: []byte("package policy\n")},
	}))
	want := []string{
		"1 listeners fill condition values, want 2 or more",
		"internal/buckets/policy/key.go imports net/http: condition values come from the parsed operation",
		"internal/toy/policy.go makes a policy.Values: only values.go does",
		"internal/toy/policy.go passes another Context: expected the values of values.go",
		"internal/toy/values.go imports net/http: condition values come from the parsed operation",
		"internal/toy/values.go reads .Header: condition values come from the parsed operation",
		"internal/toy/values.go reads .in: condition values come from the parsed operation",
		"internal/toy/values.go reads .query: condition values come from the parsed operation",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
