package cli_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/cli"
)

type crack struct {
	Where string `json:"where" title:"Where"`
}

type inspected struct {
	Cracks int `json:"cracks"`
}

func (i inspected) Notice() string  { return "two lines\nof text" }
func (i inspected) IsPartial() bool { return i.Cracks > 0 }

// TestBackgroundJob checks that a command runs a background job itself, and that its exit status reports remaining
// work.
func TestBackgroundJob(t *testing.T) {
	t.Parallel()
	all := operate.InBackground([]operate.Operation{
		operate.WithFound[crack](operate.NewJob(operate.About{Path: "walls/inspect", Doc: "Inspect", Background: true}, func(_ context.Context, in dry, p operate.Progress) (inspected, error) {
			p.Step("bricks", 1, 2)
			p.Wait("waiting\x1b for rain")
			p.Wait("waiting\x1b for rain")
			if in.Dry {
				return inspected{}, nil
			}
			p.Find(crack{"north"})
			return inspected{1}, nil
		}), "Cracks", "None."),
	})
	for typed, want := range map[string]struct {
		out    string
		status int
	}{
		"walls inspect --dry":        {"two lines\nof text\n", 0},
		"walls inspect":              {"two lines\nof text\n", 1},
		"walls inspect --json":       {`{"where":"north"}` + "\n" + `{"cracks":1}` + "\n", 1},
		"runs list":                  {`unknown command "runs"`, 2},
		"walls inspect --json --dry": {`{"cracks":0}` + "\n", 0},
	} {
		var out, said bytes.Buffer
		root := cli.Commands("house", all, &service.Shell{Stdout: &out, Stderr: &said, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }})
		root.SilenceErrors, root.SilenceUsage = true, true
		root.SetArgs(strings.Fields(typed))
		err := root.ExecuteContext(t.Context())
		status := 0
		if exit, ok := errors.AsType[*service.ExitError](err); ok {
			status = exit.Status
		} else if err != nil {
			status = 2
			out.WriteString(err.Error())
		}
		if status != want.status || (status < 2 && out.String() != want.out) || !strings.Contains(out.String(), want.out) {
			t.Errorf("%s: %d %q, want %d %q", typed, status, out.String(), want.status, want.out)
		}
		if strings.Contains(typed, "inspect") && said.String() != `holdfast: waiting\u001b for rain`+"\n" {
			t.Errorf("%s: %q", typed, said.String())
		}
	}
}

type leak struct {
	Where string `json:"where" title:"Where"`
}

func (l leak) Text() string { return "a leak\nat the " + l.Where + "\n" }

// TestPrinted checks that a row's text is printed as soon as the job finds it.
func TestPrinted(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"pipes inspect":        "a leak\nat the no\\u001brth\n",
		"pipes inspect --json": `{"where":"no\u001brth"}` + "\n",
	} {
		var out bytes.Buffer
		all := []operate.Operation{operate.WithFound[leak](operate.NewJob(operate.About{Path: "pipes/inspect", Doc: "Inspect"}, func(_ context.Context, _ operate.None, p operate.Progress) (inspected, error) {
			p.Find(leak{"no\x1brth"})
			if out.String() != want {
				t.Errorf("%s: %q was printed, want %q", typed, out.String(), want)
			}
			return inspected{}, nil
		}), "Leaks", "None.")}
		root := cli.Commands("house", all, &service.Shell{Stdout: &out, Stderr: &out, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }})
		root.SetArgs(strings.Fields(typed))
		if err := root.ExecuteContext(t.Context()); err != nil || len(out.String()) <= len(want) {
			t.Errorf("%s: %v, %q", typed, err, out.String())
		}
	}
}
