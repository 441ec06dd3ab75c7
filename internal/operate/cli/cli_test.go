package cli_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/cli"
)

type paint struct {
	Wall  string `subject:"wall" doc:"name of the wall"`
	Color string `flag:"color" doc:"the new color" default:"white"`
	Coats int    `flag:"coats" doc:"how often" default:"2"`
	Dry   bool   `flag:"dry" doc:"wait until it is dry"`
}

func (p paint) Check() error {
	if p.Coats < 1 {
		return &operate.InputError{Input: "coats", Reason: "must be at least 1"}
	}
	return nil
}

type wall struct {
	Name  string    `json:"name" title:"Wall" subject:"wall"`
	Coats int       `json:"coats" title:"Coats"`
	At    time.Time `json:"at,omitzero" title:"Painted"`
	Next  time.Time `json:"next,omitzero" title:"Next"`
}

func (w wall) Notice() string { return "wall " + w.Name + " is painted" }

// run runs a command and returns what it prints.
func run(t *testing.T, typed string) (out string, err error) {
	t.Helper()
	var stdout bytes.Buffer
	all := []operate.Operation{
		operate.NewList(operate.About{Path: "walls", Doc: "List the walls", Group: "Manage walls", Former: []string{"side"}}, func(context.Context, operate.None) ([]wall, error) {
			return []wall{{"north\x1b", 1, time.Date(2026, 11, 26, 4, 0, 0, 0, time.FixedZone("", 3600)), time.Time{}}, {"a", 10, time.Time{}, time.Unix(0, 0)}}, nil
		}),
		operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint a wall"}, func(_ context.Context, in paint) (wall, error) {
			if in.Wall == "none" {
				return wall{}, errors.New("there is no such wall")
			}
			return wall{Name: in.Wall + " " + in.Color, Coats: in.Coats}, nil
		}),
	}
	sh := &service.Shell{Stdout: &stdout, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }}
	root := &cobra.Command{Use: "holdfast", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(cli.Commands("house", all, sh))
	root.SetArgs(strings.Fields(typed))
	root.SetOut(&stdout)
	root.SetErr(&stdout)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), err
}

func TestCommands(t *testing.T) {
	t.Parallel()
	const table = "WALL         COATS  PAINTED (UTC)        NEXT\n" +
		`north\u001b  1      2026-11-26 03:00:00  ` + "\n" +
		"a            10                          1970-01-01 00:00:00\n"
	for typed, want := range map[string]string{
		"house walls list": table,
		"house side list":  table,
		"house walls list --json": `{"name":"north\u001b","coats":1,"at":"2026-11-26T04:00:00+01:00"}` + "\n" +
			`{"name":"a","coats":10,"next":"1970-01-01T00:00:00Z"}` + "\n",
		"house walls paint north":                          "wall north white is painted\n",
		"house walls paint north --color red --dry --json": `{"name":"north red","coats":2}` + "\n",
	} {
		if out, err := run(t, typed); err != nil || out != want {
			t.Errorf("%s: %v\n%s, want\n%s", typed, err, out, want)
		}
	}
	for typed, want := range map[string]string{
		"house walls paint":                 "WALL is required",
		"house walls paint a b":             `unexpected argument "b"`,
		"house walls paint a --coats 0":     "--coats: must be at least 1",
		"house walls paint a --coats three": `invalid argument "three" for "--coats" flag`,
		"house walls paint none":            "there is no such wall",
	} {
		if _, err := run(t, typed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", typed, err, want)
		}
	}
	out, err := run(t, "house walls paint --help")
	for _, part := range []string{"Paint a wall", "house walls paint WALL [flags]", "--coats int", "the new color (default \"white\")", "print the result as JSON"} {
		if err != nil || !strings.Contains(out, part) {
			t.Errorf("help: no %s in %s, %v", part, out, err)
		}
	}
	if out, err = run(t, "house --help"); err != nil || strings.Contains(out, "side") || !strings.Contains(out, "Manage walls") {
		t.Errorf("help: %s, %v", out, err)
	}
}
