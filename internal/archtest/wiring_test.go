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

// wiringStations lists the files in a service's internal/app folder, and the declarations that only these files
// contain.
var wiringStations = []struct {
	file, what string
	has        *regexp.Regexp
}{
	{"open.go", "the method open", regexp.MustCompile(`(?m)^func \(s \*\w+\) open\(`)},
	{"operations.go", "the method operations", regexp.MustCompile(`(?m)^func \(s \*\w+\) operations\(`)},
	{"commands.go", "the method commands", regexp.MustCompile(`(?m)^func \(s \*\w+\) commands\(`)},
	{"metrics.go", "metrics", regexp.MustCompile(`\.(Counter|Gauge|Histogram|Total)\("`)},
	{"tables.go", "the variable tables", regexp.MustCompile(`(?m)^var tables = `)},
}

// TestWiringStations checks that every service declares its method open, operations, commands, metrics and tables in
// files with the same names.
func TestWiringStations(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	readModule(t)
	for _, folder := range wirings() {
		wrong, err := offStations(os.DirFS(root), folder)
		if err != nil {
			t.Fatal(err)
		}
		report(t, wrong)
	}
}

// offStations returns missing stations, and declarations in the wrong file. A file may be divided: metrics_damages.go
// belongs to the station metrics.go.
func offStations(source fs.FS, folder string) (wrong []string, err error) {
	files, err := fs.Glob(source, folder+"/*.go")
	if err != nil {
		return nil, err
	}
	for _, s := range wiringStations {
		found := false
		for _, file := range files {
			text, err := fs.ReadFile(source, file)
			if err != nil {
				return nil, err
			}
			name := path.Base(file)
			switch {
			case strings.HasSuffix(name, "_test.go") || !s.has.Match(text):
			case name == s.file:
				found = true
			case !strings.HasPrefix(name, strings.TrimSuffix(s.file, ".go")+"_"):
				wrong = append(wrong, fmt.Sprintf("%s has %s: expected in %s, as in other services", file, s.what, s.file))
			}
		}
		if !found {
			wrong = append(wrong, fmt.Sprintf("%s/%s does not have %s", folder, s.file, s.what))
		}
	}
	return wrong, nil
}

func TestWiringStationsBite(t *testing.T) {
	t.Parallel()
	source := fstest.MapFS{}
	for name, text := range map[string]string{
		"open.go":          "func (s *Toy) open() {}",
		"operations.go":    "func (s *Toy) operations() {}",
		"toys.go":          "func (s *Toy) commands() {}\n\nvar _ = m.Gauge(\"toys\")",
		"metrics.go":       "var _ = m.Counter(\"broken_toys_total\")",
		"metrics_parts.go": "var _ = m.Total(\"parts\")",
		"toys_test.go":     "var _ = m.Gauge(\"toys\")",
	} {
		source["toy/"+name] = &fstest.MapFile{Data: []byte("package toy\n\n" + text + "\n")}
	}
	got, err := offStations(source, "toy")
	want := []string{
		"toy/toys.go has the method commands: expected in commands.go, as in other services",
		"toy/commands.go does not have the method commands",
		"toy/toys.go has metrics: expected in metrics.go, as in other services",
		"toy/tables.go does not have the variable tables",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, found\n\t%s\nwant\n\t%s", err, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
