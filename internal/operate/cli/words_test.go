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
		operate.NewList(operate.About{Path: "tokens", Doc: "List"}, func(context.Context, operate.None) ([]wall, error) {
			return []wall{{Name: "listed"}}, nil
		}),
		operate.NewChange(operate.About{Path: "tokens/mint", Doc: "Mint"}, mint),
		operate.NewChange(operate.About{Path: "service-tokens/mint", Doc: "Mint"}, mint),
	}
}

// TestWords checks repeated flags for words and values only in JSON.
func TestWords(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"house tokens mint --access a=r --access b=":         "a=r,b=\n",
		"house tokens mint --access a=r --json":              `{"token":"a=r","id":"7"}` + "\n",
		"house service-tokens mint --access a=r --service x": "a=rx\n",
		"house service-tokens mint --service=x --access a=r": "a=rx\n",
		"house tokens list --json":                           `{"name":"listed","coats":0}` + "\n",
	} {
		var out bytes.Buffer
		root := cli.Commands("holdfast", nil, nil)
		root.AddCommand(cli.Commands("house", mints(), &service.Shell{Stdout: &out, Stderr: &out, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }}))
		root.SetArgs(strings.Fields(typed))
		if err := root.ExecuteContext(t.Context()); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", typed, out.String(), err, want)
		}
	}
}
