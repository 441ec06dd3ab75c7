package service

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("file"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := &Shell{Stdin: strings.NewReader("stdin")}
	for name, want := range map[string]struct {
		text string
		size int64
	}{file: {"file", 4}, "-": {"stdin", 0}} {
		in, size, err := sh.OpenInput(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || in.Close() != nil || string(text) != want.text || size != want.size {
			t.Errorf("%s: %q, %d, %v", name, text, size, err)
		}
	}
	for name, want := range map[string]string{
		dir:                        dir + " is a folder: expected a file, or - for standard input",
		filepath.Join(dir, "none"): filepath.Join(dir, "none") + " does not exist: expected a file, or - for standard input",
		filepath.Join(file, "x"):   filepath.Join(file, "x") + " cannot be read: not a directory",
	} {
		if _, _, err := sh.OpenInput(name); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, "\tYES\n": true, "y": true, "n\n": false, "yeah\n": false, "\n": false, "": false} {
		var asked strings.Builder
		sh := &Shell{Stdin: strings.NewReader(answer), Stderr: &asked}
		if got := sh.Confirm("Delete?"); got != want || !strings.HasPrefix(asked.String(), "Delete? [y/N] ") {
			t.Errorf("%q: %v after %q", answer, got, asked.String())
		}
	}
}

func TestCanAsk(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, stdin := range map[string]io.Reader{"null": null, "file": file, "reader": strings.NewReader("y\n")} {
		if (&Shell{Stdin: stdin}).CanAsk() {
			t.Errorf("%s is a terminal", name)
		}
	}
}
