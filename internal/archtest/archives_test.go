package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// archives are the packages that read files which somebody else may have written: backups, replicas, exports, dumps, imports,
// and databases that were restored. A package that imports one of foreignFormats must be here.
var archives = []string{
	"internal/app/buckets", "internal/app/ext", "internal/app/guest", "internal/app/overview", "internal/app/service", "internal/app/sync", "internal/app/tokenserver",
	"internal/backup", "internal/buckets/blobs/filedriver", "internal/buckets/imports", "internal/buckets/maintenance", "internal/certificates", "internal/cli",
	"internal/copying", "internal/extstorage", "internal/extstorage/httpapi", "internal/importing", "internal/replica", "internal/replica/cloudtarget",
	"internal/replica/location", "internal/replication", "internal/restore", "internal/secrets", "internal/syncstorage",
}

var foreignFormats = []string{
	"archive/", "compress/", "github.com/klauspost/compress/", "holdfast/internal/replica", "holdfast/internal/restore", "holdfast/internal/importing", "holdfast/internal/copying",
}

// byPath are the functions that resolve a path, and so follow ".." and links.
var byPath = map[string][]string{
	"os": {
		"Chmod", "Chown", "Chtimes", "Create", "CreateTemp", "Lchown", "Link", "Mkdir", "MkdirAll", "MkdirTemp", "Open", "OpenFile", "OpenRoot", "ReadFile",
		"Remove", "RemoveAll", "Rename", "Symlink", "Truncate", "WriteFile", "CopyFS",
	},
	durableImport: {"Create", "File", "MakeFolder", "OpenFolder", "Rename", "Replace", "SyncFolder"},
}

const durableImport = "holdfast/" + durablePackage

// TestArchivesUseRoots checks that the packages that read archives create, open and remove files only below an open
// folder: durable.Folder or os.Root. An archive's names must not become paths in any other way.
func TestArchivesUseRoots(t *testing.T) {
	t.Parallel()
	report(t, paths(ownServer(t), archives, ownPaths))
}

// own is a file's calls by path, as counted writes them, and why no archive decides the paths.
type own struct{ calls, reason string }

// paths returns the files that use paths in other ways than listed, and packages that are missing in the list.
func paths(files serverFiles, folders []string, except map[string]own) (wrong []string) {
	for name, syntax := range files {
		if !slices.Contains(folders, path.Dir(name)) {
			if format := foreignFormat(syntax); format != "" && !matchesAny([]string{"internal/app", "internal/check", "internal/testdb/**"}, path.Dir(name)) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: add the package to archives, because it may read what somebody else wrote", name, format))
			}
			continue
		}
		calls := counted(callsByPath(syntax))
		if calls != except[name].calls {
			wrong = append(wrong, fmt.Sprintf("%s calls by path: %q, listed are %q: use durable.Folder for a name that an archive, a database or a client decides; otherwise list the call with the reason", name, calls, except[name].calls))
		}
	}
	for name, e := range except {
		if files[name] == nil || e.reason == "" {
			wrong = append(wrong, name+" is listed, but does not exist or has no reason")
		}
	}
	slices.Sort(wrong)
	return wrong
}

func foreignFormat(syntax *ast.File) string {
	for _, spec := range syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if slices.ContainsFunc(foreignFormats, func(f string) bool {
			return strings.HasPrefix(imported, f) && strings.HasSuffix(f, "/") || imported == f
		}) {
			return imported
		}
	}
	return ""
}

func callsByPath(syntax *ast.File) (calls []string) {
	local := importNames(syntax)
	ast.Inspect(syntax, func(n ast.Node) bool {
		if selected, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := selected.X.(*ast.Ident); ok && slices.Contains(byPath[local[id.Name]], selected.Sel.Name) {
				calls = append(calls, path.Base(local[id.Name])+"."+selected.Sel.Name)
			}
		}
		return true
	})
	return calls
}

// counted sorts calls and writes how often each repeated call occurs: "os.Open os.Remove×2".
func counted(calls []string) string {
	times := map[string]int{}
	for _, call := range calls {
		times[call]++
	}
	each := slices.Sorted(maps.Keys(times))
	for i, call := range each {
		if times[call] > 1 {
			each[i] += "×" + strconv.Itoa(times[call])
		}
	}
	return strings.Join(each, " ")
}

func TestArchivesUseRootsBites(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{}
	for name, text := range map[string]string{
		"cmd/a.go":             "package main\n",
		"internal/a/a.go":      "package a\n\nimport f \"os\"\n\nvar _, _, _ = f.WriteFile, f.Remove, f.Stdin\n",
		"internal/a/b.go":      "package a\n\nimport \"holdfast/internal/durable\"\n\nvar _ = durable.Create\n",
		"internal/a/c.go":      "package a\n\nimport \"holdfast/internal/durable\"\n\nvar _, _ = durable.Create, durable.Create\n",
		"internal/a/d.go":      "package a\n\nimport \"os\"\n\nfunc f(r *os.Root) { r.Remove(\"a\") }\n",
		"internal/a/a_test.go": "package a\n\nimport \"os\"\n\nvar _ = os.Rename\n",
		"internal/b/b.go":      "package b\n\nimport \"archive/tar\"\n\nvar _ = tar.NewReader\n",
		"internal/c/c.go":      "package c\n\nimport \"os\"\n\nvar _ = os.Mkdir\n",
	} {
		source[name] = &fstest.MapFile{Data: []byte(text)}
	}
	var found []string
	for _, line := range paths(readServer(t, fs.FS(source)), []string{"internal/a"}, map[string]own{
		"internal/a/b.go": {"durable.Create", "it may"}, "internal/a/c.go": {"durable.Create", "it may once"}, "internal/a/none.go": {"os.Remove", "it is deleted"},
	}) {
		first, _, _ := strings.Cut(line, ",")
		found = append(found, first)
	}
	want := []string{
		`internal/a/a.go calls by path: "os.Remove os.WriteFile"`,
		`internal/a/c.go calls by path: "durable.Create×2"`,
		`internal/a/none.go is listed`,
		`internal/b/b.go imports archive/tar: add the package to archives`,
	}
	if !slices.Equal(found, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(found, "\n\t"), strings.Join(want, "\n\t"))
	}
}
