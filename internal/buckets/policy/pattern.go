package policy

import (
	"strings"
	"unicode/utf8"
)

// glob is a pattern: * matches any text, ? matches one character, and ${name} stands for the value of a condition
// key.
type glob []part

// part is a piece of a pattern.
type part struct {
	kind    partKind
	literal string   // for the kind literal
	of      variable // for the kind ofVariable
}

type partKind uint8

const (
	literal partKind = iota
	anyOne
	anyText
	ofVariable
)

// variable is a policy variable, e.g. ${aws:PrincipalAccount} or ${s3:prefix, 'none'}.
type variable struct {
	key    key
	name   string // the part after the slash
	absent string // default, used if the request lacks the key
	hasDef bool   // a default was given
}

// literalGlob parses * and ?. Several * in a row become a single part.
func literalGlob(s string) (g glob) {
	for s != "" {
		i := strings.IndexAny(s, "*?")
		if i < 0 {
			return append(g, part{literal: s})
		}
		if i > 0 {
			g = append(g, part{literal: s[:i]})
		}
		kind := anyText
		if s[i] == '?' {
			kind = anyOne
		}
		if kind != anyText || len(g) == 0 || g[len(g)-1].kind != anyText {
			g = append(g, part{kind: kind})
		}
		s = s[i+1:]
	}
	return g
}

// parseGlob treats * and ? as literals without wild, and ${…} without vars.
func parseGlob(s string, wild, vars bool) (g glob, reason string) {
	for {
		before, rest, ok := s, "", false
		if vars {
			before, rest, ok = strings.Cut(s, "${")
		}
		switch {
		case before == "":
		case wild:
			g = append(g, literalGlob(before)...)
		default:
			g = append(g, part{literal: before})
		}
		if !ok {
			return g, ""
		}
		name, rest, ok := strings.Cut(rest, "}")
		if !ok {
			return nil, "a ${ has no }"
		}
		p, reason := parseVariable(name)
		if reason != "" {
			return nil, reason
		}
		g, s = append(g, p), rest
	}
}

// parseVariable parses the text between ${ and }. ${*}, ${?} and ${$} are the characters themselves.
func parseVariable(text string) (p part, reason string) {
	switch text {
	case "*", "?", "$":
		return part{literal: text}, ""
	}
	name, def, hasDef := strings.Cut(text, ",")
	v := variable{hasDef: hasDef}
	if hasDef {
		def = strings.TrimSpace(def)
		if len(def) < 2 || def[0] != '\'' || def[len(def)-1] != '\'' {
			return p, "the default of the variable ${" + text + "} is not in single quotes"
		}
		v.absent = def[1 : len(def)-1]
	}
	var ok bool
	if v.key, v.name, ok = findKey(strings.TrimSpace(name)); !ok || v.key.multi {
		return p, "the variable ${" + text + "} is not known"
	}
	return part{kind: ofVariable, of: v}, ""
}

// text returns the pattern's text with variables replaced; ok is false if a variable has no value.
func (g glob) text(values func(variable) (string, bool)) (s string, ok bool) {
	if len(g) == 1 && g[0].kind == literal {
		return g[0].literal, true
	}
	var b strings.Builder
	for i := range g {
		text := g[i].literal
		if g[i].kind == ofVariable {
			if text, ok = values(g[i].of); !ok {
				return "", false
			}
		}
		b.WriteString(text)
	}
	return b.String(), true
}

// hasVariable reports whether the match depends on the request's values.
func (g glob) hasVariable() bool {
	for i := range g {
		if g[i].kind == ofVariable {
			return true
		}
	}
	return false
}

// isFixed reports whether the pattern is a plain text.
func (g glob) isFixed() bool {
	for i := range g {
		if g[i].kind != literal {
			return false
		}
	}
	return true
}

// match takes at most time proportional to the product of both lengths.
func (g glob) match(s string, values func(variable) (string, bool)) bool {
	if g.hasVariable() {
		concrete := make(glob, len(g))
		copy(concrete, g)
		for i := range concrete {
			if concrete[i].kind == ofVariable {
				text, ok := values(concrete[i].of)
				if !ok {
					return false
				}
				concrete[i] = part{literal: text}
			}
		}
		g = concrete
	}
	i, at := 0, 0
	star, mark := -1, 0 // the last *, and the end of the text that it matches so far
	for {
		switch {
		case i < len(g) && g[i].kind == anyText:
			if i == len(g)-1 {
				return true
			}
			star, mark = i, at
			i++
			continue
		case i < len(g):
			if n, ok := g[i].prefix(s[at:]); ok {
				at += n
				i++
				continue
			}
		case at == len(s):
			return true
		}
		if star < 0 || mark == len(s) {
			return false
		}
		mark += runeLen(s[mark:])
		if next := &g[star+1]; next.kind == literal {
			skip := strings.Index(s[mark:], next.literal)
			if skip < 0 {
				return false
			}
			mark += skip
		}
		i, at = star+1, mark
	}
}

// prefix returns how many bytes at the start of s match a literal or ?.
func (p *part) prefix(s string) (n int, ok bool) {
	if p.kind == anyOne {
		return runeLen(s), s != ""
	}
	return len(p.literal), strings.HasPrefix(s, p.literal)
}

// runeLen returns the length in bytes of the first character.
func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
