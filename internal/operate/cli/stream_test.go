package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/operate/cli"
)

type drawn struct {
	Text string `json:"text"`
}

func (d drawn) Notice() string { return d.Text }

type drawing struct {
	one
	Color string `flag:"color" doc:"the color"`
}

func streams() []operate.Operation {
	draw := func(_ context.Context, in drawing, body operate.Body, _ operate.Progress) (d drawn, err error) {
		text, err := io.ReadAll(body)
		if err == nil && string(text) == "bad" {
			return drawn{"one line"}, errcode.New(errcode.Invalid, "line 2 is wrong")
		}
		if err != nil {
			return drawn{}, err
		}
		return drawn{in.Wall + in.Color + ": " + string(text)}, nil
	}
	return []operate.Operation{
		operate.NewDownload(operate.About{Path: "walls/plan", Doc: "Get the plan", Media: "text/plain"}, func(_ context.Context, in one, p operate.Progress) (operate.File, error) {
			if in.Wall == "none" {
				return operate.File{}, errcode.New(errcode.NotFound, "there is no such wall")
			}
			return operate.File{Name: "plan", Write: func(w io.Writer) error {
				p.Report(1, 1)
				_, err := io.WriteString(w, "plan of "+in.Wall)
				if in.Wall == "cut" {
					err = errors.New("the database is gone")
				}
				return err
			}}, nil
		}),
		operate.NewUpload(operate.About{Path: "walls/draw", Doc: "Draw", Media: "text/plain", Largest: 20}, draw),
		operate.NewUpload(operate.About{Path: "walls/sketch", Doc: "Sketch", Media: "text/plain", Largest: 20, MayBeStdin: true}, draw),
	}
}

// TestStreams checks that a file gets its name only once complete, and that an upload fails with its file.
func TestStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("red bricks"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ typed, stdin, out, says string }{
		{"walls plan a", "", "plan of a", ""},
		{"walls plan none", "", "", "there is no such wall"},
		{"walls plan cut", "", "plan of cut", "the database is gone"},
		{"walls plan", "", "", "WALL is required"},
		{"walls plan a --json", "", "", "unknown flag: --json"},
		{"walls plan a -o NEW", "", "", ""},
		{"walls plan cut -o CUT", "", "", "the database is gone"},
		{"walls plan none --output CUT", "", "", "there is no such wall"},
		{"walls draw a FILE", "", "a: red bricks\n", ""},
		{"walls draw a FILE --color red --json", "", `{"text":"ared: red bricks"}` + "\n", ""},
		{"walls draw a -", "typed", "a: typed\n", ""},
		{"walls draw a -", "bad", "one line\n", "line 2 is wrong"},
		{"walls draw a -", strings.Repeat("x", 21), "", "the file is larger than 20 bytes"},
		{"walls draw a", "typed", "", "FILE is required"},
		{"walls draw", "typed", "", "WALL is required"},
		{"walls draw a FILE more", "", "", `unexpected argument "more"`},
		{"walls draw a NONE", "", "", "does not exist: expected a file, or - for standard input"},
		{"walls sketch a", "typed", "a: typed\n", ""},
		{"walls sketch a FILE", "typed", "a: red bricks\n", ""},
		{"walls sketch a FILE more", "", "", `unexpected argument "more"`},
		{"walls sketch", "typed", "", "WALL is required"},
	} {
		typed := strings.NewReplacer("FILE", file, "NEW", filepath.Join(dir, "new"), "CUT", filepath.Join(dir, "cut"), "NONE", filepath.Join(dir, "none")).Replace(c.typed)
		var out, said bytes.Buffer
		root := cli.Commands("house", streams(), &service.Shell{
			Stdin: strings.NewReader(c.stdin), Stdout: &out, Stderr: &said, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) },
		})
		root.SilenceErrors, root.SilenceUsage = true, true
		root.SetArgs(strings.Fields(typed))
		err := root.ExecuteContext(t.Context())
		if out.String() != c.out || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v, want %q, %s", c.typed, &out, err, c.out, c.says)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(text) != "plan of a" {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("a broken download leaves %v, %v", left, err)
	}
}
