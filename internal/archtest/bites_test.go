package archtest

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRulesBite holds the checks against a house in which everything is wrong
// that they are there to find.
func TestRulesBite(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a/a.go":               "// Package a is fine.\npackage a\n\nimport _ \"strings\"\n",
		"a/a_test.go":          "package a_test\n\nimport (\n\t_ \"example.org/tool\"\n\t_ \"holdfast/a\"\n\t_ \"holdfast/b\"\n)\n",
		"b/b.go":               "// Package b is fine.\npackage b\n\nimport (\n\t_ \"example.org/lib/sub\"\n\t_ \"holdfast/a\"\n)\n",
		"b/x/x.go":             "package x\n\nimport (\n\t_ \"holdfast/b\"\n\t_ \"net/http\"\n\t_ \"log\"\n\t_ \"example.org/library\"\n)\n\nfunc init() {}\n",
		"common/c.go":          "// Package common is a drawer.\npackage common\n",
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
		"b/x: no comment says what the package is for",
		"b/x/x.go:10: a function init: what happens is to be seen where it is called",
		"common/c.go: a package common says nothing of what is in it",
		"long/long.go has 602 lines, more than 600: cut it where the domain cuts",
		"long/long_test.go has 1001 lines, more than 1000: cut it where the domain cuts",
		"b/x/x.go imports holdfast/b: R3",
		"b/x/x.go imports net/http: R3",
		"b/x/x.go imports log: " + forbiddenStd["log"],
		"b/x/x.go imports example.org/library: it is not among the libraries of this package; R3",
		"common: no rule covers it; say in archtest where it belongs",
		"the rule for gone covers no package any more (R4)",
		"the rule for gone/* covers no package any more (R4)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestEveryRuleHasItsReason: who meets a rule must be able to judge whether it
// still serves.
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
	// Joined here, so that a checkout in one of these does not find itself named.
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
