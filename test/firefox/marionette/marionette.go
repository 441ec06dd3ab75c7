// Package marionette is a client for Marionette, Firefox's remote control, which listens with `--marionette
// --remote-allow-system-access`.
//
// A packet over TCP is a decimal length, a colon and that many bytes of JSON. After the browser's greeting, the
// client sends [0, id, command, parameters] and gets [1, id, error, result]. This package supports a single session,
// and scripts with the browser's permissions.
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
	"time"
)

// protocolVersion is the packet format of this client. The greeting contains the browser's format.
const protocolVersion = 3

const maxPacket = 64 << 20

// Client is the only session of a browser. Commands are sequential; Client is not safe for concurrent use.
type Client struct {
	conn   net.Conn
	in     *bufio.Reader
	lastID int
}

// Error is the browser's response to a failed command.
type Error struct {
	Kind    string `json:"error"` // WebDriver error code, e.g. "javascript error"
	Message string `json:"message"`
	Stack   string `json:"stacktrace"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("marionette: %s: %s\n%s", e.Kind, e.Message, e.Stack)
}

// Dial connects to host:port, opens a session and selects the browser itself ("chrome") instead of a page. It returns
// when the first window is open.
func Dial(ctx context.Context, address string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("marionette: %w", err)
	}
	c := &Client{conn: conn, in: bufio.NewReader(conn)}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *Client) open(ctx context.Context) error {
	defer c.bound(ctx)()
	var hello struct {
		Version int `json:"marionetteProtocol"`
	}
	if err := c.receive(&hello); err != nil {
		return because(ctx, err)
	}
	if hello.Version != protocolVersion {
		return fmt.Errorf("marionette: the browser speaks protocol %d, this client %d", hello.Version, protocolVersion)
	}
	for _, step := range []struct {
		command string
		params  any
	}{
		{"WebDriver:NewSession", struct{}{}},
		// The context of each call limits its script. With null, which means no limit in WebDriver, the browser would not wait
		// for promises and would immediately respond null.
		{"WebDriver:SetTimeouts", map[string]any{"script": (24 * time.Hour).Milliseconds()}},
		{"Marionette:SetContext", map[string]any{"value": "chrome"}},
	} {
		if err := c.command(step.command, step.params, nil); err != nil {
			return because(ctx, err)
		}
	}
	return nil
}

// Execute runs the body of a function with args in `arguments` and the permissions of the browser, awaits a promise,
// and decodes the result (nil discards it). It returns an exception as *Error. If ctx is done before the response is
// complete, the connection becomes unusable, because part of the response may have been read.
func (c *Client) Execute(ctx context.Context, script string, args []any, result any) error {
	defer c.bound(ctx)()
	if args == nil {
		args = []any{}
	}
	answer := struct {
		Value any `json:"value"`
	}{result}
	err := c.command("WebDriver:ExecuteScript", map[string]any{
		"script":     script,
		"args":       args,
		"sandbox":    "system",
		"newSandbox": true,
	}, &answer)
	return because(ctx, err)
}

// Close closes the connection, which ends the session. The browser continues to run.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) bound(ctx context.Context) func() {
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

func (c *Client) command(name string, params, result any) error {
	c.lastID++
	body, err := json.Marshal([]any{0, c.lastID, name, params})
	if err != nil {
		return fmt.Errorf("marionette: %s: %w", name, err)
	}
	packet := append(strconv.AppendInt(nil, int64(len(body)), 10), ':')
	if _, err := c.conn.Write(append(packet, body...)); err != nil {
		return fmt.Errorf("marionette: %s: %w", name, err)
	}
	var answer [4]json.RawMessage
	if err := c.receive(&answer); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if string(answer[1]) != strconv.Itoa(c.lastID) {
		return fmt.Errorf("marionette: %s: answer to command %s, sent %d", name, answer[1], c.lastID)
	}
	failure := new(Error)
	if err := json.Unmarshal(answer[2], &failure); err != nil {
		return fmt.Errorf("marionette: %s: %w", name, err)
	}
	if failure != nil {
		return failure
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer[3], result); err != nil {
		return fmt.Errorf("marionette: %s: %w", name, err)
	}
	return nil
}

func (c *Client) receive(v any) error {
	prefix, err := c.in.ReadString(':')
	if err != nil {
		return fmt.Errorf("marionette: the browser hung up: %w", err)
	}
	n, err := strconv.Atoi(prefix[:len(prefix)-1])
	if err != nil || n < 0 || n > maxPacket {
		return fmt.Errorf("marionette: bad packet length %q", prefix)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return fmt.Errorf("marionette: packet cut short: %w", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("marionette: %w", err)
	}
	return nil
}
