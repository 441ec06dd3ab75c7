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

type razeInput struct {
	one
	DryRun bool  `flag:"dry-run" doc:"count the bricks"`
	Floor  int64 `flag:"floor" doc:"from this floor" least:"1"`
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	all := []operate.Operation{operate.NewChange(operate.About{Path: "walls/raze", Doc: "Raze", NeedsYes: true}, func(_ context.Context, in razeInput) (drawn, error) {
		return drawn{map[bool]string{true: "would raze ", false: "razed "}[in.DryRun] + in.Wall}, nil
	})}
	for typed, want := range map[string]string{
		"walls raze a --dry-run":            "would raze a\n",
		"walls raze a --dry-run --floor 1":  "would raze a\n",
		"walls raze a --yes":                "razed a\n",
		"walls raze a":                      "nothing was changed; confirm with --yes",
		"walls raze a --dry-run=false":      "nothing was changed; confirm with --yes",
		"walls raze a --dry-run --floor 0":  "--floor: must be at least 1",
		"walls raze a --dry-run --floor -7": "--floor: must be at least 1",
	} {
		if out, err := runAll(t, all, typed); !strings.HasPrefix(out+errorText(err), want) {
			t.Errorf("%s: %q, %v, want %q", typed, out, err, want)
		}
	}
}

type full struct{}

var errFull = errors.New("the disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestFullOutput checks that a job stops if its rows cannot be printed.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	job := operate.NewJob(operate.About{Path: "walls/inspect", Doc: "Inspect"}, func(ctx context.Context, _ operate.None, p operate.Progress) (inspected, error) {
		p.Find(crack{"north"})
		<-ctx.Done()
		return inspected{}, ctx.Err()
	})
	root := cli.Commands("house", []operate.Operation{operate.WithFound[crack](job, "Cracks", "None.")}, &service.Shell{
		Stdout: full{}, Stderr: &bytes.Buffer{}, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) },
	})
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs([]string{"walls", "inspect", "--json"})
	if err := root.ExecuteContext(t.Context()); !errors.Is(err, errFull) || err.Error() != errFull.Error() {
		t.Errorf("%v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func runAll(t *testing.T, all []operate.Operation, typed string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := cli.Commands("house", all, &service.Shell{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &bytes.Buffer{}, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) },
	})
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(strings.Fields(typed))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}
