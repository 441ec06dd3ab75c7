package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/cli"
)

func run(t *testing.T, environ []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = cli.Run(t.Context(), cli.Env{
		Args: args, Environ: environ, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Version: app.Version{Version: "v1.2.3", Commit: "abc"},
	})
	return status, out.String(), errs.String()
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_holdfast holdfast", "zsh": "#compdef holdfast",
		"fish": "complete -c holdfast", "powershell": "Register-ArgumentCompleter -CommandName 'holdfast'",
	} {
		if status, out, errs := run(t, nil, "completion", shell); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit status %d, %s, want a script with %q", shell, status, errs, want)
		}
	}
	// Completion scripts run this command while the user types.
	if _, out, _ := run(t, nil, "__complete", "tokenserver", "accounts", "li"); !strings.HasPrefix(out, "list\t") {
		t.Errorf("completing `sync user li` gives %q", out)
	}
}

func TestMan(t *testing.T) {
	t.Parallel()
	dirs := []string{filepath.Join(t.TempDir(), "share", "man1"), t.TempDir()}
	for _, dir := range dirs {
		if status, _, errs := run(t, []string{"SOURCE_DATE_EPOCH=1700000000", "HOLDFAST_DATA=/elsewhere"}, "man", dir); status != 0 {
			t.Fatal(errs)
		}
	}
	for name, want := range map[string]string{
		"holdfast.1":                           `.TH "HOLDFAST" "1" "Nov 2023" "Holdfast v1.2.3" "Holdfast manual"`,
		"holdfast-tokenserver-accounts-list.1": "holdfast tokenserver accounts list",
		"holdfast-serve.1":                     "holdfast serve",
	} {
		var pages [2]string
		for i, dir := range dirs {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			pages[i] = string(data)
		}
		if pages[0] != pages[1] || !strings.Contains(pages[0], want) || strings.Contains(pages[0], "/elsewhere") {
			t.Errorf("%s: want the same page twice, with %q:\n%s", name, want, pages[0])
		}
	}
	if status, _, errs := run(t, []string{"SOURCE_DATE_EPOCH=today"}, "man", dirs[0]); status == 0 || !strings.Contains(errs, "SOURCE_DATE_EPOCH") {
		t.Errorf("exit status %d, %s", status, errs)
	}
}
