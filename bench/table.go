package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
)

// Cells with a unit. An int is printed with separators, a float64 as a rate, a time.Duration in milliseconds.
type (
	ratio  float64
	size64 int64         // bytes
	micros time.Duration // 0 means unknown
)

const none = "–"

// table writes Markdown rows.
type table struct{ out io.Writer }

// newTable writes a table's head. The columns are separated by |; columns that end with > contain numbers.
func newTable(out io.Writer, columns string) *table {
	names, lines := "|", "|"
	for column := range strings.SplitSeq(columns, "|") {
		name, number := strings.CutSuffix(column, ">")
		names += " " + name + " |"
		lines += "---|"
		if number {
			lines = strings.TrimSuffix(lines, "|") + ":|"
		}
	}
	fmt.Fprintf(out, "%s\n%s\n", names, strings.ReplaceAll(lines, "---:", "--:"))
	return &table{out}
}

// row writes a row; see the types of cells.
func (t *table) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(t.out, "| %s ", text(c))
	}
	fmt.Fprintln(t.out, "|")
}

// text returns a cell as in the table; see the types of cells.
func text(cell any) string {
	switch v := cell.(type) {
	case int:
		return thousands(v)
	case int64:
		return thousands(int(v))
	case float64:
		return rate(v)
	case ratio:
		return fmt.Sprintf("%.2f", float64(v))
	case time.Duration:
		return fmt.Sprintf("%.2f ms", v.Seconds()*1000)
	case micros:
		if v == 0 {
			return none
		}
		return rate(float64(v) / float64(time.Microsecond))
	case size64:
		return fmt.Sprintf("%d MB", v>>20)
	}
	return fmt.Sprint(cell)
}

// rate prints three digits or more.
func rate(f float64) string {
	if f < 100 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// goalCell marks a goal that was missed.
func goalCell(missed bool, goal any) string {
	if missed {
		return "**missed** " + text(goal)
	}
	return text(goal)
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// report prints the parts' tables, and writes them into a document between the markers that name the parts.
type report struct {
	terminal io.Writer
	document string // path; "" to print only
	begin    string
}

// part prints a table, and replaces the one of the same name in the document. After an error the document is unchanged.
func (r *report) part(name string, measure func(out io.Writer) error) error {
	var text bytes.Buffer
	out := io.MultiWriter(&text, r.terminal)
	fmt.Fprintf(out, "%s\n\n", r.begin)
	if err := measure(out); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintln(r.terminal)
	if r.document == "" {
		return nil
	}
	old, err := os.ReadFile(r.document)
	if err != nil {
		return err
	}
	now, err := replace(string(old), name, text.String())
	if err != nil {
		return fmt.Errorf("%s: %w", r.document, err)
	}
	return os.WriteFile(r.document, []byte(now), 0o600) // WriteFile keeps the file's mode
}

// replace returns the document with the text between the markers of a part.
func replace(document, part, text string) (string, error) {
	begin, end := "<!-- bench: "+part+" -->\n", "<!-- bench: end of "+part+" -->"
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("no place for the results: expected a line %q and a line %q", strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}

// machine describes what the figures depend on.
func machine(ctx context.Context, o *options) (string, error) {
	var kb int64
	if _, err := fmt.Sscan(procLine("/proc/meminfo", "MemTotal"), &kb); err != nil {
		return "", err
	}
	syncs, err := syncRate()
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d cores (%s), %d GB memory, %d fdatasync/s (8 kB); %s, %s, SQLite %s", runtime.NumCPU(), procLine("/proc/cpuinfo", "model name"),
		(kb+512<<10)>>20, syncs, strings.ToUpper(runtime.GOOS[:1])+runtime.GOOS[1:], strings.Replace(runtime.Version(), "go", "Go ", 1), sqlite.Version)
	if !slices.Contains(o.engines, "postgres") {
		return text + ".", nil
	}
	program := "psql"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql"); len(found) > 0 {
		program = slices.Max(found)
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	words := strings.Fields(string(out)) // e.g. psql (PostgreSQL) 15.8 (Debian …)
	if err != nil || len(words) < 3 {
		return "", fmt.Errorf("psql --version: %w: %s", err, out)
	}
	return text + ", PostgreSQL " + words[2] + ".", nil
}

// procLine returns the value of the first line with this name in a file of /proc.
func procLine(file, name string) string {
	text, _ := os.ReadFile(file)
	for l := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(l, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// syncRate measures how often per second an 8 kB file can be synced in the temporary folder, which limits the commit
// rate.
func syncRate() (int, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	f, err := os.OpenFile(filepath.Join(dir, "sync"), os.O_CREATE|os.O_WRONLY|syscall.O_DSYNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const window = 500 * time.Millisecond
	n := 0
	for begun := time.Now(); time.Since(begun) < window; n++ {
		if _, err := f.WriteAt(make([]byte, 8<<10), 0); err != nil {
			return 0, err
		}
	}
	return n * int(time.Second/window), nil
}
