package web

import (
	"net/http"
	"slices"
	"strings"
)

// EntityTags are the value of If-Match or If-None-Match (RFC 9110, section 13.1).
type EntityTags struct {
	Any    bool     // the value is *
	Strong []string // without quotes
	Weak   []string // without W/ and quotes
}

// MatchesStrong compares strongly, as If-Match does: weak tags match nothing.
func (t *EntityTags) MatchesStrong(tag string) bool { return t.Any || slices.Contains(t.Strong, tag) }

// MatchesWeak compares weakly, as If-None-Match does.
func (t *EntityTags) MatchesWeak(tag string) bool {
	return t.MatchesStrong(tag) || slices.Contains(t.Weak, tag)
}

// ParseEntityTags returns the entity tags in the lines of a header, nil if it is absent, or a refusal if its value is
// empty or malformed.
func ParseEntityTags(h http.Header, name string) (*EntityTags, error) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return nil, nil
	}
	t := &EntityTags{}
	rest := trim(strings.Join(lines, ","))
	if rest == "*" {
		t.Any = true
		return t, nil
	}
	for tags := 0; ; tags++ {
		rest = strings.TrimLeft(rest, " \t,") // empty elements of a list are allowed (RFC 9110, section 5.6.1)
		if rest == "" && tags > 0 {
			return t, nil
		}
		quoted, weak := strings.CutPrefix(rest, "W/")
		inner, isQuoted := strings.CutPrefix(quoted, `"`)
		opaque, after, isClosed := strings.Cut(inner, `"`)
		if !isQuoted || !isClosed || strings.ContainsFunc(opaque, isNoEtagc) {
			return nil, refuseTags(name)
		}
		if weak {
			t.Weak = append(t.Weak, opaque)
		} else {
			t.Strong = append(t.Strong, opaque)
		}
		if rest = trim(after); rest != "" && rest[0] != ',' {
			return nil, refuseTags(name)
		}
	}
}

func refuseTags(name string) error {
	return RefuseCondition(name, `must be * or a list of quoted entity tags, e.g. "17"`)
}

func trim(s string) string { return strings.Trim(s, " \t") }

// isNoEtagc reports whether an entity tag may not contain a character (RFC 9110, section 8.8.3).
func isNoEtagc(r rune) bool { return r <= ' ' || r == 0x7f }
