package conf

import (
	"fmt"
	"strings"

	"holdfast/internal/fault"
)

// Problem is one thing that is wrong, or worth knowing, about the configuration.
type Problem struct {
	Where string // "holdfast.toml:12" or the name of an environment variable
	Key   string // the setting, when it is not part of What: "limits.max_post_bytes"
	What  string // what is wrong there
	Fix   string // what to do about it

	line int // of the file, for the order
}

// place is where a setting stands: a variable, or a line of the file.
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

// Message is what is wrong, with the setting.
func (p Problem) Message() string { return strings.TrimPrefix(p.Key+" "+p.What, " ") }

func (p Problem) String() string {
	s := p.Where + ": " + p.Message()
	if p.Fix != "" {
		s += "; " + p.Fix
	}
	return s
}

// Error is all that keeps a configuration from being used. It is coded
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

// Report is what Load found that does not stop the program.
type Report struct {
	Warnings []Problem // names that nobody reads: probably a mistake
	Notes    []Problem // names that were understood and have no effect

	origins map[string]string
}

// Where says which file and line or which variable gave the setting at a path
// such as "server.listen", so that a later check can point there. The answer
// for a setting that nobody gave is "default".
func (r Report) Where(path string) string {
	if w, ok := r.origins[path]; ok {
		return w
	}
	return "default"
}

// didYouMean is "did you mean X?" for the candidate nearest to name, or "" when
// none is near: at most a quarter of the letters differ, or it is the only one
// with the same last part (a key in the wrong section). Names are compared in
// the form that dotted gives them.
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

// Problems collects what is wrong with the settings of a section, each by its
// key within the section.
type Problems []Problem

// Addf adds a problem of a setting. The text follows the name of the setting:
// "must be at least 1".
func (p *Problems) Addf(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, What: fmt.Sprintf(format, args...)})
}

// In moves the problems of a section's settings to its place in the tree, such
// as "syncstorage", and names where each setting comes from.
func (p Problems) In(section string, r Report) []Problem {
	moved := make([]Problem, len(p))
	for i, one := range p {
		one.Key = section + "." + one.Key
		one.Where = r.Where(one.Key)
		moved[i] = one
	}
	return moved
}
