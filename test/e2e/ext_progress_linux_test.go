package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// TestProgress checks that exports and imports show progress only on a terminal.
func TestProgress(t *testing.T) {
	t.Parallel()
	script := binary.Program(t, "script")
	s := binary.Start(t, t.TempDir())
	e := newExtension(t, s, "7e000000-0000-4000-8000-000000000051", "a=rw")
	const records = 30
	for i := range records {
		e.want(http.StatusCreated, "PUT", fmt.Sprintf("/namespaces/a/records/k%02d", i), `{"value":1}`)
	}
	file := filepath.Join(t.TempDir(), "install.ndjson")
	command := func(args ...string) []string { return slices.Concat([]string{"ext"}, args, e.flags()) }
	export, imported := command("installs", "export", "-o", file), command("installs", "import", file)

	s.Verb(export...)
	size := len(readFile(t, file))
	// On a slow machine the bar also shows a rate. ESC [K erases a longer line.
	whole := `\r\[#{30}\] `
	const end = `(, \d+/s)?\x1b\[K\r\n$`
	for _, tc := range []struct {
		args []string
		from string
		end  string
	}{
		{export, os.DevNull, fmt.Sprintf("%s%d of %d records%s", whole, records, records, end)},
		{imported, os.DevNull, fmt.Sprintf("%s%d of %d bytes%s", whole, size, size, end)},
		{command("installs", "import", "-"), file, fmt.Sprintf(`\r%d bytes\r\n$`, size)}, // the total is unknown
	} {
		if shown := onTerminal(t, script, s, tc.from, tc.args); !regexp.MustCompile(tc.end).MatchString(shown) {
			t.Errorf("%v shows %q, want %q at the end", tc.args, shown, tc.end)
		}
	}
	for _, args := range [][]string{export, imported, command("installs", "export")} {
		if r := binary.Run(t, s.Env, args...); r.Status != 0 || r.Stderr != "" || strings.Contains(r.Stdout, "\r") {
			t.Errorf("%v without a terminal: %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
		}
	}
}

func onTerminal(t *testing.T, script string, s *binary.Server, from string, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
	defer cancel()
	line := "'" + binary.Path() + "' '" + strings.Join(args, "' '") + "' <'" + from + "' >" + os.DevNull
	cmd := exec.CommandContext(ctx, script, "--quiet", "--return", "--command", line, os.DevNull)
	cmd.Env = s.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
