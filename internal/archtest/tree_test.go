package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const modulePath = "holdfast/"

type tree struct {
	packages map[string]*pkg
}

type pkg struct {
	folder string
	files  []*file
}

type file struct {
	path    string
	test    bool
	name    string
	doc     string
	lines   int
	imports []string
	inits   []int
}

func ours(importPath string) (folder string, ok bool) {
	return strings.CutPrefix(importPath, modulePath)
}

func readTree(root fs.FS) (*tree, error) {
	t := &tree{packages: map[string]*pkg{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.ContainsRune("._", rune(d.Name()[0])) || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		f, err := readFile(root, name)
		if err != nil {
			return err
		}
		folder := path.Dir(name)
		p := t.packages[folder]
		if p == nil {
			p = &pkg{folder: folder}
			t.packages[folder] = p
		}
		p.files = append(p.files, f)
		return nil
	})
	return t, err
}

func readFile(root fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{
		path: name, test: strings.HasSuffix(name, "_test.go"),
		name: syntax.Name.Name, doc: syntax.Doc.Text(), lines: bytes.Count(src, []byte("\n")),
	}
	if ast.IsGenerated(syntax) {
		f.lines = 0 // no limit for generated files
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		f.imports = append(f.imports, imported)
	}
	for _, d := range syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			f.inits = append(f.inits, set.Position(fn.Pos()).Line)
		}
	}
	return f, nil
}

func (t *tree) folders() []string {
	all := make([]string, 0, len(t.packages))
	for folder := range t.packages {
		all = append(all, folder)
	}
	slices.Sort(all)
	return all
}

var module = sync.OnceValues(func() (*tree, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	return readTree(os.DirFS(root))
})

func findRoot() (string, error) {
	dir, err := os.Getwd() // go test runs a test in its package's folder
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fs.ErrNotExist
		}
		dir = parent
	}
}

func readModule(t *testing.T) *tree {
	t.Helper()
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	return m
}
