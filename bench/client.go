package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

type credentials struct {
	Endpoint string
	sign     func(*http.Request) error

	// retries limits retries after a 503. Servers with timestamps in hundredths of a second refuse another write to a
	// collection within the same hundredth.
	retries int
}

const patience = 2 * time.Minute

// caller is a data owner on a persistent connection. An http.Client would use more CPU time than the server, on the
// same cores.
type caller struct {
	credentials

	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	body bytes.Buffer

	number int // selects the connection's own objects
	token  string
}

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

var errBusy = errors.New("503 Service Unavailable")

func (c *caller) hangUp() { _ = c.conn.Close() }

func dialAll(ctx context.Context, owners []credentials) (all []*caller, hangUp func(), err error) {
	hangUp = func() {
		for _, c := range all {
			c.hangUp()
		}
	}
	for _, u := range owners {
		c, err := dial(ctx, u)
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, hangUp, nil
}

const retryPause = 5 * time.Millisecond

// send returns the response body, which is valid until the next call.
func (c *caller) send(ctx context.Context, method, path string, body []byte, records string) ([]byte, error) {
	for tries := 0; ; tries++ {
		c.body.Reset()
		err := c.exchange(ctx, method, path, body, records, &c.body)
		if !errors.Is(err, errBusy) || tries >= c.retries {
			return c.body.Bytes(), err
		}
		time.Sleep(retryPause)
	}
}

func refused(method, path string, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	status := errors.New(resp.Status)
	if resp.StatusCode == http.StatusServiceUnavailable {
		status = errBusy
	}
	return fmt.Errorf("%s %s: %w: %q", method, path, status, text)
}

func (c *caller) exchange(ctx context.Context, method, path string, body []byte, records string, to io.Writer) error {
	if body == nil {
		return c.transfer(ctx, method, path, http.NoBody, 0, records, to)
	}
	return c.transfer(ctx, method, path, bytes.NewReader(body), int64(len(body)), records, to)
}

func (c *caller) transfer(ctx context.Context, method, path string, body io.Reader, size int64, records string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, body)
	if err != nil {
		return err
	}
	req.ContentLength = size
	if size > 0 {
		req.Header.Set("Content-Type", "application/json")
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
		return refused(method, path, resp)
	}
	if sendErr != nil {
		return fmt.Errorf("%s %s: %w", method, path, sendErr)
	}
	if got := resp.Header.Get("X-Weave-Records"); records != "" && got != records {
		return fmt.Errorf("%s %s: %q records, want %s", method, path, got, records)
	}
	if err := c.conn.SetDeadline(deadline(resp.ContentLength)); err != nil {
		return err
	}
	_, err = io.Copy(to, resp.Body)
	return err
}

// deadline allows for a busy disk.
func deadline(n int64) time.Time {
	return time.Now().Add(patience + time.Duration(max(n, 0)>>22)*time.Second)
}
