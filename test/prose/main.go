// Command prose counts words that mark noun chains and riddles in comments and guides, and fails if a figure is more
// than a tenth above its goal. A figure shows where to look: rewrite the sentence instead of swapping the word.
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

type mark struct {
	name             string
	words            *regexp.Regexp
	comments, guides float64
}

// Lower these figures when the text gets better.
var marks = []mark{
	{"of", regexp.MustCompile(`(?i)\bof\b`), 13.4, 9.6},
	{"what", regexp.MustCompile(`(?i)\bwhat\b`), 0.2, 0.6},
	{"that of", regexp.MustCompile(`(?i)\b(?:that|those) of\b`), 0.15, 0.1},
	{"one(s)", regexp.MustCompile(`(?i)\bones?\b`), 2.4, 2.4},
	{"has/have", regexp.MustCompile(`(?i)\b(?:has|have)\b`), 3.1, 1.1},
}

// maxComments limits the words in all comments.
const maxComments = 124_625

var (
	word    = regexp.MustCompile(`[A-Za-z']+`)
	comment = regexp.MustCompile(`(?m)(?:^|\s)//(.*)$`)
	ignored = regexp.MustCompile(`^(go:|nolint|line)`)
	fence   = regexp.MustCompile("(?s)```.*?```")
	table   = regexp.MustCompile(`(?m)^\|.*$`)
	code    = regexp.MustCompile("`[^`]*`")
)

// text returns the comments in a Go file, or a guide without its code and tables.
func text(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(path, ".md") {
		s := table.ReplaceAllString(fence.ReplaceAllString(string(data), " "), " ")
		return code.ReplaceAllString(s, " x "), nil
	}
	var all strings.Builder
	for _, m := range comment.FindAllStringSubmatch(string(data), -1) {
		if !ignored.MatchString(m[1]) {
			all.WriteString(m[1] + "\n")
		}
	}
	return all.String(), nil
}

type count struct {
	path  string
	words int
	marks []int
}

// weight counts riddles more than noun chains.
func (c count) weight() float64 {
	return 1000 * float64(c.marks[0]+2*c.marks[1]+3*c.marks[2]) / float64(max(c.words, 1))
}

func countFile(path string) (count, error) {
	s, err := text(path)
	c := count{path: path, words: len(word.FindAllString(s, -1))}
	for _, m := range marks {
		c.marks = append(c.marks, len(m.words.FindAllString(s, -1)))
	}
	return c, err
}

func report(kind string, files []string, reached func(m mark) float64, worst int) (problems []string, words int, err error) {
	sums := make([]int, len(marks))
	var all []count
	for _, f := range files {
		c, err := countFile(f)
		if err != nil {
			return nil, 0, err
		}
		words += c.words
		for i, n := range c.marks {
			sums[i] += n
		}
		if c.words > 150 {
			all = append(all, c)
		}
	}
	fmt.Fprintf(os.Stdout, "%s: %d words; per 1,000:", kind, words)
	for i, m := range marks {
		figure := 1000 * float64(sums[i]) / float64(max(words, 1))
		fmt.Fprintf(os.Stdout, " %s %.1f", m.name, figure)
		if figure > 1.1*reached(m) {
			problems = append(problems, fmt.Sprintf("%s have %q %.1f times in 1,000 words, up from %.1f", kind, m.name, figure, reached(m)))
		}
	}
	fmt.Fprintln(os.Stdout)
	slices.SortFunc(all, func(a, b count) int { return int(1000 * (b.weight() - a.weight())) })
	for _, c := range all[:min(worst, len(all))] {
		fmt.Fprintf(os.Stdout, "  %5.1f  %s\n", c.weight(), c.path)
	}
	return problems, words, nil
}

func run(worst int) error {
	out, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	var sources, guides []string
	for f := range strings.FieldsSeq(string(out)) {
		switch {
		case strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, "_test.go"):
			sources = append(sources, f)
		case strings.HasSuffix(f, ".md") && !strings.Contains(f, "decisions") && !strings.Contains(f, "CHANGELOG"):
			guides = append(guides, f)
		}
	}
	problems, words, err := report("comments", sources, func(m mark) float64 { return m.comments }, worst)
	if err != nil {
		return err
	}
	if words > maxComments*11/10 {
		problems = append(problems, fmt.Sprintf("comments have %d words, up from %d", words, maxComments))
	}
	more, _, err := report("guides", guides, func(m mark) float64 { return m.guides }, worst)
	if err != nil {
		return err
	}
	if problems = append(problems, more...); len(problems) > 0 {
		return fmt.Errorf("%s\ngo run ./test/prose -worst 20 shows where; see CONTRIBUTING.md", strings.Join(problems, "\n"))
	}
	return nil
}

func main() {
	worst := flag.Int("worst", 0, "also print this many of the worst files")
	flag.Parse()
	if err := run(*worst); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
