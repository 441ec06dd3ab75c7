package testdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstall checks the advice for the systems that the guide names.
func TestInstall(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"ID=debian\nNAME=\"Debian GNU/Linux\"\n":  "install with sudo apt-get install redis-server postgresql",
		"ID=ubuntu\nID_LIKE=debian\n":             "install with sudo apt-get install redis-server postgresql",
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"": "install with sudo apt-get install redis-server postgresql",
		"ID=fedora\n": "install with sudo dnf install valkey-compat-redis postgresql-server",
		"ID=\"rocky\"\nID_LIKE=\"rhel fedora\"\n": "install with sudo dnf install valkey-compat-redis postgresql-server",
		"ID=arch\n":   "install with sudo pacman -S valkey postgresql",
		"ID=alpine\n": "install redis, postgresql",
		"":            "install redis, postgresql",
	} {
		if got := installOn(systemOf(release), []string{"redis", "postgresql"}); got != want {
			t.Errorf("%q: %s, want %s", release, got, want)
		}
	}
	if got := installOn("macos", []string{"redis", "postgresql"}); got != "install with brew install redis postgresql@17" {
		t.Error(got)
	}
}

// TestMakeWithoutGo checks that make says how to install Go, in the same words as Install, before it does anything.
func TestMakeWithoutGo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make: " + Install("make"))
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for of := range commands {
		if how := strings.TrimPrefix(installOn(of, []string{"go"}), "install "); !strings.Contains(string(makefile), "'"+how) {
			t.Errorf("the Makefile does not have %q for %s", how, of)
		}
	}
	folder := t.TempDir()
	old, present := filepath.Join(folder, "old"), filepath.Join(folder, "present")
	for path, version := range map[string]string{old: "go1.20.14", present: "go1.21.0"} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho go version "+version+" linux/amd64\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(program, target string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "make", "--dry-run", "-C", filepath.Join("..", ".."), "GO="+program, target)
		cmd.Env = append(os.Environ(), "LC_ALL=C", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for program, says := range map[string]string{filepath.Join(folder, "none"): "Go is not installed", old: "go version go1.20.14 linux/amd64 is too old"} {
		for _, target := range []string{"run", "build", "test", "lint"} {
			out, err := run(program, target)
			if err == nil || !strings.Contains(out, says+": Holdfast needs Go 1.21 or later. Install it ") || !strings.Contains(out, "from https://go.dev/dl/") || strings.Contains(out, "Compiling") {
				t.Errorf("make %s: %v\n%s", target, err, out)
			}
			if how := strings.TrimPrefix(Install("go"), "install "); system() != "" && !strings.Contains(out, how) {
				t.Errorf("make %s: want %q in\n%s", target, how, out)
			}
		}
		if out, err := run(program, "help"); err != nil {
			t.Errorf("make help: %v\n%s", err, out)
		}
	}
	if out, err := run(present, "run"); err != nil || !strings.Contains(out, "Compiling") {
		t.Errorf("with Go: %v\n%s", err, out)
	}
}
