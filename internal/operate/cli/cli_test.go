package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

type one struct {
	Wall string `subject:"wall" doc:"name of the wall"`
}

type brick struct {
	N int `json:"n" title:"Number" cursor:""`
}

type detail struct {
	wall
	Plan json.RawMessage `json:"plan" text:"Plan"`
}

type razed struct {
	Bricks int    `json:"bricks" title:"Bricks"`
	Where  string `json:"where" title:"Where"`
}

func (razed) Notice() string { return "" }
func (razed) Note() string   { return "the neighbours \x1b hear it" }

type painted struct {
	Walls int `json:"walls"`
}

func (p painted) Notice() string { return fmt.Sprintf("north: painted\n%d walls", p.Walls) }

type nail struct {
	Wall  string `subject:"wall,flag" value:"NAME" doc:"NAME of the wall"`
	Brick int    `subject:"brick,flag" doc:"number of the brick"`
	Nail  string `subject:"nail" doc:"name of the nail"`
}

type everyNail struct {
	Wall string `subject:"wall,flag" doc:"name of the wall"`
}

func operations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Path: "walls", Doc: "List the walls", Group: "Manage walls",
		}, func(context.Context, operate.None) ([]wall, error) {
			return []wall{{"north\x1b", 1, time.Date(2026, 11, 26, 4, 0, 0, 0, time.FixedZone("", 3600)), time.Time{}}, {"a", 10, time.Time{}, time.Unix(0, 0)}}, nil
		}),
		operate.NewRead(operate.About{Path: "walls/show", Doc: "Show a wall"}, func(_ context.Context, in one) (detail, error) {
			return detail{wall{Name: in.Wall, Coats: 2}, json.RawMessage(`{"a":"\u202e"}`)}, nil
		}),
		operate.NewChange(operate.About{Path: "walls/paint", Doc: "Paint a wall", More: "It takes a day.", Example: "north --color red\nsouth    # white\n"}, func(_ context.Context, in paint) (wall, error) {
			if in.Wall == "none" {
				return wall{}, errors.New("there is no such wall")
			}
			return wall{Name: in.Wall + " " + in.Color, Coats: in.Coats}, nil
		}),
		operate.NewJob(operate.About{Path: "walls/paint-all", Doc: "Paint all walls"}, func(_ context.Context, in dry, progress operate.Progress) (painted, error) {
			progress.Report(1, 2)
			if in.Dry {
				return painted{1}, errors.New("no paint is left")
			}
			return painted{2}, nil
		}),
		operate.NewChange(operate.About{Path: "walls/raze", Doc: "Raze a wall", NeedsYes: true, Ask: "It is gone."}, func(_ context.Context, in one) (razed, error) {
			return razed{5, in.Wall}, nil
		}),
		operate.NewChange(operate.About{Path: "walls/break", Doc: "Break a wall", Danger: true}, func(_ context.Context, in one) (wall, error) { return wall{Name: in.Wall}, nil }),
		operate.NewList(operate.About{Path: "nails", Doc: "List the nails"}, func(_ context.Context, in everyNail) ([]razed, error) { return []razed{{1, in.Wall}}, nil }),
		operate.NewChange(operate.About{Path: "nails/pull", Doc: "Pull a nail", NeedsYes: true}, func(_ context.Context, in nail) (razed, error) {
			if in.Nail == "loose" {
				return razed{}, &operate.InputError{Input: "nail", Reason: "is loose"}
			}
			return razed{in.Brick, in.Wall + " " + in.Nail}, nil
		}),
		operate.NewChange(operate.About{Path: "nails/pull-all", Doc: "Pull all nails"}, func(context.Context, operate.None) (razed, error) {
			return razed{1, "everywhere"}, nil
		}),
		operate.NewList(operate.About{Path: "bricks", Doc: "List the bricks", Limit: 3}, bricks),
		operate.NewList(operate.About{Path: "stones", Doc: "List the stones"}, bricks),
		operate.NewList(operate.About{Path: "pebbles", Doc: "List the pebbles", Limit: 2}, func(_ context.Context, in operate.Latest) ([]wall, error) {
			return make([]wall, in.Limit), nil
		}),
	}
}

type dry struct {
	Dry bool `flag:"dry" doc:"without paint"`
}

func bricks(_ context.Context, in operate.Page[int64]) (all []brick, _ error) {
	for n := int(in.After) + 1; n <= 1200 && len(all) < in.Limit; n++ {
		all = append(all, brick{n})
	}
	return all, nil
}

func run(t *testing.T, typed, answer string) (out, questions string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	sh := &service.Shell{
		Stdin: strings.NewReader(answer), Stdout: &stdout, Stderr: &stderr, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) },
	}
	root := &cobra.Command{Use: "holdfast", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(cli.Commands("house", operations(), sh))
	root.SetArgs(strings.Fields(typed))
	root.SetOut(&stdout)
	root.SetErr(&stdout)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestCommands(t *testing.T) {
	t.Parallel()
	const (
		table = "WALL         COATS  PAINTED (UTC)        NEXT\n" +
			`north\u001b  1      2026-11-26 03:00:00  ` + "\n" +
			"a            10                          1970-01-01 00:00:00\n"
		lines = `{"name":"north\u001b","coats":1,"at":"2026-11-26T04:00:00+01:00"}` + "\n" + `{"name":"a","coats":10,"next":"1970-01-01T00:00:00Z"}` + "\n"
	)
	for typed, want := range map[string]string{
		"house walls list":                                 table,
		"house walls list --json":                          lines,
		"house walls paint north":                          "wall north white is painted\n",
		"house walls paint north --color red --dry --json": `{"name":"north red","coats":2}` + "\n",
		"house walls show a":                               "WALL           a\nCOATS          2\nPAINTED (UTC)  \nNEXT           \n\nPLAN\n{\n  \"a\": \"\\u202e\"\n}\n",
		"house walls show a --json":                        `{"name":"a","coats":2,"plan":{"a":"\u202e"}}` + "\n",
		"house walls paint-all":                            "north: painted\n2 walls\n",
		"house walls raze a --yes":                         "BRICKS  5\nWHERE   a\n",
		"house walls raze a --yes --json":                  `{"bricks":5,"where":"a"}` + "\n",
		"house walls break a":                              "wall a is painted\n", // standard input is not a terminal
		"house pebbles list":                               "WALL  COATS  PAINTED (UTC)  NEXT\n      0                     \n      0                     \n",
	} {
		if out, _, err := run(t, typed, ""); err != nil || out != want {
			t.Errorf("%s: %v\n%q, want\n%q", typed, err, out, want)
		}
	}
	for typed, want := range map[string]string{
		"house walls paint":                 "WALL is required",
		"house walls paint a b":             `unexpected argument "b"`,
		"house walls paint a --coats 0":     "--coats: must be at least 1",
		"house walls paint a --coats three": `invalid argument "three" for "--coats" flag`,
		"house walls paint none":            "there is no such wall",
		"house bricks list --limit 0":       "--limit: must be at least 1",
		"house stones list --limit -1":      "--limit: must be at least 1",
		"house pebbles list --limit 0":      "--limit: must be at least 1",
		"house pebbles list --all":          "unknown flag: --all",
		"house bricks list --all --limit 1": "none of the others can be",
		"house bricks list --after 1":       "unknown flag: --after",
		"house walls raze a":                "nothing was changed; confirm with --yes",
		"house walls raze":                  "WALL is required",
		"house walls paint a --color=":      "--color: must not be empty",
	} {
		if _, _, err := run(t, typed, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", typed, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for typed, parts := range map[string][]string{
		"house walls paint --help": {"Paint a wall.\nIt takes a day.", "Examples:\n  holdfast house walls paint north --color red\n  holdfast house walls paint south    # white\n\nFlags:", "house walls paint WALL [flags]", "--coats int", "the new color (default \"white\")", "print the result as JSON"},
		"house --help":             {"Manage walls"},
		"house bricks list --help": {"print at most so many bricks (default 3)", "print all bricks", "print a JSON line for each row"},
		"house stones list --help": {"print at most so many stones (default: all)"},
		"house walls raze --help":  {"--yes", "do not ask"},
		"house nails pull --help":  {"house nails pull --wall NAME --brick BRICK NAIL [flags]", "--wall NAME ", "NAME of the wall"},
	} {
		out, _, err := run(t, typed, "")
		for _, part := range parts {
			if err != nil || !strings.Contains(out, part) {
				t.Errorf("%s: no %s in %s, %v", typed, part, out, err)
			}
		}
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"house nails list --wall a":                              "BRICKS  WHERE\n1       a\n",
		"house nails pull rusty --wall a --brick 7 --yes":        "BRICKS  7\nWHERE   a rusty\n",
		"house nails pull --yes --wall=a --brick 7 rusty --json": `{"bricks":7,"where":"a rusty"}` + "\n",
		"house nails list":                                       "--wall is required",
		"house nails list --wall=":                               "--wall: must not be empty",
		"house nails pull rusty":                                 "--wall and --brick are required",
		"house nails pull --wall a --brick 7":                    "NAIL is required",
		"house nails pull --wall a --brick x rusty":              "--brick: expected a whole number",
		"house nails pull --wall a --brick 7 --yes loose":        "NAIL: is loose",
		"house nails pull --wall a --brick 7 rusty new":          `unexpected argument "new"`,
	} {
		out, _, err := run(t, typed, "")
		if got := out + fmt.Sprint(err); !strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
			t.Errorf("%s: %q, %v, want %s", typed, out, err, want)
		}
	}
	if _, questions, _ := run(t, "house nails pull --wall a --brick 7 rusty", "n"); !strings.HasPrefix(questions, "Pull nail rusty of brick 7 of wall a? [y/N]") {
		t.Error(questions)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]int{
		"house bricks list":              3,
		"house bricks list --limit 700":  700,
		"house bricks list --limit 5000": 1200,
		"house bricks list --all":        1200,
		"house stones list":              1200,
		"house stones list --limit 500":  500,
		"house pebbles list --limit 9":   9,
	} {
		out, _, err := run(t, typed+" --json", "")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err != nil || len(lines) != want || !strings.Contains(typed, "pebbles") && lines[want-1] != fmt.Sprintf(`{"n":%d}`, want) {
			t.Errorf("%s: %d rows, %v", typed, len(lines), err)
		}
	}
}

// TestConfirm checks that a dangerous change asks after validation and before any effect.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"y\n": "", "yes\n": "", "n\n": "nothing was changed", "": "nothing was changed"} {
		out, questions, err := run(t, "house walls raze a\x1b", answer)
		if (err == nil) != (want == "") || err != nil && (out != "" || !strings.Contains(err.Error(), want)) || !strings.HasPrefix(questions, `It is gone. Raze wall a\u001b? [y/N] `) {
			t.Errorf("%q: %s, %q, %v", answer, out, questions, err)
		}
		if err == nil && !strings.Contains(questions, `the neighbours \u001b hear it`) {
			t.Errorf("%q: no note in %q", answer, questions)
		}
	}
	if _, questions, err := run(t, "house walls raze", "y\n"); err == nil || questions != "" {
		t.Errorf("%q, %v", questions, err)
	}
}

func TestPartial(t *testing.T) {
	t.Parallel()
	out, _, err := run(t, "house walls paint-all --dry", "")
	if out != "north: painted\n1 walls\n" || err == nil || err.Error() != "no paint is left" {
		t.Errorf("%q, %v", out, err)
	}
}
