package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// The files of internal/app that may import services: the list of services, and the
// interfaces between services.
const (
	listFile  = "internal/app/services.go"
	linksFile = "internal/app/links.go"
)

// TestOneList checks that the server has one list of its services, and one file for what
// a service needs of another.
func TestOneList(t *testing.T) {
	t.Parallel()
	m := readModule(t)
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	report(t, composition(m, os.DirFS(root), services))
}

// composition checks which files of internal/app know services.
func composition(t *tree, source fs.FS, services []service) (wrong []string) {
	var wirings, roots, names []string
	for _, s := range services {
		wirings = append(wirings, "internal/app/"+s.wiring)
		roots = append(roots, "internal/"+s.name)
		names = append(names, s.name)
	}
	for _, folder := range []string{"internal/app", "internal/app/cli", "internal/app/console", "internal/app/service"} {
		p := t.packages[folder]
		if p == nil {
			return append(wrong, folder+" does not exist: change archtest to where the server is composed")
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, imported := range f.imports {
				of, _ := ours(imported)
				switch {
				case slices.Contains(wirings, of) && f.path != listFile && f.path != linksFile:
					wrong = append(wrong, fmt.Sprintf("%s imports %s: only %s and %s know services", f.path, of, listFile, linksFile))
				case slices.ContainsFunc(roots, func(r string) bool { return of == r || strings.HasPrefix(of, r+"/") }) && f.path != linksFile:
					wrong = append(wrong, fmt.Sprintf("%s imports %s: only %s, the interfaces between services, may", f.path, of, linksFile))
				}
			}
			for _, line := range linesNaming(source, f.path, names) {
				wrong = append(wrong, fmt.Sprintf("%s:%d names a service: put what differs between services into service.Service", f.path, line))
			}
		}
	}
	return wrong
}

// linesNaming returns the lines of a file with a string literal that is the name of a
// service.
func linesNaming(source fs.FS, name string, services []string) (lines []int) {
	text, err := fs.ReadFile(source, name)
	if err != nil {
		return []int{0}
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, path.Base(name), text, parser.SkipObjectResolution)
	if err != nil {
		return []int{0}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(services, s) {
				lines = append(lines, set.Position(lit.Pos()).Line)
			}
		}
		return true
	})
	return lines
}

// TestOneListBites runs the check on a tree that violates it.
func TestOneListBites(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{}
	for name, text := range map[string]string{
		"internal/app/services.go":     "package app\n\nimport _ \"holdfast/internal/app/toys\"\n",
		"internal/app/links.go":        "package app\n\nimport (\n\t_ \"holdfast/internal/app/toys\"\n\t_ \"holdfast/internal/toystorage\"\n)\n",
		"internal/app/app.go":          "package app\n\nimport (\n\t_ \"holdfast/internal/app/toys\"\n\t_ \"holdfast/internal/toystorage/sqlite\"\n)\n\nvar isToy = name == \"toystorage\"\n",
		"internal/app/app_test.go":     "package app\n\nimport _ \"holdfast/internal/toystorage\"\n",
		"internal/app/cli/cli.go":      "package cli\n\nvar name = \"toy\" + \"storage\"\n",
		"internal/app/console/page.go": "package console\n\nvar title = \"toystorage\"\n",
		"internal/app/service/toys.go": "package service\n\nconst toys = `toystorage`\n",
	} {
		source[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := readTree(source)
	if err != nil {
		t.Fatal(err)
	}
	got := composition(tr, source, []service{{name: "toystorage", wiring: "toys"}})
	want := []string{
		"internal/app/app.go imports internal/app/toys: only internal/app/services.go and internal/app/links.go know services",
		"internal/app/app.go imports internal/toystorage/sqlite: only internal/app/links.go, the interfaces between services, may",
		"internal/app/app.go:8 names a service: put what differs between services into service.Service",
		"internal/app/console/page.go:3 names a service: put what differs between services into service.Service",
		"internal/app/service/toys.go:3 names a service: put what differs between services into service.Service",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
