package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// credentials are a data owner's address and signature.
type credentials struct {
	Endpoint string
	sign     func(*http.Request) error

	// retries limits retries after a 503. Servers with timestamps in hundredths of a second refuse another write to a
	// collection within the same hundredth.
	retries int
}

const (
	patience   = 2 * time.Minute
	retryPause = 5 * time.Millisecond
)

// caller is a data owner on a persistent connection. An http.Client would use more CPU time than the server, on the
// same cores.
type caller struct {
	credentials

	conn   net.Conn
	in     *bufio.Reader
	out    *bufio.Writer
	body   bytes.Buffer
	header http.Header // of the last response
	read   int64       // size of its body

	number int    // selects the connection's own objects
	token  string // continues a list or a batch
}

// dial opens a connection, which with and withAll close.
func dial(ctx context.Context, c credentials) (*caller, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return &caller{credentials: c, conn: conn, in: bufio.NewReaderSize(conn, 64<<10), out: bufio.NewWriterSize(conn, 64<<10)}, nil
}

// with dials, and hangs up after fn.
func with(ctx context.Context, owner credentials, fn func(*caller) error) error {
	return withAll(ctx, []credentials{owner}, func(all []*caller) error { return fn(all[0]) })
}

// withAll dials a connection per owner, and hangs up after fn.
func withAll(ctx context.Context, owners []credentials, fn func([]*caller) error) error {
	var all []*caller
	defer func() {
		for _, c := range all {
			_ = c.conn.Close()
		}
	}()
	for _, u := range owners {
		c, err := dial(ctx, u)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	return fn(all)
}

// fillEach runs fill on a connection per owner in parallel, because servers close idle connections after a few seconds.
func fillEach(ctx context.Context, owners []credentials, fill func(ctx context.Context, c *caller) error) error {
	return withAll(ctx, owners, func(all []*caller) error {
		_, err := drive(ctx, len(all), times(1), func(ctx context.Context, c, _ int) error { return fill(ctx, all[c]) })
		return err
	})
}

// send returns the response body, which is valid until the next call.
func (c *caller) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	for tries := 0; ; tries++ {
		c.body.Reset()
		err := c.transfer(ctx, method, path, bytes.NewReader(body), int64(len(body)), &c.body)
		if !errors.Is(err, errBusy) || tries >= c.retries {
			return c.body.Bytes(), err
		}
		time.Sleep(retryPause)
	}
}

// call is send for a request whose response body does not matter.
func (c *caller) call(ctx context.Context, method, path string, body []byte) error {
	_, err := c.send(ctx, method, path, body)
	return err
}

// json sends a value as JSON, and decodes the answer, unless answer is nil.
func (c *caller) json(ctx context.Context, method, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	text, err := c.send(ctx, method, path, data)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// do sends a request without retries, and drops the response body.
func (c *caller) do(ctx context.Context, method, path string, body []byte) error {
	return c.transfer(ctx, method, path, bytes.NewReader(body), int64(len(body)), io.Discard)
}

var errBusy = errors.New("503 Service Unavailable")

// transfer sends a request with size bytes of body, and copies the body of the response. Any status but 2xx is an
// error with the beginning of the body, and errBusy for status 503.
func (c *caller) transfer(ctx context.Context, method, path string, body io.Reader, size int64, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, body)
	if err != nil {
		return err
	}
	if req.ContentLength = size; size > 0 {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body = http.NoBody
	}
	if err := c.sign(req); err != nil {
		return err
	}
	if err := c.conn.SetDeadline(deadline(size)); err != nil {
		return err
	}
	sendErr := req.Write(c.out)
	if sendErr == nil {
		sendErr = c.out.Flush()
	}
	// A server may refuse a request before reading it completely.
	resp, err := http.ReadResponse(c.in, req)
	if err != nil {
		return fmt.Errorf("%s %s: no response: %w", method, path, errors.Join(sendErr, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		status := errors.New(resp.Status)
		if resp.StatusCode == http.StatusServiceUnavailable {
			status = errBusy
		}
		return fmt.Errorf("%s %s: %w: %q", method, path, status, text)
	}
	if sendErr != nil {
		return fmt.Errorf("%s %s: %w", method, path, sendErr)
	}
	c.header = resp.Header
	if err := c.conn.SetDeadline(deadline(resp.ContentLength)); err != nil {
		return err
	}
	c.read, err = io.Copy(to, resp.Body)
	return err
}

// deadline allows for a busy disk.
func deadline(n int64) time.Time {
	return time.Now().Add(patience + time.Duration(max(n, 0)>>22)*time.Second)
}
