package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestStations checks that each function named under "Follow one write" in ARCHITECTURE.md is in the named file.
func TestStations(t *testing.T) {
	t.Parallel()
	readModule(t)
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	found, wrong := stations(os.DirFS(root))
	report(t, wrong)
	if least := 10 * len(services); found < least {
		t.Errorf("%d functions are named, want at least %d", found, least)
	}
}

var station = regexp.MustCompile("^`([\\w/]+\\.go)` `(\\w+)`$")

// stations checks the table and counts the functions that it names.
func stations(source fs.FS) (found int, wrong []string) {
	text, err := fs.ReadFile(source, "ARCHITECTURE.md")
	if err != nil {
		return 0, []string{err.Error()}
	}
	_, section, _ := strings.Cut(string(text), "## Follow one write\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) < 3 {
			continue
		}
		if names == nil {
			for _, c := range cells {
				names = append(names, strings.Trim(c, "`"))
			}
			continue
		}
		for i, c := range cells[1:] {
			m := station.FindStringSubmatch(c)
			if m == nil {
				continue
			}
			found++
			file := path.Join("internal", names[i+1], m[1])
			code, err := fs.ReadFile(source, file)
			switch declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|\t)` + m[2] + `(\[[^\]]*\])?\(`); {
			case err != nil:
				wrong = append(wrong, "ARCHITECTURE.md: "+err.Error())
			case !declared.Match(code):
				wrong = append(wrong, fmt.Sprintf("ARCHITECTURE.md: %s has no function %s", file, m[2]))
			}
		}
	}
	return found, wrong
}

func TestStationsBite(t *testing.T) {
	t.Parallel()
	table := "## Follow one write\n\n| station | `toy` |\n|---|---|\n| a | `toy.go` `Put` | `toy.go` `Take` |\n"
	table = strings.Replace(table, "`toy` |", "`toy` | `toy` |", 1) + "| b | `none.go` `Put` | none |\n\n## Next\n"
	found, wrong := stations(fstest.MapFS{
		"ARCHITECTURE.md":     &fstest.MapFile{Data: []byte(table)},
		"internal/toy/toy.go": &fstest.MapFile{Data: []byte("package toy\n\nfunc (s *Store) Put() {}\n")},
	})
	want := []string{"ARCHITECTURE.md: internal/toy/toy.go has no function Take", "ARCHITECTURE.md: open internal/toy/none.go: file does not exist"}
	if found != 3 || !slices.Equal(wrong, want) {
		t.Errorf("%d: %q", found, wrong)
	}
}
