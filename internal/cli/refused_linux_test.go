package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/cli"
	"holdfast/internal/testdb"
)

// The variables of a process that TestEveryCommandRefused starts: the folder with the data, and whether the process
// sees it read-only.
const (
	refusedData     = "DATA_OF_EVERY_COMMAND_REFUSED"
	refusedReadOnly = "READ_ONLY_OF_EVERY_COMMAND_REFUSED"
)

// noData lists the commands that do not need the data folder, with the words of the error that they print instead, or ""
// if they end with status 0.
var noData = map[string]string{
	"completion": "", "config effective": "", "config example": "", "config reference": "", "man": "", "version": "",
	"backup key": "", "sync budget": "",
	"health": "no answer from http://127.0.0.1:0/readyz",
}

// onlyReads lists the commands that a read-only file system lets do their work, with the words that they print.
var onlyReads = map[string]string{
	"log": "no Holdfast server answers on", "reload": "no Holdfast server answers on", "status": "no Holdfast server answers on",
	"backup list": "contains no backup", "backup verify": "contains no holdfast-replica.json", "restore": "is not empty: name a new folder",
}

// TestEveryCommandRefused runs every command with a data folder that the file system refuses. Each must name the cause,
// the owner and the way out, and none may take the error for something else, e.g. for missing or damaged data. The
// processes run all commands in parallel without a new process for each.
func TestEveryCommandRefused(t *testing.T) {
	t.Parallel()
	if data := os.Getenv(refusedData); data != "" {
		runRefused(t, data)
		return
	}
	testdb.CheckOnly(t, "it starts every command four times")
	if os.Getuid() != 0 {
		t.Skip("needs root, to start processes of another user and to mount a file system")
	}
	program := filepath.Join(everybody(t), "test")
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	lines, err := json.Marshal(commandLines(t))
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	byNobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	owned := []string{"permission denied", "belongs to root", "this process runs as nobody", "sudo holdfast …"}
	for _, tc := range []struct {
		name     string
		folder   os.FileMode // of the data folder
		above    os.FileMode // of the folder with the data folder
		attr     *syscall.SysProcAttr
		readOnly bool
		says     []string // each command prints these
	}{
		{"the folder above cannot be entered", 0o755, 0o700, byNobody, false, owned},
		{"the folder cannot be entered", 0o700, 0o755, byNobody, false, owned},
		{"the folder cannot be listed and its files cannot be read", 0o711, 0o755, byNobody, false, owned},
		{"a read-only file system", 0o755, 0o755, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, true, []string{"read-only file system", "mount it writable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(everybody(t), "above", "data")
			makeData(t, data)
			if err := errors.Join(os.Chmod(filepath.Dir(data), tc.above), os.Chmod(data, tc.folder)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestEveryCommandRefused$", "-test.v")
			cmd.Stdin = bytes.NewReader(lines)
			cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{refusedData + "=" + data, "PATH=/usr/bin:/bin", "HOME=/"}, "/", tc.attr
			if tc.readOnly {
				cmd.Env = append(cmd.Env, refusedReadOnly+"=1")
			}
			out, err := cmd.CombinedOutput()
			if bytes.Contains(out, []byte("--- SKIP")) || err != nil && cmd.ProcessState == nil {
				t.Skipf("needs permission for another user and a mount: %v\n%s", err, out)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var all map[string]ran
			_, encoded, _ := strings.Cut(string(out), "RESULTS ")
			if err := json.NewDecoder(strings.NewReader(encoded)).Decode(&all); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if len(all) < 150 {
				t.Errorf("only %d commands", len(all))
			}
			for _, command := range slices.Sorted(maps.Keys(all)) {
				all[command].check(t, command, tc.readOnly, tc.says)
			}
		})
	}
}

// everybody returns a folder that every user may enter.
func everybody(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// misleading matches words for other problems than a refused folder.
var misleading = regexp.MustCompile(`(?i)restored completely|\bdelete\b|does not exist|internal error|damaged|will be created|--help' for usage`)

type ran struct {
	Line   string // the arguments
	Status int
	Out    string
}

func (r ran) check(t *testing.T, command string, readOnly bool, says []string) {
	t.Helper()
	if words := onlyReads[command]; words != "" && readOnly && strings.Contains(r.Out, words) {
		return
	}
	if needs, ok := noData[command]; ok && (needs == "" && r.Status == 0 || needs != "" && strings.Contains(r.Out, needs)) {
		return
	}
	if r.Status != 1 || misleading.MatchString(r.Out) {
		t.Errorf("holdfast %s: exit status %d\n%s", r.Line, r.Status, r.Out)
		return
	}
	for _, words := range says {
		if !strings.Contains(r.Out, words) {
			t.Errorf("holdfast %s: no %q in\n%s", r.Line, words, r.Out)
		}
	}
}

// makeData fills a data folder as a server does at its first start.
func makeData(t *testing.T, data string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	status := cli.Run(ctx, cli.Env{
		Args: []string{"serve"}, Environ: refusedEnviron(data), Stdin: strings.NewReader(""), Stdout: &onWrite{do: cancel}, Stderr: &errs,
	})
	if status != 0 {
		t.Fatalf("exit status %d, %s", status, &errs)
	}
}

func refusedEnviron(data string) []string {
	return []string{
		"HOLDFAST_DATA=" + data, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0",
		"HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0",
	}
}

// onWrite ends the server when it announces its addresses.
type onWrite struct {
	once sync.Once
	do   func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.once.Do(w.do)
	return len(p), nil
}

// runRefused runs every command and prints the results for the parent process.
func runRefused(t *testing.T, data string) {
	if os.Getenv(refusedReadOnly) != "" {
		mountReadOnly(t, filepath.Dir(data))
	}
	all := map[string]ran{}
	var mu sync.Mutex
	var running errgroup.Group
	running.SetLimit(2 * runtime.GOMAXPROCS(0))
	var lines map[string][]string
	if err := json.NewDecoder(os.Stdin).Decode(&lines); err != nil {
		t.Fatal(err)
	}
	for command, line := range lines {
		for i := range line {
			line[i] = strings.Replace(line[i], "file://DATA", "file://"+data, 1)
		}
		running.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out bytes.Buffer
			both := &locked{w: &out}
			r := ran{Line: strings.Join(line, " ")}
			r.Status = cli.Run(ctx, cli.Env{Args: line, Environ: refusedEnviron(data), Stdin: strings.NewReader(""), Stdout: both, Stderr: both})
			r.Out = out.String()
			mu.Lock()
			defer mu.Unlock()
			all[command] = r
			return nil
		})
	}
	_ = running.Wait()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("RESULTS " + string(text) + "\n")
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// mountReadOnly makes a folder read-only for this process, with mounts of its own.
func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	for _, step := range []func() error{
		func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") },
		func() error { return syscall.Mount(dir, dir, "", syscall.MS_BIND, "") },
		func() error {
			return syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		},
	} {
		if err := step(); err != nil {
			t.Skipf("needs permission to mount: %v", err)
		}
	}
}

// commandLines returns arguments for each command that is not only a group: its first example, or else its synopsis.
func commandLines(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, command := range commands(t) {
		_, page, _ := run(t, nil, append(strings.Fields(command), "--help")...)
		_, usage, _ := strings.Cut(page, "Usage:\n  holdfast ")
		usage, _, _ = strings.Cut(usage, "\n")
		_, examples, _ := strings.Cut(page, "\nExamples:\n")
		example, _, _ := strings.Cut(examples, "\n")
		switch _, args := exampleArgs(t, example); {
		case strings.HasSuffix(usage, "COMMAND"):
		case otherLines[command] != "":
			all[command] = strings.Fields(command + " " + otherLines[command])
		case len(args) > 1:
			all[command] = args[1:]
		default:
			all[command] = fillIn(usage)
		}
	}
	return all
}

// fillIn replaces the placeholders of a synopsis.
func fillIn(usage string) (line []string) {
	values := map[string]string{
		"ACCOUNT": uid, "UUID": tenant, "NUMBER": "1", "N": "1", "KEY": "HF0123456789ABCDEF", "NODE": "https://node.example.org", "BUCKET": "photos",
		"OBJECT": "a.jpg", "VERSION": "1", "UPLOAD": "1", "EVENT": tenant, "SERVICE": "guest", "TENANT": tenant, "JOB": "sweep", "RULE": "old",
		"NAME": "photos", "USER": "u",
	}
	for word := range strings.FieldsSeq(usage) {
		if !strings.HasPrefix(word, "[") {
			line = append(line, cmp.Or(values[word], word))
		}
	}
	return line
}

// otherLines are the arguments of commands whose example or synopsis does not reach the data folder.
var otherLines = map[string]string{
	"backup": "/none", "backup list": "file://DATA", "backup verify": "file://DATA", "restore": "/",
	"buckets versions hold":   uid + " photos a.jpg 1 --hold on",
	"buckets versions retain": uid + " photos a.jpg 1 --mode none",
	"guest sessions erase":    "gms_01ARZ3NDEKTSV4RRFFQ69G5FAV",
	"guest user-sessions end": "gus_01ARZ3NDEKTSV4RRFFQ69G5FAV",
}
