package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fence    = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```")
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdMarkup = regexp.MustCompile("[`*]|\\[|\\]\\([^)]*\\)")
)

// TestLinks checks that links in documents lead to existing files and headings.
func TestLinks(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	anchors, links := map[string]map[string]bool{}, 0
	for _, file := range documents(t, root) {
		anchors[file] = anchorsOf(t, file)
	}
	for file := range anchors {
		for _, link := range mdLink.FindAllStringSubmatch(text(t, file), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			links++
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, link[1])
			} else if anchor != "" && !anchors[to][anchor] {
				t.Errorf("%s links to %s, which has no such heading", file, link[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("found %d links, want more: does the pattern still match?", links)
	}
}

// TestDecisionsIndex checks that docs/decisions/README.md lists each decision on one line.
func TestDecisionsIndex(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "decisions")
	index := text(t, filepath.Join(dir, "README.md"))
	files, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d decisions, %v", len(files), err)
	}
	for _, f := range files {
		if name := filepath.Base(f); strings.Count(index, "]("+name+") | ") != 1 {
			t.Errorf("docs/decisions/README.md needs one line for %s, such as | [1](%s) | What was decided |", name, name)
		}
	}
}

func documents(t *testing.T, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "node_modules" || name == "bin" || name == "dist" || name == ".git" || name == "testdata" || name == "holdfast-data") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fence.ReplaceAllString(string(data), "")
}

// anchorsOf returns the anchors that web sites generate for a document's headings.
func anchorsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text(t, file), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(mdMarkup.ReplaceAllString(strings.TrimSpace(h[1]), "")) {
			switch {
			case r == ' ' || r == '-':
				b.WriteByte('-')
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				b.WriteRune(r)
			}
		}
		all[b.String()] = true
	}
	return all
}
