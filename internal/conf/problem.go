package conf

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"holdfast/internal/errcode"
)

// Problem is an error, warning or note about the configuration.
type Problem struct {
	Where string // "holdfast.toml:12", a variable, or "default"
	Key   string // the setting, e.g. "server.listen"; may be ""
	What  string // e.g. "must be at least 1"
	Fix   string // advice; may be ""

	line int // for sorting
}

// origin is a line in a file, or a variable or flag.
type origin struct {
	name string
	line int    // 0: none
	text string // of a variable or flag, for errors
}

func (p origin) String() string {
	if p.line == 0 {
		return p.name
	}
	return fmt.Sprintf("%s:%d", p.name, p.line)
}

// Message returns the problem without its origin. It begins with the setting, unless Where already names it.
func (p Problem) Message() string {
	variable := envName(strings.Split(p.Key, "."))
	if p.Key == "" || p.Where == variable || p.Where == variable+"_FILE" || strings.HasPrefix(p.Where, "--") {
		return p.What
	}
	return p.Key + ": " + p.What
}

// String returns the problem with its origin and advice, in one line.
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

// inFile matches the origin of a setting in a file.
var inFile = regexp.MustCompile(`:[0-9]+$`)

// ShowValues adds to problems that describe valid values the value of the setting in dst, if a variable or flag set it. It
// shows no secret, and no text with
// @, which may be a URL with a password.
func ShowValues(dst any, r Report, problems []Problem) {
	values := map[string]string{}
	for _, s := range Settings(dst, r) {
		if !s.Secret && !strings.Contains(s.Value, "@") && len(s.Value) <= maxShown {
			values[s.Path] = s.Value
		}
	}
	for i := range problems {
		p := &problems[i]
		value, known := values[p.Key]
		describes := strings.HasPrefix(p.What, "must ") || strings.HasPrefix(p.What, "is not ") || strings.HasPrefix(p.What, "contains ")
		if known && describes && p.Where != fromDefault && !inFile.MatchString(p.Where) && !strings.Contains(p.What, value) {
			p.What += "; the value is " + value
		}
	}
}

// Error lists all problems, with code errcode.Invalid. Callers may add their own.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
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

func (e *Error) ErrorCode() errcode.Code { return errcode.Invalid }

// Report describes a loaded configuration: warnings, notes and origins.
type Report struct {
	File     string    // Options.File
	Warnings []Problem // unknown names, probably mistakes, and broken rules with which a server starts
	Notes    []Problem // known names without effect

	origins map[string]string // by setting
	derived map[string]string // by setting; see Derive

	defaults map[string]string // of secret settings that have one, as in the file: a default is in the reference
}

// Derive says that the default of a setting follows from another setting, for Settings. Where still returns "default",
// because nobody set it.
func (r *Report) Derive(path, from string) {
	if _, set := r.origins[path]; !set {
		r.derived[path] = from
	}
}

// source is Where, but names the setting that a default follows from.
func (r Report) source(path string) string {
	if from, ok := r.derived[path]; ok {
		return from
	}
	return r.Where(path)
}

const fromDefault = "default"

// Where returns a setting's origin: file and line, variable, flag, or "default".
func (r Report) Where(path string) string {
	if w, ok := r.origins[path]; ok {
		return w
	}
	return fromDefault
}

// didYouMean returns "did you mean X?" for the nearest candidate, or "". At most a quarter of the letters may differ,
// unless only one candidate has the same last part (a key in the wrong section). dotted converts names to paths.
func didYouMean(name string, candidates []string, dotted func(string) string) string {
	unknown, name := name, dotted(name)
	key := name[strings.LastIndex(name, ".")+1:]
	best, bestDistance := "", len(name)/4+1
	var sameKey []string
	for _, c := range candidates {
		if c == unknown {
			continue
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

// Nearest returns the likely intended candidate, or "". Up to a quarter of the name's letters may differ, or one letter
// of a short name.
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

// Problems belong to a section; their keys are relative to it.
type Problems []Problem

// Addf adds a problem with a setting of the section. The text continues the setting's name, e.g. "must be at least
// 1".
func (p *Problems) Addf(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, What: fmt.Sprintf(format, args...)})
}

// IsURL accepts an https:// or http:// URL with a host.
func IsURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// In adds the section's path to each key, and the settings' origins.
func (p Problems) In(section string, r Report) []Problem {
	moved := make([]Problem, len(p))
	for i, problem := range p {
		problem.Key = section + "." + problem.Key
		problem.Where = r.Where(problem.Key)
		moved[i] = problem
	}
	return moved
}
