package e2e

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/test/binary"
)

// TestBashCompletion types commands and TAB in a bash without configuration, so without the package bash-completion.
func TestBashCompletion(t *testing.T) {
	t.Parallel()
	bash, folder := binary.Program(t, "bash"), t.TempDir()
	if err := os.Symlink(binary.Path(), filepath.Join(folder, "holdfast")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "server.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "some-data"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // the line before and after TAB
		"holdfast tokenserver accounts li":       "holdfast tokenserver accounts list",
		"./holdfast stat":                        "./holdfast status",
		"holdfast completion ba":                 "holdfast completion bash",
		"holdfast help bucke":                    "holdfast help buckets",
		"holdfast buckets keys create main --na": "holdfast buckets keys create main --name",
		"holdfast --config ser":                  "holdfast --config server.toml",
		"holdfast --config=ser":                  "holdfast --config=server.toml",
		"holdfast --data some":                   "holdfast --data some-data/",
		"holdfast --data=some":                   "holdfast --data=some-data/",
		"holdfast serve some":                    "holdfast serve some", // takes no argument
	}
	script := "source <(holdfast completion bash)\n"
	for typed := range want {
		script += typed + "\t\x01echo \n" // Ctrl-A moves to the beginning, so that the line is printed and not run
	}
	ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
	defer cancel()
	screen, program := terminal(t)
	cmd := exec.CommandContext(ctx, bash, "--norc", "--noprofile", "-i")
	cmd.Env = binary.Environ("PATH="+folder+":"+os.Getenv("PATH"), "TERM=dumb", "INPUTRC=/dev/null", "PS1=$ ", "HISTFILE=")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = folder, program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	if _, err := io.WriteString(screen, script+"exit\n"); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	_, _ = io.Copy(&shown, screen) // ends with EIO
	if err := cmd.Wait(); err != nil {
		t.Errorf("bash: %v", err)
	}
	for typed, line := range want {
		if !strings.Contains(shown.String(), "\n"+line+"\r\n") {
			t.Errorf("%s and TAB: want the line %s", typed, line)
		}
	}
	if t.Failed() {
		t.Log(shown.String())
	}
}
