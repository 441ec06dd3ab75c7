package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

// needLinux skips a test on systems where bench cannot measure CPU time and memory.
func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("bench reads CPU times and memory from Linux")
	}
}

var tiny = size{
	batch: 250, batches: []int{100, 250}, batchCallers: 2, starts: 2,
	reads: 40, large: 2 << 20, listKeys: 2000, deletes: 10, huge: 16 << 20,
}

// measured runs the load generator with tiny sizes, and returns its output.
func measured(t *testing.T, args ...string) string {
	t.Helper()
	needLinux(t)
	o, err := parse(append([]string{"-binary", binary.Path(), "-engines", "sqlite", "-window", "20ms", "-runs", "1", "-connections", "1,2"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	*o.size = tiny
	var terminal bytes.Buffer
	if err := run(t.Context(), &o, &terminal); err != nil {
		t.Fatalf("%v\n%s", err, &terminal)
	}
	return terminal.String()
}

// wantRows checks that the table contains n rows, each with a figure, and rows that begin with these cells.
func wantRows(t *testing.T, text string, n int, begin ...string) {
	t.Helper()
	rows := regexp.MustCompile(`(?m)^\| .*\|.* [1-9].*\|$`).FindAllString(text, -1)
	if all := strings.Count(text, "\n| "); all != 1+n || len(rows) < n {
		t.Errorf("%d rows, %d with figures, want %d:\n%s", all-1, len(rows), n, text)
	}
	for _, cells := range begin {
		if !strings.Contains(text, "\n| "+cells+" | ") {
			t.Errorf("no row %q in:\n%s", cells, text)
		}
	}
}

// TestParts runs every part. The parts check the server's answers, and the rows that the limits read and change.
func TestParts(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]struct {
		rows int
		row  string
	}{
		"load":          {14, "batch: commit 250 | ENGINE | 2"},
		"ext":           {16, "ext batch, 10 operations | ENGINE | 2"},
		"buckets":       {22, "s3 mixed, 1 MiB | ENGINE | 2"},
		"memory":        {4, "commits 250 × 500 B | ENGINE"},
		"start":         {1, "ENGINE"},
		"neighbour":     {1, "ext list 100, values | ENGINE"},
		"bucketsmemory": {2, "returns a 16 MiB object | ENGINE"},
	} {
		for _, engine := range engines {
			t.Run(part+"/"+engine, func(t *testing.T) {
				t.Parallel()
				if part != "ext" || engine != "sqlite" {
					testdb.SoakOnly(t, "ext on SQLite has shown the frame of all")
				}
				if testdb.SQLite(t); engine == "postgres" {
					testdb.Postgres(t) // skips without a server
				}
				text := measured(t, "-engines", engine, "-parts", part, "-works", map[string]string{"neighbour": "ext list 100, values"}[part])
				wantRows(t, text, want.rows, strings.ReplaceAll(want.row, "ENGINE", engine))
			})
		}
	}
}

// TestReport checks that a run replaces only the tables of its parts, and says how it measured.
func TestReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "measurements.md")
	const document = "Before.\n<!-- bench: one -->\nold one\n<!-- bench: end of one -->\nBetween.\n<!-- bench: two -->\nold two\n<!-- bench: end of two -->\nAfter.\n"
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	var terminal bytes.Buffer
	r := report{terminal: &terminal, document: path, begin: "the command"}
	measure := func(out io.Writer) error {
		newTable(out, "work|ops/s>").row("new", 7.0)
		return nil
	}
	if err := r.part("two", measure); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const table = "the command\n\n| work | ops/s |\n|---|--:|\n| new | 7.0 |\n"
	if want := strings.Replace(document, "old two", "\n"+table, 1); string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !strings.HasPrefix(terminal.String(), table) {
		t.Errorf("printed %s", &terminal)
	}
	if err := r.part("three", measure); err == nil {
		t.Error("no error although the document has no place for the results")
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	newTable(&out, "a").row("x", 1234567, 99.94, 1234.5, ratio(0.5), 1500*time.Microsecond, micros(time.Millisecond), micros(0), size64(3<<20), goalCell(true, goal{0.5, time.Millisecond}), goalCell(false, goal{}))
	const want = "| a |\n|---|\n| x | 1,234,567 | 99.9 | 1234 | 0.50 | 1.50 ms | 1000 | – | 3 MB | **missed** 0.50, 1000 µs | – |\n"
	if out.String() != want {
		t.Errorf("%s, want %s", &out, want)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"-connections":        {"-connections", "0"},
		"ascending":           {"-connections", "16,1"},
		"-engines":            {"-engines", "mysql"},
		"-parts":              {"-parts", "all"},
		"-runs":               {"-runs", "0"},
		"-window":             {"-window", "0s"},
		"-works":              {"-works", "("},
		"need -peer":          {"-peer-secret", "s"},
		"needs -peer-secret":  {"-peer", "http://127.0.0.1:8001"},
		"expected an address": {"-peer", "https://127.0.0.1:8001", "-peer-secret", "s"},
	} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestDocumentedCommands checks that the flags in the guides' commands still exist, e.g. after a part is renamed.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	guides, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.NewReplacer("URL", "http://127.0.0.1:8001", "SECRET", "s", "PIDS", "1", "PID", "1", "-out=", "-out= ", "'", "")
	found := 0
	for _, path := range guides {
		guide, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range regexp.MustCompile("go run \\./bench( [^`\n]*)").FindAllStringSubmatch(string(guide), -1) {
			text := regexp.MustCompile(`'[^']*'`).ReplaceAllString(command[1], "x") // may contain spaces
			if _, err := parse(strings.Fields(examples.Replace(text))); err != nil && !strings.Contains(text, "-help") && !strings.HasSuffix(text, "-peer URL") {
				t.Errorf("%s:%s: %v", path, command[1], err)
			}
			found++
		}
	}
	if found < 10 {
		t.Errorf("%d commands", found)
	}
}

// TestWindows checks the medians, and that sides take turns and rounds repeat until the window is over.
func TestWindows(t *testing.T) {
	t.Parallel()
	for want, all := range map[time.Duration][]time.Duration{3: {5, 1, 3}, 4: {7, 1, 3, 5}} {
		if got := median(all); got != want {
			t.Errorf("%v: %d, want %d", all, got, want)
		}
	}
	order := ""
	side := func(name string, all ...float64) func() (sample, error) {
		n := 0
		return func() (sample, error) {
			order += name
			n++
			return sample{ops: all[n-1], peak: int64(all[n-1])}, nil
		}
	}
	got, err := alternate(3, side("a", 1, 9, 2), side("b", 4, 5, 6))
	if err != nil || order != "abbaab" || got[0].ops != 2 || got[0].peak != 9 || got[1].ops != 5 {
		t.Errorf("%s: %+v, %v", order, got, err)
	}
	prepared := 0
	p, err := rounds(lasting(3*time.Second), 2, func(more while) (phase, error) {
		prepared++
		if !more(1, time.Hour) || more(2, 0) {
			t.Error("a round does not have two operations")
		}
		return phase{took: []time.Duration{1, 1}, all: time.Second}, nil
	})
	if err != nil || prepared != 3 || len(p.took) != 6 {
		t.Errorf("%d rounds, %d operations, %v", prepared, len(p.took), err)
	}
}

const comparedRow = `( \| [1-9][\d.]*){2} \| \*\*[\d.]+\*\*( \| \d+\.\d\d ms){4}`

// TestCompare compares a binary with itself, and with itself as a peer whose processes are known or not.
func TestCompare(t *testing.T) {
	t.Parallel()
	needLinux(t)
	testdb.SQLite(t)
	const known, unknown = comparedRow + ` \| [1-9][\d.]* \| [1-9][\d.]* \| \*\*[\d.]+\*\* \| – \| – \| – \| \d+ MB \| \d+ MB \|$`, comparedRow + ` \| [1-9][\d.]* \| – \| – \| – \| – \| – \| \d+ MB \| – \|$`
	check := func(text, row string) {
		t.Helper()
		for _, work := range []string{"PUT 500 B", "GET 100 full"} {
			if n := len(regexp.MustCompile(`(?m)^\| `+work+` \| sqlite \| 2`+row).FindAllString(text, -1)); n != 1 {
				t.Errorf("%d rows of %s in:\n%s", n, work, text)
			}
		}
	}
	works := []string{"-connections", "2", "-works", "^PUT|^GET 100 ", "-parts", "load"}
	check(measured(t, append(works, "-against", binary.Path())...), known)
	err := onServer(t.Context(), binary.Path(), nil, &engine{name: "sqlite"}, nil, func(peer *server) error {
		args := append(works, "-peer", "http://"+peer.listen, "-peer-secret", ownSecret)
		text := measured(t, args...)
		if strings.Contains(text, ownSecret) {
			t.Error("the secret is in the table")
		}
		check(text, unknown)
		check(measured(t, append(args, "-peer-pids", fmt.Sprint(peer.pid()))...), known)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestS3Peers compares buckets with each S3 server built by `make bench-peers-s3`, using the same works. No server may
// refuse a request.
func TestS3Peers(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes half a minute for each server")
	testdb.SQLite(t)
	for _, name := range []string{"minio", "versitygw"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := filepath.Glob("../bin/" + name + "-v*")
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 {
				t.Skipf("no %s in bin: make bench-peers-s3 builds it", name)
			}
			text := measured(t, "-"+name, found[len(found)-1])
			for _, op := range newBuckets(&tiny).operations() {
				if n := len(regexp.MustCompile(`(?m)^\| `+op.name+` \| sqlite \| [12]`+comparedRow).FindAllString(text, -1)); n != 2 {
					t.Errorf("%s: %d rows, want 2, in:\n%s", op.name, n, text)
				}
			}
		})
	}
}
