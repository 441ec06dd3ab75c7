package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go":     "// Limit of the rows of a step.\npackage a // that of one\n\n//go:embed of\n",
		"a.sql":    "-- Limit of the rows of a step:\nSELECT 1; -- that of one\n",
		"a.ts":     "/** Limit of the rows of a step. */\nconst a = 1 // that of one\n",
		"guide.md": "Limit of the rows of a step:\nthat of one `of`\n\n| of | of |\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		texts := 0
		for _, k := range kinds {
			if !k.has(path) {
				continue
			}
			texts++
			for _, c := range []struct {
				reached  float64
				problems int
			}{{1000, 0}, {0, 3}} {
				k.reached = []float64{c.reached, c.reached, c.reached, c.reached, c.reached}
				problems, err := k.report([]string{path}, 1)
				if err != nil || len(problems) != c.problems {
					t.Errorf("%s: %s: %q, %v; want %d problems", name, k.name, problems, err, c.problems)
				}
			}
		}
		if texts != 1 {
			t.Errorf("%s has %d kinds", name, texts)
		}
	}
}
