package s3clients

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holdfast/test/binary"
)

// installed contains installed packages by the name of the package file. One test installs, the others wait.
var installed struct {
	sync.Mutex
	once map[string]func() (string, error)
}

// install runs commands once, in a folder below bin/ named after a hash of the pinned files, and returns the folder. On
// a failure it skips the test, or fails it if TEST_REQUIRE contains the name.
func install(t *testing.T, name string, pinned []string, commands func(dir string) [][]string) string {
	t.Helper()
	installed.Lock()
	if installed.once == nil {
		installed.once = map[string]func() (string, error){}
	}
	once := installed.once[pinned[0]]
	if once == nil {
		once = sync.OnceValues(func() (string, error) { return makeFolder(pinned, commands) })
		installed.once[pinned[0]] = once
	}
	installed.Unlock()
	dir, err := once()
	if err != nil {
		binary.Absentf(t, name, "no %s; it needs its registry: %v", name, err)
	}
	return dir
}

func makeFolder(pinned []string, commands func(dir string) [][]string) (string, error) {
	sum := sha256.New()
	texts := map[string][]byte{}
	for _, file := range pinned {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		texts[file] = text
		sum.Write(text)
	}
	dir, err := filepath.Abs(fmt.Sprintf("../../bin/s3clients-%x", sum.Sum(nil)[:4]))
	if err != nil {
		return "", err
	}
	whole := filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for file, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return "", err
		}
	}
	for _, command := range commands(dir) {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			return "", fmt.Errorf("%v: %w\n%s", command, err, out)
		}
	}
	return dir, os.WriteFile(whole, nil, 0o600)
}

// boto3 tests the AWS SDK for Python: the oldest version in use, or the newest.
func boto3(c *client, age string) {
	python := binary.Program(c.t, "python3")
	dir := install(c.t, "boto3", []string{"requirements-" + age + ".txt"}, func(dir string) [][]string {
		return [][]string{
			{python, "-m", "venv", dir},
			{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--no-compile", "--disable-pip-version-check", "--only-binary", ":all:", "--requirement", "requirements-" + age + ".txt"},
		}
	})
	out := c.pipe(read(c.t, "day.py"), filepath.Join(dir, "bin", "python"), "-")
	if version := map[string]string{"old": "done 1.29.", "new": "done 1."}[age]; !strings.HasPrefix(out, version) {
		c.t.Errorf("day.py printed %q", out)
	}
	c.absent()
}

func javaScript(c *client) {
	node, npm := binary.Program(c.t, "node"), binary.Program(c.t, "npm")
	dir := install(c.t, "npm", []string{"package-lock.json", "package.json"}, func(string) [][]string {
		return [][]string{{npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"}}
	})
	c.env = append(c.env, "FOLDER="+c.dir)
	program := read(c.t, "day.mjs")
	c.dir = dir // where node finds the packages
	if out := c.pipe(program, node, "--input-type=module"); out != "done\n" {
		c.t.Errorf("day.mjs printed %q", out)
	}
	c.absent()
}
