package binary

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/workload"
)

// Credentials are what `holdfast sync token` prints.
type Credentials struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	UID      int64  `json:"uid"`
	Endpoint string `json:"api_endpoint"`
	Duration int64  `json:"duration"` // seconds
}

// Answer is a response and its body.
type Answer = workload.Answer

// Request returns a signed request; path is relative to the user's endpoint.
func (c Credentials) Request(ctx context.Context, method, path, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	hash := ""
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		hash = hawk.PayloadHash("application/json", []byte(body))
	}
	return req, hawk.SignHTTP(req, c.ID, c.Key, time.Now(), hash)
}

// Send sends a signed request; path is relative to the user's endpoint.
func (c Credentials) Send(method, path, body string) (Answer, error) {
	return c.SendBy(context.Background(), http.DefaultClient, method, path, body)
}

// SendBy is Send with another client.
func (c Credentials) SendBy(ctx context.Context, client *http.Client, method, path, body string) (Answer, error) {
	req, err := c.Request(ctx, method, path, body)
	if err != nil {
		return Answer{}, err
	}
	var conn httptrace.GotConnInfo
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conn = info }}
	a, err := workload.Do(client, req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil && a.Status == 0 {
		err = fmt.Errorf("%w (body of %d bytes, on a connection that was used before: %t, and idle for %v)", err, len(body), conn.Reused, conn.IdleTime)
	}
	return a, err
}

// Want sends a request and expects the status.
func (c Credentials) Want(t *testing.T, status int, method, path, body string) Answer {
	t.Helper()
	a, err := c.Send(method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, status)
	}
	return a
}
