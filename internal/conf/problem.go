package conf

import (
	"fmt"
	"strings"

	"holdfast/internal/fault"
)

// Problem is an error in the configuration, or a warning or note about it.
type Problem struct {
	Where string // "holdfast.toml:12", an environment variable, or "default"
	Key   string // the setting, such as "server.listen"; "" when it is none
	What  string // what is wrong: "must be at least 1"
	Fix   string // what to do about it; may be ""

	line int // of the file, for the order
}

// place is where a setting comes from: a variable, or a line of the file.
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

// Message says what is wrong. It begins with the setting, unless Where is the
// setting's own variable or flag.
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

// Error lists everything that makes a configuration invalid. Its code is
// fault.Invalid. A caller with rules of its own adds its problems here.
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

// FaultCode implements fault.Coder.
func (e *Error) FaultCode() fault.Code { return fault.Invalid }

// Report is what Load found that is not an error.
type Report struct {
	Warnings []Problem // unknown names: probably a mistake
	Notes    []Problem // known names without effect

	origins map[string]string
}

// fromDefault is the origin of a setting that nobody has set.
const fromDefault = "default"

// Where returns the origin of a setting such as "server.listen": file and line, a
// variable, or "default".
func (r Report) Where(path string) string {
	if w, ok := r.origins[path]; ok {
		return w
	}
	return fromDefault
}

// didYouMean returns "did you mean X?" for the candidate nearest to name, or "":
// at most a quarter of the letters differ, or it is the only one with the same
// last part (a key in the wrong section). Names are compared in the form that
// dotted gives them.
func didYouMean(name string, candidates []string, dotted func(string) string) string {
	unknown, name := name, dotted(name)
	key := name[strings.LastIndex(name, ".")+1:]
	best, bestDistance := "", len(name)/4+1
	var sameKey []string
	for _, c := range candidates {
		if c == unknown {
			continue // known, but a section
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

// Nearest returns the candidate that name is most likely a misspelling of, or "":
// at most a quarter of its letters differ, and at least one may.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", max(len(name)/4, 1)+1
	for _, c := range candidates {
		if d := editDistance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance counts the letters to insert, delete or replace (Levenshtein).
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

// Problems collects the errors of a section, each with its key within the section.
type Problems []Problem

// Addf adds a problem of a setting, such as "must be at least 1".
func (p *Problems) Addf(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, What: fmt.Sprintf(format, args...)})
}

// In returns the problems with the section's name before their keys and with the
// origin of each setting.
func (p Problems) In(section string, r Report) []Problem {
	moved := make([]Problem, len(p))
	for i, one := range p {
		one.Key = section + "." + one.Key
		one.Where = r.Where(one.Key)
		moved[i] = one
	}
	return moved
}
