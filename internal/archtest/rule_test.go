package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// rule lists the imports that some packages may use. The standard library is allowed, except notStd and forbiddenStd.
type rule struct {
	who    []string // folder patterns that the rule covers
	ours   []string // folder patterns in this module that they may import
	libs   []string // import path prefixes of allowed libraries, and allowed packages from forbiddenStd
	tests  []string // folder patterns in this module that only their tests may import
	notStd []string // standard library packages that they may not import
	reason string
}

// matches reports whether a folder matches a pattern, where * is one segment, and a final ** is any number.
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

func ruleOf(rules []rule, folder string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return matchesAny(r.who, folder) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

func check(t *tree, rules []rule) (wrong []string) {
	for _, folder := range t.folders() {
		r, ok := ruleOf(rules, folder)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: no rule covers this package: add it to a rule in archtest", folder))
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

// dead returns patterns that cover no package, because it was renamed or deleted.
func dead(t *tree, rules []rule) (wrong []string) {
	for _, r := range rules {
		for _, pattern := range r.who {
			if !slices.ContainsFunc(t.folders(), func(folder string) bool { return matches(pattern, folder) }) {
				wrong = append(wrong, fmt.Sprintf("the rule for %s covers no package (%s)", pattern, r.reason))
			}
		}
	}
	return wrong
}

func (r rule) refuses(f *file, folder, imported string) string {
	if of, ok := ours(imported); ok {
		switch {
		case matchesAny(r.ours, of), f.test && (of == folder || matchesAny(r.tests, of)):
			return ""
		}
		return r.reason
	}
	if f.test {
		return ""
	}
	if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
		if slices.ContainsFunc(r.libs, func(lib string) bool { return within(imported, lib) }) {
			return ""
		}
		return "the package may not import this library; " + r.reason
	}
	if slices.Contains(r.notStd, imported) {
		return r.reason
	}
	if slices.Contains(r.libs, imported) {
		return ""
	}
	return forbiddenStd[imported]
}

// within reports whether an import path is lib or below it; "*" matches any path.
func within(imported, lib string) bool {
	return lib == "*" || imported == lib || strings.HasPrefix(imported, lib+"/")
}

// forbiddenStd lists standard library packages that only tests, and packages whose rule names them, may import.
var forbiddenStd = map[string]string{
	"database/sql": "with the drivers' own interfaces a read takes half the CPU time, and only pgx's own has pipelining",
	"log":          "pass a *slog.Logger; this package is a global logger without levels",
	"math/rand":    "math/rand/v2 needs no seed and has generic functions",
	"unsafe":       "only a hook of SQLite needs it",
}
