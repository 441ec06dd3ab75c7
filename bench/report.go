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
	"strings"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

type report struct {
	terminal io.Writer
	document string // path
	begin    string
}

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

func replace(document, part, text string) (string, error) {
	begin, end := "<!-- bench: "+part+" -->\n", "<!-- bench: end of "+part+" -->"
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("no place for the results: expected a line %q and a line %q", strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}

func machine(ctx context.Context, o *options) (string, error) {
	model, err := procLine("/proc/cpuinfo", "model name")
	if err != nil {
		return "", err
	}
	total, err := procLine("/proc/meminfo", "MemTotal")
	if err != nil {
		return "", err
	}
	var kb int64
	if _, err := fmt.Sscan(total, &kb); err != nil {
		return "", err
	}
	syncs, err := syncRate()
	if err != nil {
		return "", err
	}
	lite, err := sqliteVersion()
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d cores (%s), %d GB memory, %d fdatasync/s (8 kB); %s, %s, SQLite %s",
		runtime.NumCPU(), model, (kb+512<<10)>>20, syncs, strings.ToUpper(runtime.GOOS[:1])+runtime.GOOS[1:], strings.Replace(runtime.Version(), "go", "Go ", 1), lite)
	if !slices.Contains(o.engines, "postgres") {
		return text + ".", nil
	}
	version, err := postgresVersion(ctx)
	return text + ", PostgreSQL " + version + ".", err
}

func postgresVersion(ctx context.Context) (string, error) {
	program, err := findPgbench()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	words := strings.Fields(string(out)) // e.g. pgbench (PostgreSQL) 15.8 (Debian …)
	if err != nil || len(words) < 3 {
		return "", fmt.Errorf("pgbench --version: %w: %s", err, out)
	}
	return words[2], nil
}

func procLine(file, name string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for l := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(l, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "unknown", nil
}

func sqliteVersion() (version string, err error) {
	err = withFile(":memory:", func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT sqlite_version()`, &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error { version = s.ColumnText(0); return nil },
		})
	})
	return version, err
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
	block := make([]byte, 8<<10)
	const window = 500 * time.Millisecond
	n := 0
	for begun := time.Now(); time.Since(begun) < window; n++ {
		if _, err := f.WriteAt(block, 0); err != nil {
			return 0, err
		}
	}
	return n * int(time.Second/window), nil
}
