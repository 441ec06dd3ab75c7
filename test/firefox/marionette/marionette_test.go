package marionette

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
)

// respond simulates a browser on one connection: it sends the greeting, then answers each command with reply.
func respond(t *testing.T, greeting string, reply func(id int, command string, params map[string]any) string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%d:%s", len(greeting), greeting)
		for in := bufio.NewReader(conn); ; {
			prefix, err := in.ReadString(':')
			if err != nil {
				return
			}
			n, _ := strconv.Atoi(prefix[:len(prefix)-1])
			body := make([]byte, n)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			var id int
			var command string
			var params map[string]any
			if err := json.Unmarshal(body, &[]any{new(int), &id, &command, &params}); err != nil {
				t.Error(err)
			}
			answer := reply(id, command, params)
			fmt.Fprintf(conn, "%d:%s", len(answer), answer)
		}
	}()
	return l.Addr().String()
}

const hello = `{"applicationType":"gecko","marionetteProtocol":3}`

func TestExecute(t *testing.T) {
	t.Parallel()
	address := respond(t, hello, func(id int, command string, params map[string]any) string {
		switch {
		case command != "WebDriver:ExecuteScript":
			return fmt.Sprintf(`[1,%d,null,{"value":null}]`, id)
		case params["script"] == "throw":
			return fmt.Sprintf(`[1,%d,{"error":"javascript error","message":"no","stacktrace":"here"},null]`, id)
		default:
			value, _ := json.Marshal(params["args"])
			return fmt.Sprintf(`[1,%d,null,{"value":%s}]`, id, value)
		}
	})
	c, err := Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	// The length counts bytes, not characters.
	var got []string
	if err := c.Execute(t.Context(), "echo", []any{"☃"}, &got); err != nil || len(got) != 1 || got[0] != "☃" {
		t.Errorf("result %q, error %v", got, err)
	}
	var failure *Error
	if err := c.Execute(t.Context(), "throw", nil, nil); !errors.As(err, &failure) || failure.Kind != "javascript error" || failure.Message != "no" {
		t.Errorf("a script that throws: %v", err)
	}
	if err := c.Execute(t.Context(), "echo", nil, nil); err != nil {
		t.Errorf("after a script that throws: %v", err)
	}
}

func TestExecuteEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	address := respond(t, hello, func(id int, command string, _ map[string]any) string {
		if command == "WebDriver:ExecuteScript" {
			cancel()
			<-release
		}
		return fmt.Sprintf(`[1,%d,null,{"value":null}]`, id)
	})
	c, err := Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Execute(ctx, "wait for ever", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	ok := func(id int, _ string, _ map[string]any) string { return fmt.Sprintf(`[1,%d,null,{}]`, id) }
	for name, address := range map[string]string{
		"another protocol":    respond(t, `{"marionetteProtocol":2}`, ok),
		"a greeting not JSON": respond(t, `hello`, ok),
		"an answer to another command": respond(t, hello, func(id int, _ string, _ map[string]any) string {
			return fmt.Sprintf(`[1,%d,null,{}]`, id+1)
		}),
		"a session in use": respond(t, hello, func(id int, _ string, _ map[string]any) string {
			return fmt.Sprintf(`[1,%d,{"error":"session not created","message":"in use"},null]`, id)
		}),
	} {
		if c, err := Dial(t.Context(), address); err == nil {
			t.Errorf("%s: no error", name)
			_ = c.Close()
		}
	}
}
