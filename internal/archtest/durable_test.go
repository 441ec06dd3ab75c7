package archtest

import (
	"cmp"
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
	"sync"
	"testing"
	"testing/fstest"
)

// durablePackage writes files that survive a power cut.
const durablePackage = "internal/durable"

// notDurable lists the os functions that create a file, folder or name without making it durable.
var notDurable = []string{"Create", "CreateTemp", "Link", "Mkdir", "MkdirAll", "MkdirTemp", "OpenFile", "Rename", "Symlink", "WriteFile"}

// undurable lists the server's files that may call these functions, with reasons.
var undurable = map[string]string{
	"internal/backup/backup.go":              "the folder has a temporary name until the backup is complete, and is renamed durably",
	"internal/buckets/maintenance/backup.go": "the list of bodies is temporary, and the folders of all links are synced once before the backup is complete",
	"internal/cli/generate.go":               "manual pages can be generated again",
	"internal/app/service/folder.go":         "a check removes the files that it creates",
	"internal/buckets/blobs/filedriver":      "it syncs its files, and one sync of a folder serves all bodies that are written to it at once",
	"internal/buckets/maintenance/sorter.go": "it syncs its files, which are renamed durably when they are complete",
	"internal/buckets/maintenance/state.go":  "the file of findings is synced before the state that refers to it, and is truncated to the length in the state",
	"internal/db/engine/open.go":             "the temporary folder of a command is removed at its end",
	"internal/db/sqlitedb/db.go":             "an empty file, whose folder is synced at once; SQLite syncs its writes",
	"internal/db/sqlitedb/lock.go":           "a lock ends with the machine, and an empty lock file is created again",
	"internal/replica/capture.go":            "after a power cut the spool begins again with all pages",
	"internal/outbox/sink.go":                "the file grows by lines, which it syncs, and its folder is synced when it is opened",
	"internal/durable":                       "it is the package that makes files durable",
}

// TestDurableFiles checks that the server creates and renames files only with package durable, so that they survive a
// power cut.
func TestDurableFiles(t *testing.T) {
	t.Parallel()
	report(t, durability(ownServer(t), undurable))
}

type serverFiles map[string]*ast.File

// ownServer returns the server's files. Tests share them, because parsing takes half a second of processor time, so they
// do not change them.
func ownServer(t *testing.T) serverFiles {
	t.Helper()
	readModule(t)
	all, err := parsedServer()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var parsedServer = sync.OnceValues(func() (serverFiles, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	return parseServer(os.DirFS(root))
})

// readServer is ownServer for the files of a test.
func readServer(t *testing.T, root fs.FS) serverFiles {
	t.Helper()
	all, err := parseServer(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parseServer parses the server's files without tests and test packages.
func parseServer(root fs.FS) (serverFiles, error) {
	all := serverFiles{}
	for _, top := range []string{"cmd", "internal"} {
		err := fs.WalkDir(root, top, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (matchesAny([]string{"internal/testdb", "internal/archtest"}, name) || slices.Contains([]string{"storetest", "testdata", "drivertest"}, d.Name())):
				return fs.SkipDir
			case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			src, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			all[name], err = parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// durability returns the files that create names without package durable, and unneeded exceptions.
func durability(files serverFiles, except map[string]string) (wrong []string) {
	used := map[string]bool{}
	for name, syntax := range files {
		key := name
		if _, ok := except[key]; !ok {
			key = path.Dir(name)
		}
		for _, call := range undurableCalls(syntax) {
			if except[key] == "" {
				wrong = append(wrong, fmt.Sprintf("%s calls %s: a power cut may lose the file; use %s", name, call, durablePackage))
			}
			used[key] = true
		}
	}
	for key, reason := range except {
		if !used[key] {
			wrong = append(wrong, fmt.Sprintf("%s creates no files, so it needs no exception (%s)", key, reason))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// importNames returns the paths of a file's imports by the names that the file uses.
func importNames(syntax *ast.File) map[string]string {
	local := map[string]string{}
	for _, spec := range syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		local[name] = imported
	}
	return local
}

// undurableCalls returns a file's calls that create names. Receiver types are unknown, so outside package durable
// every Rename and Link counts as a method on *os.Root.
func undurableCalls(syntax *ast.File) (calls []string) {
	local := importNames(syntax)
	ast.Inspect(syntax, func(n ast.Node) bool {
		selected, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, name := "", selected.Sel.Name
		if id, ok := selected.X.(*ast.Ident); ok {
			of = local[id.Name]
		}
		switch {
		case of == "os" && name == "OpenFile" && !opensNew(syntax):
		case of == "os" && slices.Contains(notDurable, name):
			calls = append(calls, "os."+name)
		case slices.Contains([]string{"", "syscall", "golang.org/x/sys/unix"}, of) && (name == "Rename" || name == "Link" || name == "Symlink"):
			calls = append(calls, cmp.Or(of, "a value")+"."+name)
		}
		return true
	})
	return calls
}

func opensNew(syntax *ast.File) (found bool) {
	ast.Inspect(syntax, func(n ast.Node) bool {
		selected, ok := n.(*ast.SelectorExpr)
		found = found || ok && selected.Sel.Name == "O_CREATE"
		return true
	})
	return found
}

func TestDurableFilesBites(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{}
	for name, text := range map[string]string{
		"cmd/tool/main.go":          "package main\n\nimport f \"os\"\n\nvar _ = f.WriteFile\n",
		"internal/a/a.go":           "package a\n\nimport \"os\"\n\nfunc b(r *os.Root) { os.Rename(\"a\", \"b\"); r.Link(\"a\", \"b\"); os.OpenFile(\"a\", os.O_RDWR, 0) }\n",
		"internal/a/a_test.go":      "package a\n\nimport \"os\"\n\nvar _ = os.Rename\n",
		"internal/b/b.go":           "package b\n\nimport \"os\"\n\nvar _, _ = os.OpenFile(\"a\", os.O_CREATE, 0)\n",
		"internal/c/c.go":           "package c\n\nimport \"os\"\n\nvar _ = os.Mkdir\n",
		"internal/d/d.go":           "package d\n\nimport \"holdfast/internal/durable\"\n\nvar _, _ = durable.Rename, durable.Create\n",
		"internal/testdb/server.go": "package testdb\n\nimport \"os\"\n\nvar _ = os.Mkdir\n",
	} {
		source[name] = &fstest.MapFile{Data: []byte(text)}
	}
	got := durability(readServer(t, source), map[string]string{"internal/c": "it may", "internal/d/d.go": "it need not"})
	want := []string{
		"cmd/tool/main.go calls os.WriteFile: a power cut may lose the file; use internal/durable",
		"internal/a/a.go calls a value.Link: a power cut may lose the file; use internal/durable",
		"internal/a/a.go calls os.Rename: a power cut may lose the file; use internal/durable",
		"internal/b/b.go calls os.OpenFile: a power cut may lose the file; use internal/durable",
		"internal/d/d.go creates no files, so it needs no exception (it need not)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
