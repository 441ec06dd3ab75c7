package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.go")
	if err := os.WriteFile(path, []byte("// Limit of the rows of a step.\npackage a // that of one\n\n//go:embed of\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reached  float64
		problems int
	}{{1000, 0}, {0, 3}} {
		problems, words, err := report("comments", []string{path}, func(mark) float64 { return c.reached }, 1)
		if err != nil || words != 10 || len(problems) != c.problems {
			t.Errorf("reached %v: %d words, %q, %v; want 10 words and %d problems", c.reached, words, problems, err, c.problems)
		}
	}
}
