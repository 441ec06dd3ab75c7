package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"testing"
	"testing/fstest"
)

// otherParsers bypass durations.Parse. A user who may write 90d for one setting expects it to work for all.
var otherParsers = []string{"time.ParseDuration", "f.DurationVar", "flags.DurationVar", "flags.Duration"}

// TestOneDurationParser checks that settings, flags and forms take the same durations.
func TestOneDurationParser(t *testing.T) {
	t.Parallel()
	report(t, otherDurations(ownServer(t)))
}

func otherDurations(files serverFiles) (wrong []string) {
	for name, syntax := range files {
		if path.Dir(name) == "internal/durations" {
			continue
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && slices.Contains(otherParsers, calledName(call)) {
				wrong = append(wrong, fmt.Sprintf("%s calls %s: use durations.Parse, which knows days and weeks", name, calledName(call)))
			}
			return true
		})
	}
	slices.Sort(wrong)
	return wrong
}

func TestOneDurationParserBites(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"cmd/a/a.go":                      {Data: []byte("package main\n")},
		"internal/a/a.go":                 {Data: []byte("package a\n\nimport \"time\"\n\nvar d, err = time.ParseDuration(\"1h\")\n")},
		"internal/durations/durations.go": {Data: []byte("package durations\n\nimport \"time\"\n\nvar d, err = time.ParseDuration(\"1h\")\n")},
	}
	if wrong := otherDurations(readServer(t, tree)); len(wrong) != 1 || wrong[0] != "internal/a/a.go calls time.ParseDuration: use durations.Parse, which knows days and weeks" {
		t.Error(wrong)
	}
}
