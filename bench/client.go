package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"holdfast/internal/auth/hawk"
)

// credentials are what `holdfast sync token` prints.
type credentials struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	Endpoint string `json:"api_endpoint"`
}

// caller is one user on one connection that is kept alive. It is not an
// http.Client, because that spends more on a request than the server does, on
// the same cores.
type caller struct {
	credentials

	conn io.Closer
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

// send makes a signed request and returns the answer's body, which is good
// until the next. Anything but success is an error, and so is another number
// of records than named.
func (c *caller) send(ctx context.Context, method, path string, body []byte, records string) ([]byte, error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		sent = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, sent) //nolint:gosec // our own server's address
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := hawk.SignHTTP(req, c.ID, c.Key, time.Now(), ""); err != nil {
		return nil, err
	}
	if err := req.Write(c.out); err != nil {
		return nil, err
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	c.body.Reset()
	if _, err := c.body.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %.200s", method, path, resp.Status, c.body.Bytes())
	}
	if got := resp.Header.Get("X-Weave-Records"); records != "" && got != records {
		return nil, fmt.Errorf("%s %s: %q records, want %s", method, path, got, records)
	}
	return c.body.Bytes(), nil
}
