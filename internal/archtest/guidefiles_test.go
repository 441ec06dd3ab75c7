package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^( *)```([^\n`]*)\n(.*?)^ *```")

	// creating finds the files that a command creates: redirections, options and arguments.
	creating = []*regexp.Regexp{
		regexp.MustCompile(`(?:^|\s)[0-9]?>>?\s*(\S+)`),
		regexp.MustCompile(`\s(?:-o|--output|-out|-keyout|--data) (\S+)`),
		regexp.MustCompile(`\bcurl\b.*\s(?:-c|-o|-D) (\S+)`),
		regexp.MustCompile(`^(?:\$ )?mv \S+ (\S+)`),
		regexp.MustCompile(`^(?:\$ )?(?:mkdir|tee)(?: -\w+)* (\S+)`),
		regexp.MustCompile(`HOLDFAST_DATA=(\S+)`),
	}

	// relative is a name in the folder in which the commands are typed.
	relative = regexp.MustCompile(`^(?:\./)?[A-Za-z.][\w.-]*(/[\w./-]*)?$`)
)

// createdBy returns the relative names that a guide's commands create.
func createdBy(text string) (names []string) {
	for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
		if !slices.Contains([]string{"", "sh", "bash", "console"}, block[2]) {
			continue
		}
		for line := range strings.Lines(block[3]) {
			line = strings.TrimPrefix(strings.TrimRight(line, "\n"), block[1])
			if block[2] == "console" && !strings.HasPrefix(line, "$ ") && !strings.HasPrefix(line, "    ") {
				continue // output
			}
			if strings.HasPrefix(line, "sudo ") { // it installs in folders of the system
				continue
			}
			for _, r := range creating {
				for _, found := range r.FindAllStringSubmatch(line, -1) {
					if name := strings.TrimRight(found[1], `)"';`); relative.MatchString(name) {
						names = append(names, path.Clean(name))
					}
				}
			}
		}
	}
	return names
}

func readText(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFilesOfGuides checks that git ignores every file that the commands in the guides create in the source folder.
func TestFilesOfGuides(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	guides, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(readText(t, root, ".gitignore")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, strings.TrimSuffix(line, "/"))
		}
	}
	isIgnored := func(name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			top, _, _ := strings.Cut(name, "/")
			ok, _ := path.Match(p, "/"+top)
			return ok
		})
	}
	seen := map[string]bool{}
	for _, guide := range append(guides, filepath.Join(root, "README.md")) {
		for _, name := range createdBy(readText(t, guide)) {
			if seen[name] = true; !isIgnored(name) {
				t.Errorf("%s: its commands create %s, which git does not ignore: add it to .gitignore", filepath.Base(guide), name)
			}
			if _, err := os.Stat(filepath.Join(root, name)); err == nil && path.Ext(name) == ".md" {
				t.Errorf("%s: its commands overwrite %s", filepath.Base(guide), name)
			}
		}
	}
	for _, name := range []string{"cookies", "second", "hello.txt", "policy.json", "holdfast-data.lost", "backup.key", "try", "old", "ca-key.pem", "platform.pub", "minted.json", "put.json", "s3cfg", ".env", "user.ndjson"} {
		if !seen[name] {
			t.Errorf("%s was not found in the guides: do the patterns still match?", name)
		}
	}
	for _, name := range []string{"README.md", "docs/x", "internal/app/app.go", "Makefile", "cookies.go"} {
		if isIgnored(name) {
			t.Errorf("git would ignore %s", name)
		}
	}
	bite := createdBy("```sh\necho a >new.txt\nb 2>> err.log\nholdfast serve --data ./try\n```\n```console\n$ curl -c jar x\na > b\n```\n")
	if want := []string{"new.txt", "err.log", "try", "jar"}; !slices.Equal(bite, want) {
		t.Errorf("found %q, want %q", bite, want)
	}
}
