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

type token struct {
	Token string `json:"token" title:"Token" secret:"The token is shown only once."`
}

func (token) Notice() string { return "" }

type key struct {
	ID     string `json:"id" title:"Key"`
	Secret string `json:"secret" title:"Secret key" secret:"The secret key is shown only once."`
}

func (key) Notice() string { return "" }

// TestSecret checks that a secret is printed alone unless the result contains other values for people.
func TestSecret(t *testing.T) {
	t.Parallel()
	all := []operate.Operation{
		operate.NewChange(operate.About{Path: "tokens/create", Doc: "Create a token"}, func(context.Context, operate.None) (token, error) { return token{"abc"}, nil }),
		operate.NewChange(operate.About{Path: "keys/create", Doc: "Create a key"}, func(context.Context, operate.None) (key, error) { return key{"k", "abc"}, nil }),
	}
	for typed, want := range map[string]string{
		"tokens create":        "abc\n",
		"tokens create --json": `{"token":"abc"}` + "\n",
		"keys create":          "KEY         k\nSECRET KEY  abc\n",
	} {
		var out bytes.Buffer
		root := cli.Commands("house", all, &service.Shell{Stdout: &out, Stderr: &out, Open: func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }})
		root.SetArgs(strings.Fields(typed))
		if err := root.ExecuteContext(t.Context()); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v", typed, out.String(), err)
		}
	}
}
