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

// credentials are what a client has: what its requests' paths begin with, and
// how they are signed.
type credentials struct {
	Endpoint string
	sign     func(*http.Request) error

	// retries is how often a request is sent again that is answered with 503. Servers
	// that write the time into records, in hundredths of a second, refuse a second write
	// of a collection in one.
	retries int
}

// patience is how long a request may take: a server that hangs ends the run.
const patience = 2 * time.Minute

// caller is one owner of data on one connection that is kept alive. It is not an
// http.Client, because that spends more on a request than the server does, on
// the same cores.
type caller struct {
	credentials

	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	body bytes.Buffer
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

// errBusy is a server's answer that it has too much to do.
var errBusy = errors.New("503 Service Unavailable")

// hangUp ends the connection. All that was wanted of it has been read.
func (c *caller) hangUp() { _ = c.conn.Close() }

// dialAll dials once for each of the owners.
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

// retryPause is how long a request rests before it is sent again.
const retryPause = 5 * time.Millisecond

// send makes a signed request and returns the answer's body, which is good
// until the next. Anything but success is an error, and so is another number
// of records than named.
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

// exchange is send for an answer that is not to be kept.
func (c *caller) exchange(ctx context.Context, method, path string, body []byte, records string, to io.Writer) error {
	var sent io.Reader = http.NoBody
	if body != nil {
		sent = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, sent)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := c.sign(req); err != nil {
		return err
	}
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := req.Write(c.out); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%w: %.200s", errBusy, text), err)
	}
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // the status says enough
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if got := resp.Header.Get("X-Weave-Records"); records != "" && got != records {
		return fmt.Errorf("%s %s: %q records, want %s", method, path, got, records)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}
