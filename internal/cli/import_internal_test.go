package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/importing"
)

type problemSource struct {
	service.Source
	all []service.Problem
}

func (s problemSource) Problems(_ context.Context, report func(service.Problem)) error {
	for _, p := range s.all {
		report(p)
	}
	return nil
}

// TestLongListsOfImport checks that an import prints a few rows of each kind, and kinds that need action last.
func TestLongListsOfImport(t *testing.T) {
	t.Parallel()
	source := problemSource{}
	for i := range 12 {
		source.all = append(source.all, service.Problem{What: "large records", Row: fmt.Sprint("record ", i), Fix: "raise the limit"},
			service.Problem{Left: true, What: "open batches", Row: fmt.Sprint("batch ", i)})
	}
	m := &importing.Import{Parts: []*importing.Part{{Source: source}}}
	list := filepath.Join(t.TempDir(), "list.txt")
	var out bytes.Buffer
	c := &command{env: Env{Stdout: &out}}
	actions, _, err := c.problems(t.Context(), m, list)
	if err != nil {
		t.Fatal(err)
	}
	const rows = "  %s 0\n  %[1]s 1\n  %[1]s 2\n  %[1]s 3\n  %[1]s 4\n  and 7 more: all rows are in %s\n"
	if want := "skipped, 12 rows: open batches\n" + fmt.Sprintf(rows, "batch", list); out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
	if want := "imported, 12 rows: large records\n" + fmt.Sprintf(rows, "record", list) + "  raise the limit\n"; actions != want {
		t.Errorf("needs action\n%s\nwant\n%s", actions, want)
	}
	text, err := os.ReadFile(list)
	if err != nil || strings.Count(string(text), "\n") != 24 || !strings.Contains(string(text), "skipped: open batches: batch 11\n") {
		t.Errorf("the file has %q, %v", text, err)
	}

	// A short list is not written to a file; --list "" writes no file.
	m.Parts[0].Source = problemSource{all: source.all[:2]}
	if _, _, err := c.problems(t.Context(), m, list); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(list); !os.IsNotExist(err) {
		t.Errorf("a file for a short list: %v", err)
	}
	m.Parts[0].Source = source
	out.Reset()
	if _, _, err := c.problems(t.Context(), m, ""); err != nil || !strings.Contains(out.String(), "and 7 more: --list FILE writes all rows to a file") {
		t.Errorf("without a file: %s%v", out.String(), err)
	}
}
