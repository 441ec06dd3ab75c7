package archtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func report(t *testing.T, wrong []string) {
	t.Helper()
	for _, w := range wrong {
		t.Error(w)
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	report(t, check(readHouse(t), rules()))
}

// Longest files, in lines: beyond that nobody keeps one in mind.
const (
	maxLines     = 600
	maxTestLines = 1000
)

func TestLayout(t *testing.T) {
	t.Parallel()
	report(t, layout(readHouse(t)))
}

// layout holds files and packages against the rules of the house.
func layout(t *tree) (wrong []string) {
	for _, folder := range t.folders() {
		p := t.packages[folder]
		wrong = append(wrong, p.naming()...)
		for _, f := range p.files {
			most := maxLines
			if f.test || path.Base(folder) == "storetest" {
				most = maxTestLines
			}
			if f.lines > most {
				wrong = append(wrong, fmt.Sprintf("%s has %d lines, more than %d: cut it where the domain cuts", f.path, f.lines, most))
			}
			for _, line := range f.inits {
				wrong = append(wrong, fmt.Sprintf("%s:%d: a function init: what happens is to be seen where it is called", f.path, line))
			}
		}
	}
	return wrong
}

// nameless are names that say nothing of what is inside, so that anything goes
// in.
var nameless = []string{"common", "util", "utils", "helper", "helpers", "base", "shared", "types", "misc", "lib"}

// naming checks a package's name and its comment. Folders with nothing but tests
// need no comment.
func (p *pkg) naming() (wrong []string) {
	documented, plain := false, false
	for _, f := range p.files {
		if slices.Contains(nameless, strings.TrimSuffix(f.name, "_test")) {
			wrong = append(wrong, fmt.Sprintf("%s: a package %s says nothing of what is in it", f.path, f.name))
		}
		if f.test {
			continue
		}
		plain = true
		documented = documented || strings.HasPrefix(f.doc, "Package "+f.name+" ") ||
			f.name == "main" && strings.HasPrefix(f.doc, "Command "+path.Base(p.folder)+" ")
	}
	if plain && !documented {
		wrong = append(wrong, fmt.Sprintf("%s: no comment says what the package is for", p.folder))
	}
	return wrong
}

// TestBinary: what only tests need is not in the binary.
func TestBinary(t *testing.T) {
	t.Parallel()
	readHouse(t) // so that the cache of go test sees a change of any file
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); packages++ {
		p := lines.Text()
		folder, _ := ours(p)
		if within(p, "testing") || within(p, "pgregory.net/rapid") || within(folder, "internal/testdb") || folder == "internal/suite" || path.Base(folder) == "storetest" {
			t.Errorf("the binary holds %s, which is for tests", p)
		}
	}
	if packages < 100 {
		t.Errorf("the binary has %d packages, which cannot be all", packages)
	}
}

// TestNoPathsOfThisMachine: what was written on one machine is read on others.
// On a clone elsewhere this test looks for other paths, and so for none: it is
// where a change is made that it matters.
func TestNoPathsOfThisMachine(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	words := machinePaths(root)
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(name):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		for _, w := range words {
			if before, _, found := bytes.Cut(text, []byte(w)); found {
				t.Errorf("%s:%d: the path %s is of this machine", name, bytes.Count(before, []byte("\n"))+1, w)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// skipped are folders that are not part of the source: what was built, data of
// a server that was tried, and what tools keep beside it.
func skipped(name string) bool {
	return name == "bin" || name == "holdfast-data" || path.Base(name) == "node_modules" || name != "." && name != ".ci" && strings.HasPrefix(path.Base(name), ".")
}

// machinePaths are the folders of this checkout, if they are not ones that
// every system has.
func machinePaths(root string) (words []string) {
	if strings.Count(root, "/") > 1 {
		words = append(words, root)
	}
	switch parent := filepath.Dir(root); parent {
	case "/", "/app", "/build", "/builds", "/go", "/go/src", "/home", "/mnt", "/opt", "/root", "/src", "/srv", "/tmp", "/usr/src", "/var", "/var/tmp", "/workspace":
	default:
		words = append(words, parent+"/")
	}
	return words
}
