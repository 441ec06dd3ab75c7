package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// rule says what some packages may import. The standard library is free, but
// for what the rule or the house forbids.
type rule struct {
	who    []string // folders, as patterns
	ours   []string // folders of ours that they may import, as patterns
	libs   []string // other modules, by the beginning of their import paths
	tests  []string // folders of ours that their tests may import besides
	notStd []string // packages of the standard library that they may not
	reason string
}

// A pattern is a folder in which a segment may be * for one segment, and the
// last ** for any number of them.
func matches(pattern, folder string) bool {
	if rest, ok := strings.CutSuffix(pattern, "/**"); ok {
		return folder == rest || strings.HasPrefix(folder, rest+"/")
	}
	ok, err := path.Match(pattern, folder)
	return ok && err == nil
}

func matchesAny(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, folder) })
}

// ruleOf is the first rule that covers a folder.
func ruleOf(rules []rule, folder string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return matchesAny(r.who, folder) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// check holds a tree against rules and returns what is wrong.
func check(t *tree, rules []rule) (wrong []string) {
	for _, folder := range t.folders() {
		r, ok := ruleOf(rules, folder)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: no rule covers it; say in archtest where it belongs", folder))
			continue
		}
		for _, f := range t.packages[folder].files {
			for _, imported := range f.imports {
				if why := r.refuses(f, folder, imported); why != "" {
					wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", f.path, imported, why))
				}
			}
		}
	}
	return append(wrong, dead(t, rules)...)
}

// dead names the subjects of rules that cover nothing: whatever they meant has
// been renamed or is gone.
func dead(t *tree, rules []rule) (wrong []string) {
	for _, r := range rules {
		for _, pattern := range r.who {
			if !slices.ContainsFunc(t.folders(), func(folder string) bool { return matches(pattern, folder) }) {
				wrong = append(wrong, fmt.Sprintf("the rule for %s covers no package any more (%s)", pattern, r.reason))
			}
		}
	}
	return wrong
}

// refuses says why a file of a folder may not import something; "" when it may.
func (r rule) refuses(f *file, folder, imported string) string {
	if of, ok := ours(imported); ok {
		switch {
		case matchesAny(r.ours, of), f.test && (of == folder || matchesAny(r.tests, of)):
			return ""
		}
		return r.reason
	}
	if f.test {
		return "" // tests choose their tools; go.mod shows them
	}
	if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
		if slices.ContainsFunc(r.libs, func(lib string) bool { return within(imported, lib) }) {
			return ""
		}
		return "it is not among the libraries of this package; " + r.reason
	}
	if slices.Contains(r.notStd, imported) {
		return r.reason
	}
	return forbiddenStd[imported]
}

// within reports whether an import path is that of lib or below it; "*" is any.
func within(imported, lib string) bool {
	return lib == "*" || imported == lib || strings.HasPrefix(imported, lib+"/")
}

// forbiddenStd is what no package imports that is not a test.
var forbiddenStd = map[string]string{
	"database/sql": "the drivers' own interfaces cost half the CPU of a read, and pgx pipelines only in its own",
	"log":          "a *slog.Logger is passed in; the log of this package is a global with no level",
	"math/rand":    "math/rand/v2 is seeded by itself and has the generic functions",
	"unsafe":       "nothing here is worth it",
}
