package jsonschema_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/jsonschema"
)

// childEnv makes this test binary a trial process.
const childEnv = "JSONSCHEMA_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "main":
		if err := jsonschema.Main(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "spin": // an endless validation
		confined()
		for i := 0; ; i++ {
			runtime.KeepAlive(i)
		}
	case "sleep": // a busy machine
		confined()
		time.Sleep(time.Minute)
	case "report":
		_, _ = os.NewFile(3, "started").Write([]byte("x"))
		time.Sleep(time.Minute)
	case "eat":
		confined()
		var all [][]byte
		for {
			piece := make([]byte, 1<<20)
			for i := range piece {
				piece[i] = 1
			}
			all = append(all, piece)
			runtime.KeepAlive(all)
		}
	case "complain":
		fmt.Fprintln(os.Stderr, "unknown command")
		os.Exit(1)
	case "chat":
		fmt.Fprintln(os.Stdout, "good morning")
	}
}

func confined() {
	if err := jsonschema.Confine(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sandbox(t testing.TB, mode string) *jsonschema.Sandbox {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return jsonschema.NewSandbox(func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = []string{childEnv + "=" + mode}
		return cmd
	})
}

// passes runs a trial, again while the machine is too busy.
func passes(t *testing.T, s *jsonschema.Sandbox, document string, samples ...[]byte) error {
	t.Helper()
	for {
		err := s.Trial(t.Context(), []byte(document), samples)
		if !errcode.Is(err, errcode.Unavailable) {
			return err
		}
		t.Log(err)
	}
}

func TestTrial(t *testing.T) {
	t.Parallel()
	s := sandbox(t, "main")
	if err := passes(t, s, `{"type":"object","properties":{"a":{"type":"string"}}}`, []byte(`{"a":1}`), []byte(`[]`)); err != nil {
		t.Errorf("what does not match is no reason to refuse a schema: %v", err)
	}
	refused(t, passes(t, s, `{"properties":{"a":{"type":"text"}}}`), "/properties/a/type", "")
	// The limit is steps or, on a slow machine, time.
	refused(t, passes(t, s, indistinct), "", "takes too")
	wide := `["` + strings.Repeat("xa", 20_000) + `"]`
	refused(t, passes(t, s, `{"items":{"type":["string","null"],"allOf":[{"pattern":"(.{0,300}a){2}$"}]}}`, []byte(wide)), "", "takes too")
}

// indistinct passes Check and costs 2^depth.
const indistinct = `{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#"}}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`

func TestTrialEnds(t *testing.T) {
	t.Parallel()
	const document = `{}`
	modes := []string{"spin"}
	if runtime.GOOS == "linux" { // other systems do not limit process memory
		modes = append(modes, "eat")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			refused(t, passes(t, sandbox(t, mode), document), "", "too much time or memory")
		})
	}
	for _, mode := range []string{"complain", "chat"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if err := passes(t, sandbox(t, mode), document); !errcode.Is(err, errcode.Internal) {
				t.Errorf("%v, %v", errcode.Of(err), err)
			}
		})
	}
	t.Run("sleep", func(t *testing.T) {
		t.Parallel()
		if err := sandbox(t, "sleep").Trial(t.Context(), []byte(document), nil); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("%v, %v", errcode.Of(err), err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		t.Parallel()
		none := jsonschema.NewSandbox(func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/nonexistent") })
		if err := none.Trial(t.Context(), []byte(document), nil); !errcode.Is(err, errcode.Internal) {
			t.Error(err)
		}
	})
	t.Run("a caller who left", func(t *testing.T) {
		t.Parallel()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := sandbox(t, "main").Trial(ended, []byte(document), nil); !errcode.Is(err, errcode.Unavailable) {
			t.Error(err)
		}
	})
}

// TestTrialLeavesNobody checks that the trial process has ended and was alone in its process group.
func TestTrialLeavesNobody(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	started, child, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	defer child.Close()
	var cmd *exec.Cmd
	s := jsonschema.NewSandbox(func(ctx context.Context) *exec.Cmd {
		cmd = exec.CommandContext(ctx, self)
		cmd.Env, cmd.ExtraFiles = []string{childEnv + "=report"}, []*os.File{child}
		return cmd
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = started.Read(make([]byte, 1))
	}()
	if err := s.Trial(ctx, []byte(`{}`), nil); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("%v", err)
	}
	if cmd.ProcessState == nil {
		t.Error("the process was not waited for")
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, document string
		refused        bool
	}{
		{"indistinct alternatives", indistinct, true},
		{"indistinct alternatives, all of them right", strings.ReplaceAll(indistinct, `"object"`, `["object","integer"]`), true},
		{"items and contains", `{"type":["array","null"],"items":{"$ref":"#"},"contains":{"$ref":"#"}}`, true},
		{"two names for a member", `{"type":"object","properties":{"a":{"$ref":"#"}},"patternProperties":{"^a$":{"$ref":"#"},"a$":{"$ref":"#"}}}`, true},
		{"doubled, within the caps", doubled(7, `{"oneOf":[%[1]s,%[1]s]}`), false},
		{"a list", `{"properties":{"next":{"$ref":"#"}}}`, false},
		{"a tree", `{"type":"object","properties":{"name":{"type":"string"},"kids":{"type":"array","items":{"$ref":"#"}}}}`, false},
		{"expressions", `{"$ref":"#/$defs/e","$defs":{"e":{"oneOf":[{"type":"number"},
			{"type":"object","required":["op","l","r"],"properties":{"op":{"const":"add"},"l":{"$ref":"#/$defs/e"},"r":{"$ref":"#/$defs/e"}}},
			{"type":"object","required":["op","l","r"],"properties":{"op":{"const":"mul"},"l":{"$ref":"#/$defs/e"},"r":{"$ref":"#/$defs/e"}}},
			{"type":"object","required":["op","l"],"properties":{"op":{"const":"neg"},"l":{"$ref":"#/$defs/e"}}}]}}}`, false},
		{"a document of an editor", `{"$ref":"#/$defs/node","$defs":{"node":{"anyOf":[
			{"properties":{"type":{"const":"text"},"text":{"type":"string","pattern":"\\S"}},"required":["type","text"]},
			{"properties":{"type":{"const":"paragraph"},"content":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["type"]},
			{"properties":{"type":{"enum":["list","quote"]},"content":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["type"]}]}}}`, false},
	} {
		err := jsonschema.Try([]byte(c.document))
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		probes, err := jsonschema.Probes([]byte(c.document))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d deep", c.name, deepest(probes))
	}
}

func deepest(values []any) (most int) {
	for _, v := range values {
		switch v := v.(type) {
		case []any:
			most = max(most, 1+deepest(v))
		case map[string]any:
			for _, member := range v {
				most = max(most, 1+deepest([]any{member}))
			}
		}
	}
	return most
}
