package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/cli"
)

type stone struct {
	N     int            `json:"n" title:"Number" cursor:""`
	Bytes *service.Bytes `json:"bytes" title:"Bytes" zero:"-"`
}

func (s stone) Note() string {
	if s.Bytes == nil {
		return "some stones \x1b were not weighed"
	}
	return ""
}

type pile struct {
	Pile   string  `json:"pile" title:"Pile" subject:"pile"`
	Stones []stone `json:"stones" table:"Stones" empty:"There are no stones."`
}

func (pile) Notice() string { return "" }

type pileInput struct {
	Pile string `subject:"pile" doc:"name of the pile"`
}

type weighInput struct {
	pileInput
	After string `flag:"after" doc:"next from the previous part"`
}

type weighed struct {
	Part string `json:"part" title:"Part"`
	Next string `json:"next,omitempty" cursor:""`
}

type growInput struct {
	pileInput
	By string `flag:"by" doc:"how many" arg:"STONES | none"`
}

func (in growInput) Check() error {
	if in.By == "3" {
		return &operate.InputError{Input: "by", Reason: "must be even"}
	}
	return nil
}

// quarry runs a command on piles and stones. opened counts how often the command opened the services.
func quarry(t *testing.T, opened *int, typed string) (out, errs string, err error) {
	t.Helper()
	most := 0
	all := []operate.Operation{
		operate.NewList(operate.About{Path: "stones", Doc: "List", Limit: 4, PageRows: 3, Resumes: true}, func(_ context.Context, in operate.Page[int64]) (all []stone, _ error) {
			most = max(most, in.Limit)
			for n := int(in.After) + 1; n <= 5 && len(all) < in.Limit; n++ {
				b := service.Bytes(n << 20)
				all = append(all, stone{n, &b})
				if n%2 == 0 {
					all[len(all)-1].Bytes = nil
				}
			}
			return all, nil
		}),
		operate.NewRead(operate.About{Path: "piles/show", Doc: "Show"}, func(_ context.Context, in pileInput) (pile, error) {
			return pile{in.Pile, map[bool][]stone{true: {{N: 7}}}[in.Pile == "a"]}, nil
		}),
		operate.NewRead(operate.About{Path: "piles/weigh", Doc: "Weigh", Resumes: true}, func(_ context.Context, in weighInput) (weighed, error) {
			return weighed{in.Pile + in.After, map[string]string{"": "b c"}[in.After]}, nil
		}),
		operate.NewChange(operate.About{Path: "piles/grow", Doc: "Grow"}, func(_ context.Context, in growInput) (pile, error) { return pile{Pile: in.Pile + in.By}, nil }),
	}
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "holdfast", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(cli.Commands("quarry", all, &service.Shell{Stdout: &stdout, Stderr: &stderr, Open: func(ctx context.Context, fn func(context.Context) error) error {
		*opened++
		return fn(ctx)
	}}))
	root.SetArgs(strings.Fields("quarry " + typed))
	root.SetOut(&stdout)
	err = root.ExecuteContext(t.Context())
	if most > 3 {
		t.Errorf("%s reads %d rows at once", typed, most)
	}
	return stdout.String(), stderr.String(), err
}

// TestResumes checks that a limited list and a partial read print how to continue, and that a list prints its rows'
// notes.
func TestResumes(t *testing.T) {
	t.Parallel()
	const note = "some stones \\u001b were not weighed\n"
	for typed, want := range map[string][2]string{
		"stones list":                            {"NUMBER  BYTES\n1       1048576\n2       -\n3       3145728\n4  -\n", note + "there may be more: continue with --after 4\n"},
		"stones list --after 4":                  {"NUMBER  BYTES\n5       5242880\n", ""},
		"stones list --json --limit 1":           {`{"n":1,"bytes":1048576}` + "\n" + `{"next":1}` + "\n", ""},
		"stones list --json --limit 2 --after 3": {`{"n":4,"bytes":null}` + "\n" + `{"n":5,"bytes":5242880}` + "\n" + `{"next":5}` + "\n", ""},
		"piles weigh a":                          {"PART  a\n", "there may be more: continue with --after b c\n"},
		"piles weigh a --json":                   {`{"part":"a","next":"b c"}` + "\n", ""},
		"piles weigh a --after b":                {"PART  ab\n", ""},
		"piles show a":                           {"PILE  a\n\nSTONES\nNUMBER  BYTES\n7       -\n", ""},
		"piles show b":                           {"PILE  b\n\nSTONES\nThere are no stones.\n", ""},
		"piles grow a":                           {"PILE  a\n\nSTONES\nThere are no stones.\n", ""},
		"piles grow a 2":                         {"PILE  a2\n\nSTONES\nThere are no stones.\n", ""},
	} {
		opened := 0
		if out, errs, err := quarry(t, &opened, typed); err != nil || [2]string{out, errs} != want || opened != 1 {
			t.Errorf("%s: %q %q, %v, want %q", typed, out, errs, err, want)
		}
	}
	for typed, want := range map[string]string{
		"piles grow":            "PILE is required",
		"piles grow a 2 4":      `unexpected argument "4"`,
		"piles grow a 3":        "BY: must be even",
		"stones list --after x": `invalid argument "x" for "--after" flag`,
		"stones list --limit 0": "--limit: must be at least 1",
	} {
		opened := 0
		if _, _, err := quarry(t, &opened, typed); fmt.Sprint(err) != want && !strings.Contains(fmt.Sprint(err), want) || opened != 0 {
			t.Errorf("%s: %v, want %s; opened %d times", typed, err, want, opened)
		}
	}
	opened := 0
	if out, _, err := quarry(t, &opened, "piles grow --help"); err != nil || !strings.Contains(out, "piles grow PILE [STONES | none]") {
		t.Errorf("%s, %v", out, err)
	}
}
