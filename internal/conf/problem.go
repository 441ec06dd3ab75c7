package conf

import (
	"fmt"
	"net/url"
	"strings"

	"holdfast/internal/errcode"
)

// Problem is an error in the configuration, or a warning or note about it.
type Problem struct {
	Where string // "holdfast.toml:12", an environment variable, or "default"
	Key   string // the setting, such as "server.listen"; may be ""
	What  string // what is wrong: "must be at least 1"
	Fix   string // what to do; may be ""

	line int // in the file, for sorting
}

// place is the source of a setting: a variable or a line of the file.
type place struct {
	name string
	line int
}

func (p place) String() string {
	if p.line == 0 {
		return p.name
	}
	return fmt.Sprintf("%s:%d", p.name, p.line)
}

// Message returns the problem without its place. It begins with the setting, unless
// Where is the variable or flag of that setting.
func (p Problem) Message() string {
	variable := envName(strings.Split(p.Key, "."))
	if p.Key == "" || p.Where == variable || p.Where == variable+"_FILE" || strings.HasPrefix(p.Where, "--") {
		return p.What
	}
	return p.Key + ": " + p.What
}

func (p Problem) String() string {
	s := p.Message()
	if p.Where != fromDefault {
		s = p.Where + ": " + s
	}
	if p.Fix != "" {
		s += "; " + p.Fix
	}
	return s
}

// Error lists all problems of a configuration. Its code is errcode.Invalid. A caller may
// add problems of its own checks.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration: %d problems", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// ErrorCode implements errcode.Coder.
func (e *Error) ErrorCode() errcode.Code { return errcode.Invalid }

// Report has the warnings, notes and origins of a loaded configuration.
type Report struct {
	Warnings []Problem // unknown names, probably mistakes
	Notes    []Problem // known names without effect

	origins map[string]string
}

// fromDefault is the origin of a setting that is not set.
const fromDefault = "default"

// Where returns the origin of a setting such as "server.listen": file and line, a
// variable, a flag, or "default".
func (r Report) Where(path string) string {
	if w, ok := r.origins[path]; ok {
		return w
	}
	return fromDefault
}

// didYouMean returns "did you mean X?" for the candidate nearest to name, or "". At most
// a quarter of the letters may differ, unless it is the only candidate with the same last
// part (a key in the wrong section). dotted converts names to paths for the comparison.
func didYouMean(name string, candidates []string, dotted func(string) string) string {
	unknown, name := name, dotted(name)
	key := name[strings.LastIndex(name, ".")+1:]
	best, bestDistance := "", len(name)/4+1
	var sameKey []string
	for _, c := range candidates {
		if c == unknown {
			continue // a section
		}
		if d := editDistance(name, dotted(c)); d < bestDistance {
			best, bestDistance = c, d
		}
		if strings.HasSuffix("."+dotted(c), "."+key) {
			sameKey = append(sameKey, c)
		}
	}
	if best == "" && len(sameKey) == 1 {
		best = sameKey[0]
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// Nearest returns the candidate that name is most likely a misspelling of, or "". At most
// a quarter of the letters may differ, but always one.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", max(len(name)/4, 1)+1
	for _, c := range candidates {
		if d := editDistance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance returns the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// Problems are the problems of a section. Their keys are relative to the section.
type Problems []Problem

// Addf adds a problem with a setting. The text is like "must be at least 1".
func (p *Problems) Addf(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, What: fmt.Sprintf(format, args...)})
}

// IsURL reports whether a setting is a URL that begins with https:// or http:// and has a host.
func IsURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// In returns the problems with the path of the section in their keys and with the origin
// of each setting.
func (p Problems) In(section string, r Report) []Problem {
	moved := make([]Problem, len(p))
	for i, one := range p {
		one.Key = section + "." + one.Key
		one.Where = r.Where(one.Key)
		moved[i] = one
	}
	return moved
}
