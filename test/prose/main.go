// Command prose counts words that mark noun chains and riddles in comments and documents, and fails if a figure is more
// than a tenth above the one reached. A figure shows where to look: rewrite the sentence instead of swapping the word.
//
// usage: go run ./test/prose [-worst N]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

var marks = []struct {
	name  string
	words *regexp.Regexp
}{
	{"of", regexp.MustCompile(`(?i)\bof\b`)},
	{"what", regexp.MustCompile(`(?i)\bwhat\b`)},
	{"that of", regexp.MustCompile(`(?i)\b(?:that|those) of\b`)},
	{"one(s)", regexp.MustCompile(`(?i)\bones?\b`)},
	{"has/have", regexp.MustCompile(`(?i)\b(?:has|have)\b`)},
}

type kind struct {
	name    string
	has     func(path string) bool
	text    func(file string) string
	reached []float64 // per 1,000 words, by mark
}

// Lower these figures when the text gets better.
var kinds = []kind{
	{"comments", isSource, goComments, []float64{12.4, 0.2, 0.15, 2.5, 3.4}},
	{"test comments", isTest, goComments, []float64{9.9, 0.2, 0.15, 3.0, 3.5}},
	{"SQL comments", suffix(".sql"), sqlComments, []float64{19.9, 0.2, 0.4, 6.0, 5.3}},
	{"TypeScript comments", suffix(".ts"), tsComments, []float64{11.2, 0.2, 0.15, 1.8, 2.5}},
	{"guides", isGuide, prose, []float64{8.4, 0.6, 0.1, 2.4, 1.1}},
	{"decisions", isDecision, prose, []float64{9.8, 0.2, 0.15, 2.7, 0.7}},
}

func suffix(s string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, s) }
}

func isTest(path string) bool     { return strings.HasSuffix(path, "_test.go") }
func isSource(path string) bool   { return strings.HasSuffix(path, ".go") && !isTest(path) }
func isDecision(path string) bool { return strings.HasPrefix(path, "docs/decisions/") }

func isGuide(path string) bool {
	return strings.HasSuffix(path, ".md") && !isDecision(path) && !strings.Contains(path, "CHANGELOG")
}

var (
	word       = regexp.MustCompile(`[A-Za-z']+`)
	comment    = regexp.MustCompile(`(?m)(?:^|\s)//(.*)$`)
	ignored    = regexp.MustCompile(`^(go:|nolint|line)`)
	sqlComment = regexp.MustCompile(`(?m)--(.*)$`)
	tsComment  = regexp.MustCompile(`(?m)(?:^|\s)(?://|/\*\*?|\*)(.*)$`)
	fence      = regexp.MustCompile("(?s)```.*?```")
	table      = regexp.MustCompile(`(?m)^\|.*$`)
	code       = regexp.MustCompile("`[^`]*`")
)

func matches(re *regexp.Regexp, file string) string {
	var all strings.Builder
	for _, m := range re.FindAllStringSubmatch(file, -1) {
		if !ignored.MatchString(m[1]) {
			all.WriteString(m[1] + "\n")
		}
	}
	return all.String()
}

func goComments(file string) string  { return matches(comment, file) }
func sqlComments(file string) string { return matches(sqlComment, file) }
func tsComments(file string) string  { return matches(tsComment, file) }

// prose returns a document without its code and tables.
func prose(file string) string {
	return code.ReplaceAllString(table.ReplaceAllString(fence.ReplaceAllString(file, " "), " "), " x ")
}

type count struct {
	path  string
	words int
	marks []int
}

// Riddles have more weight than noun chains.
func (c count) weight() float64 {
	return 1000 * float64(c.marks[0]+2*c.marks[1]+3*c.marks[2]) / float64(max(c.words, 1))
}

func (k kind) report(files []string, worst int) (problems []string, err error) {
	total := count{marks: make([]int, len(marks))}
	var all []count
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		s := k.text(string(data))
		c := count{path: f, words: len(word.FindAllString(s, -1))}
		for i, m := range marks {
			c.marks = append(c.marks, len(m.words.FindAllString(s, -1)))
			total.marks[i] += c.marks[i]
		}
		total.words += c.words
		if c.words > 150 {
			all = append(all, c)
		}
	}
	fmt.Fprintf(os.Stdout, "%s: %d words; per 1,000:", k.name, total.words)
	for i, m := range marks {
		figure := 1000 * float64(total.marks[i]) / float64(max(total.words, 1))
		fmt.Fprintf(os.Stdout, " %s %.1f", m.name, figure)
		if figure > 1.1*k.reached[i] {
			problems = append(problems, fmt.Sprintf("%s have %q %.1f times in 1,000 words, up from %.1f", k.name, m.name, figure, k.reached[i]))
		}
	}
	fmt.Fprintln(os.Stdout)
	slices.SortFunc(all, func(a, b count) int { return int(1000 * (b.weight() - a.weight())) })
	for _, c := range all[:min(worst, len(all))] {
		fmt.Fprintf(os.Stdout, "  %5.1f  %s\n", c.weight(), c.path)
	}
	return problems, nil
}

func run(worst int) error {
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	var problems []string
	for _, k := range kinds {
		var files []string
		for f := range strings.FieldsSeq(string(out)) {
			if k.has(f) {
				files = append(files, f)
			}
		}
		found, err := k.report(files, worst)
		if err != nil {
			return err
		}
		problems = append(problems, found...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s\ngo run ./test/prose -worst 20 shows where; see CONTRIBUTING.md", strings.Join(problems, "\n"))
	}
	return nil
}

func main() {
	worst := flag.Int("worst", 0, "also print this many of the worst files of each kind")
	flag.Parse()
	if err := run(*worst); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
