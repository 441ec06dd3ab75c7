//test:unraced its goroutines share nothing

package archtest

import (
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
	report(t, check(readModule(t), rules()))
}

// Maximum file lengths in lines.
const (
	maxLines     = 600
	maxTestLines = 1000
)

func TestLayout(t *testing.T) {
	t.Parallel()
	report(t, layout(readModule(t)))
}

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
				wrong = append(wrong, fmt.Sprintf("%s has %d lines, more than %d: split it by subject", f.path, f.lines, most))
			}
			for _, line := range f.inits {
				wrong = append(wrong, fmt.Sprintf("%s:%d: func init: expected a function that is called where it is needed", f.path, line))
			}
		}
	}
	return wrong
}

// nameless lists package names that do not describe their contents.
var nameless = []string{"common", "util", "utils", "helper", "helpers", "base", "shared", "types", "misc", "lib"}

// naming checks a package's name and comment. A folder with only tests needs no comment.
func (p *pkg) naming() (wrong []string) {
	documented, plain := false, false
	for _, f := range p.files {
		if slices.Contains(nameless, strings.TrimSuffix(f.name, "_test")) {
			wrong = append(wrong, fmt.Sprintf("%s: the package name %s does not describe the contents", f.path, f.name))
		}
		if f.test {
			continue
		}
		plain = true
		documented = documented || strings.HasPrefix(f.doc, "Package "+f.name+" ") ||
			f.name == "main" && strings.HasPrefix(f.doc, "Command "+path.Base(p.folder)+" ")
	}
	if plain && !documented {
		wrong = append(wrong, fmt.Sprintf("%s: the package has no package comment", p.folder))
	}
	return wrong
}

func goList(t *testing.T, args ...string) (root string, lines []string) {
	t.Helper()
	readModule(t)
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return root, strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestBinary checks that the binary contains no test packages.
func TestBinary(t *testing.T) {
	t.Parallel()
	_, list := goList(t, "-deps", "./cmd/...")
	for _, p := range list {
		folder, _ := ours(p)
		if within(p, "testing") || within(p, "pgregory.net/rapid") || within(p, "github.com/hanwen/go-fuse") || within(p, "github.com/letsencrypt/pebble/v2") || within(folder, "internal/testdb") || within(folder, "internal/workload") || folder == "internal/suite" || folder == "internal/auth/sigv4/sigv4test" || path.Base(folder) == "storetest" {
			t.Errorf("the binary contains %s, which is for tests", p)
		}
	}
	if packages := len(list); packages < 100 {
		t.Errorf("found only %d packages in the binary", packages)
	}
}

// openpgp has known vulnerabilities that no version fixes, because nobody maintains it. nfpm, which makes the packages of a
// release, uses a maintained fork.
const openpgp = "golang.org/x/crypto/openpgp"

// TestNoOpenPGP checks that neither the binary nor the program that makes releases depends on a package with known
// vulnerabilities that no update removes.
func TestNoOpenPGP(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-deps", "./cmd/..."}, {"-C", "packaging/release", "-deps", "./..."}, {"-C", "packaging/vuln", "-deps", "./..."}} {
		_, list := goList(t, args...)
		if wrong := withOpenPGP(list); len(wrong) > 0 {
			t.Errorf("go list %v: %v: nobody maintains %s, and no version fixes its vulnerabilities: use github.com/ProtonMail/go-crypto, or do without", args, wrong, openpgp)
		}
		if len(list) < 100 {
			t.Errorf("go list %v: found only %d packages", args, len(list))
		}
	}
	bite := []string{"golang.org/x/crypto/openpgp", "golang.org/x/crypto/openpgp/armor", "golang.org/x/crypto/openpgpx", "github.com/ProtonMail/go-crypto/openpgp"}
	if got := withOpenPGP(bite); !slices.Equal(got, bite[:2]) {
		t.Errorf("of %v it refuses %v", bite, got)
	}
}

func withOpenPGP(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return !within(p, openpgp) })
}

// TestNoPathsOfThisMachine checks that no file contains a path from the author's machine. Elsewhere the test looks for
// other paths, so it only protects the machine where changes are made.
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
				t.Errorf("%s:%d: the path %s belongs to this machine", name, bytes.Count(before, []byte("\n"))+1, w)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// skipped reports whether a folder contains build output, server data, or tool files.
func skipped(name string) bool {
	return name == "bin" || name == "holdfast-data" || path.Base(name) == "node_modules" || name != "." && name != ".ci" && strings.HasPrefix(path.Base(name), ".")
}

// machinePaths returns this checkout's folders that do not exist on other machines.
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
