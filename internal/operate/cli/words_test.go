package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
	"holdfast/internal/operate/cli"
)

type mintInput struct {
	Access  []string `flag:"access" value:"ROOM=ACCESS" doc:"access to a room, as ROOM=ACCESS"`
	Service string   `flag:"service" doc:"name of a service"`
}

type mintedToken struct {
	Token string `json:"token" title:"Token" secret:"The token is shown only once."`
	ID    string `json:"id" title:"ID" aside:""`
}

func (mintedToken) Notice() string { return "" }

func mints() []operate.Operation {
	mint := func(_ context.Context, in mintInput) (mintedToken, error) {
		return mintedToken{strings.Join(in.Access, ",") + in.Service, "7"}, nil
	}
	return []operate.Operation{
		operate.NewList(operate.About{Path: "tokens", Doc: "List", Former: []operate.Former{{Words: "house token", Noun: true}, {Words: "house token old"}}}, func(context.Context, operate.None) ([]wall, error) {
			return []wall{{Name: "listed"}}, nil
		}),
		operate.NewChange(operate.About{Path: "tokens/mint", Doc: "Mint", Former: []operate.Former{{Words: "house token new"}}}, mint),
		operate.NewChange(operate.About{Path: "service-tokens/mint", Doc: "Mint", Former: []operate.Former{{Words: "house token new", Flag: "service", Keeps: true}}}, mint),
	}
}

// TestWords checks repeated flags for words, values only in JSON, and a former flag that selects an operation.
func TestWords(t *testing.T) {
	t.Parallel()
	services := []service.Service{{Name: "house", Operations: mints()}}
	for typed, want := range map[string]string{
		"house tokens mint --access a=r --access b=": "a=r,b=\n",
		"house tokens mint --access a=r --json":      `{"token":"a=r","id":"7"}` + "\n",
		"house token new --access a=r":               "a=r\n",
		"house token new --access a=r --service x":   "a=rx\n",
		"house token new --service=x --access a=r":   "a=rx\n",
		"house token old --json":                     `{"name":"listed","coats":0}` + "\n",
		"house token list --json":                    `{"name":"listed","coats":0}` + "\n",
	} {
		var out bytes.Buffer
		root := cli.Commands("holdfast", nil, nil)
		root.AddCommand(cli.Commands("house", mints(), &service.Shell{Stdout: &out, Stderr: &out, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }}))
		root.SetArgs(cli.Rename(strings.Fields(typed), services))
		if err := root.ExecuteContext(t.Context()); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", typed, out.String(), err, want)
		}
	}
	for typed, want := range map[string]string{"house token new --service=x": "house service-tokens mint --service=x", "house token new": "house tokens mint"} {
		if got := strings.Join(cli.Rename(strings.Fields(typed), services), " "); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
}
