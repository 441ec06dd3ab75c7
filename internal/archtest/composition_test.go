package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// Files in internal/app that may import services: the service list, and the interfaces between services.
const (
	listFile  = "internal/app/services.go"
	linksFile = "internal/app/links.go"
)

// maxRootFiles limits the files directly in internal/app, without tests: the service list, the lifecycle, the
// listeners and the configuration. Everything else belongs in other packages.
const maxRootFiles = 20

// helpFolder contains help texts, whose examples may name services.
const helpFolder = "internal/cli"

// TestOneList checks that the server has a single service list, and a single file for dependencies between services.
func TestOneList(t *testing.T) {
	t.Parallel()
	m := readModule(t)
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	folders := slices.Concat([]string{"internal/app", helpFolder, "internal/app/console", "internal/app/service"}, besidePackages())
	report(t, composition(m, os.DirFS(root), services, folders))
	report(t, anyEngine(m, os.DirFS(root), []string{"internal/app", "internal/copying", "internal/importing"}))
}

// composition checks which files that compose the server know services.
func composition(t *tree, source fs.FS, services []service, folders []string) (wrong []string) {
	var wirings, roots, names []string
	for _, s := range services {
		wirings = append(wirings, "internal/app/"+s.wiring)
		roots = append(roots, "internal/"+s.name)
		names = append(names, s.name)
	}
	words := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
	exact := regexp.MustCompile(`^(` + strings.Join(names, "|") + `)$`)
	for _, folder := range folders {
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
			pattern := words
			if folder == helpFolder {
				pattern = exact
			}
			for _, line := range linesMatching(source, f.path, pattern) {
				wrong = append(wrong, fmt.Sprintf("%s:%d names a service: put what differs between services into service.Service", f.path, line))
			}
		}
	}
	return append(wrong, root(t)...)
}

// root checks the size of internal/app, and that only commands import it.
func root(t *tree) (wrong []string) {
	n := 0
	for _, f := range t.packages["internal/app"].files {
		if !f.test {
			n++
		}
	}
	if n > maxRootFiles {
		wrong = append(wrong, fmt.Sprintf("internal/app has %d files, more than %d: keep the list of services, the lifecycle, the listeners and the configuration, and move the rest to other packages", n, maxRootFiles))
	}
	for _, folder := range t.folders() {
		if !strings.HasPrefix(folder, "internal/") || folder == helpFolder {
			continue
		}
		for _, f := range t.packages[folder].files {
			if !f.test && slices.Contains(f.imports, modulePath+"internal/app") {
				wrong = append(wrong, f.path+" imports internal/app: only "+helpFolder+" and main may; move code that both need to another package")
			}
		}
	}
	return wrong
}

// engineNames are the engines' identifiers in code: constants in package engine, and fields in tables.
var engineNames = []string{"SQLite", "Postgres", "Spanner", "Redis"}

// anyEngine checks that packages treat all engines alike: differences are traits in package engine.
func anyEngine(t *tree, source fs.FS, folders []string) (wrong []string) {
	for _, folder := range folders {
		for _, f := range t.packages[folder].files {
			if f.test || f.path == linksFile {
				continue
			}
			for _, imported := range f.imports {
				if of, _ := ours(imported); slices.Contains([]string{"internal/db/sqlitedb", "internal/db/pgdb", "internal/db/spannerdb", "internal/db/redisdb"}, of) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s: put what differs between engines into engine.Traits", f.path, of))
				}
			}
			for _, line := range linesSelecting(source, f.path, engineNames) {
				wrong = append(wrong, fmt.Sprintf("%s:%d names an engine: put what differs between engines into engine.Traits", f.path, line))
			}
		}
	}
	return wrong
}

func parse(source fs.FS, name string) (*ast.File, *token.FileSet, error) {
	text, err := fs.ReadFile(source, name)
	if err != nil {
		return nil, nil, err
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, path.Base(name), text, parser.SkipObjectResolution)
	return syntax, set, err
}

func linesMatching(source fs.FS, name string, pattern *regexp.Regexp) (lines []int) {
	syntax, set, err := parse(source, name)
	if err != nil {
		return []int{0}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && pattern.MatchString(s) {
				lines = append(lines, set.Position(lit.Pos()).Line)
			}
		}
		return true
	})
	return lines
}

func linesSelecting(source fs.FS, name string, names []string) (lines []int) {
	syntax, set, err := parse(source, name)
	if err != nil {
		return []int{0}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, s.Sel.Name) {
			lines = append(lines, set.Position(s.Sel.Pos()).Line)
		}
		return true
	})
	return lines
}

func TestOneListBites(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{}
	for name, text := range map[string]string{
		"internal/app/services.go":     "package app\n\nimport _ \"holdfast/internal/app/toys\"\n",
		"internal/app/links.go":        "package app\n\nimport (\n\t_ \"holdfast/internal/app/toys\"\n\t_ \"holdfast/internal/toystorage\"\n)\n",
		"internal/app/app.go":          "package app\n\nimport (\n\t_ \"holdfast/internal/app/toys\"\n\t_ \"holdfast/internal/toystorage/sqlite\"\n)\n\nvar isToy = name == \"toystorage\"\n",
		"internal/app/app_test.go":     "package app\n\nimport _ \"holdfast/internal/toystorage\"\n",
		"internal/cli/cli.go":          "package cli\n\nimport _ \"holdfast/internal/app\"\n\nvar name = \"toy\" + \"storage\" // for example: toystorage\n\nvar help = \"such as toystorage\"\n",
		"internal/copying/copy.go":     "package copying\n\nimport (\n\t_ \"holdfast/internal/app\"\n\t_ \"holdfast/internal/db/spannerdb\"\n)\n\nvar says = \"the toystorage\"\n\nvar isToy = kind == engine.Spanner\n",
		"internal/app/console/page.go": "package console\n\nvar title = \"toystorage\"\n",
		"internal/app/service/toys.go": "package service\n\nconst toys = `toystorage`\n",
	} {
		source[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := readTree(source)
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{"internal/app", "internal/cli", "internal/app/console", "internal/app/service", "internal/copying"}
	got := append(composition(tr, source, []service{{name: "toystorage", wiring: "toys"}}, folders), anyEngine(tr, source, []string{"internal/copying"})...)
	want := []string{
		"internal/app/app.go imports internal/app/toys: only internal/app/services.go and internal/app/links.go know services",
		"internal/app/app.go imports internal/toystorage/sqlite: only internal/app/links.go, the interfaces between services, may",
		"internal/app/app.go:8 names a service: put what differs between services into service.Service",
		"internal/app/console/page.go:3 names a service: put what differs between services into service.Service",
		"internal/app/service/toys.go:3 names a service: put what differs between services into service.Service",
		"internal/copying/copy.go:8 names a service: put what differs between services into service.Service",
		"internal/copying/copy.go imports internal/app: only internal/cli and main may; move code that both need to another package",
		"internal/copying/copy.go imports internal/db/spannerdb: put what differs between engines into engine.Traits",
		"internal/copying/copy.go:10 names an engine: put what differs between engines into engine.Traits",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestRootBites(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{"internal/app/app_test.go": &fstest.MapFile{Data: []byte("package app")}, "internal/app/sub/sub.go": &fstest.MapFile{Data: []byte("package sub")}}
	for i := range maxRootFiles {
		source[fmt.Sprintf("internal/app/f%d.go", i)] = &fstest.MapFile{Data: []byte("package app")}
	}
	for _, more := range []int{0, 1} {
		if more == 1 {
			source["internal/app/more.go"] = &fstest.MapFile{Data: []byte("package app")}
		}
		tr, err := readTree(source)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := root(tr); len(wrong) != more {
			t.Errorf("with %d files more than allowed: %q", more, wrong)
		}
	}
}
