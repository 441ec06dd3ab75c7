package archtest

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRulesBite runs the checks on a tree that violates each check.
func TestRulesBite(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a/a.go":               "// Package a is fine.\npackage a\n\nimport _ \"strings\"\n",
		"a/a_test.go":          "package a_test\n\nimport (\n\t_ \"example.org/tool\"\n\t_ \"holdfast/a\"\n\t_ \"holdfast/b\"\n)\n",
		"b/b.go":               "// Package b is fine.\npackage b\n\nimport (\n\t_ \"example.org/lib/sub\"\n\t_ \"holdfast/a\"\n)\n",
		"b/x/x.go":             "package x\n\nimport (\n\t_ \"holdfast/b\"\n\t_ \"net/http\"\n\t_ \"log\"\n\t_ \"example.org/library\"\n)\n\nfunc init() {}\n",
		"common/c.go":          "// Package common is anything.\npackage common\n",
		"cmd/tool/main.go":     "// Command tool is fine.\npackage main\n\nfunc (t) init() {}\n\ntype t struct{}\n",
		"long/storetest/a.go":  "// Package storetest is long.\npackage storetest\n" + strings.Repeat("\n", 900),
		"long/long.go":         "// Package long is too long.\npackage long\n" + strings.Repeat("\n", 600),
		"long/long_test.go":    "package long\n" + strings.Repeat("\n", 1000),
		"long/testdata/not.go": "package broken }",
		".hidden/not.go":       "package broken }",
	}
	source := fstest.MapFS{}
	for name, text := range files {
		source[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := readTree(source)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(layout(tr), check(tr, []rule{
		{who: []string{"a"}, tests: []string{"b"}, reason: "R1"},
		{who: []string{"b"}, ours: []string{"a"}, libs: []string{"example.org/lib"}, reason: "R2"},
		{who: []string{"b/*"}, libs: []string{"example.org/lib"}, notStd: []string{"net/http"}, reason: "R3"},
		{who: []string{"cmd/**", "long/**", "gone", "gone/*"}, reason: "R4"},
	}))
	want := []string{
		"b/x: the package has no package comment",
		"b/x/x.go:10: func init: expected a function that is called where it is needed",
		"common/c.go: the package name common does not describe the contents",
		"long/long.go has 602 lines, more than 600: split it by subject",
		"long/long_test.go has 1001 lines, more than 1000: split it by subject",
		"b/x/x.go imports holdfast/b: R3",
		"b/x/x.go imports net/http: R3",
		"b/x/x.go imports log: " + forbiddenStd["log"],
		"b/x/x.go imports example.org/library: the package may not import this library; R3",
		"common: no rule covers this package: add it to a rule in archtest",
		"the rule for gone covers no package (R4)",
		"the rule for gone/* covers no package (R4)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestEveryRuleHasItsReason checks that every rule states a reason, so that readers can judge whether it is still
// needed.
func TestEveryRuleHasItsReason(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		if len(strings.Fields(r.reason)) < 5 || len(r.who) == 0 {
			t.Errorf("the rule for %q gives the reason %q", r.who, r.reason)
		}
	}
	for name, reason := range forbiddenStd {
		if reason == "" {
			t.Errorf("%s is forbidden without a reason", name)
		}
	}
}

func TestMachinePaths(t *testing.T) {
	t.Parallel()
	// Joining the paths at run time hides them from TestNoPathsOfThisMachine.
	in := func(parts ...string) string { return "/" + strings.Join(parts, "/") }
	mine, home := in("srv", "mine"), in("home", "a")
	for root, want := range map[string]string{
		in(mine[1:], "holdfast"): in(mine[1:], "holdfast") + " " + mine + "/",
		in("tmp", "clone"):       in("tmp", "clone"),
		in("holdfast"):           "",
		in(home[1:], "holdfast"): in(home[1:], "holdfast") + " " + home + "/",
	} {
		if got := strings.Join(machinePaths(root), " "); got != want {
			t.Errorf("%s: %q, want %q", root, got, want)
		}
	}
}
