// Package buckets is the S3 workload: a client, its writes, and the expected object state.
package buckets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/workload"
)

type Client struct {
	URL string // S3 listener
	sigv4test.Signer
	HTTP *http.Client // nil: http.DefaultClient

	skew atomic.Int64 // nanoseconds that the server's clock is ahead
}

func Key(id, secret string) sigv4test.Signer {
	return sigv4test.Signer{AccessKeyID: id, Secret: secret, Region: "us-east-1"}
}

// ReadKey parses the only access key printed by `holdfast buckets keys list ACCOUNT --secrets`.
func ReadKey(list string) (sigv4test.Signer, error) {
	lines := strings.Split(strings.TrimSpace(list), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(lines) != 2 || len(fields) < 3 {
		return sigv4test.Signer{}, fmt.Errorf("buckets keys list: %q: expected one key", lines)
	}
	return Key(fields[0], fields[len(fields)-1]), nil
}

// At returns a client for another server with the same access key.
func (c *Client) At(url string) *Client { return &Client{URL: url, Signer: c.Signer, HTTP: c.HTTP} }

const Unsigned = "X-Amz-Content-Sha256: " + sigv4test.Unsigned

func (c *Client) Request(ctx context.Context, method, target, body string, headers ...string) (*http.Request, error) {
	r, err := workload.NewRequest(ctx, method, c.URL+target, body, headers...)
	if err != nil {
		return nil, err
	}
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if payload == "" {
		payload = Hash(body)
	}
	c.Sign(r, payload, time.Now().Add(time.Duration(c.skew.Load())))
	return r, nil
}

func (c *Client) Send(ctx context.Context, method, target, body string, headers ...string) (workload.Answer, error) {
	r, err := c.Request(ctx, method, target, body, headers...)
	if err != nil {
		return workload.Answer{}, err
	}
	return workload.Do(c.HTTP, r)
}

// SendAgain is Send for a server with a leaping clock. Like the SDKs, it retries after clock skew errors, and if the
// clock leaped while the body was stored.
func (c *Client) SendAgain(ctx context.Context, method, target, body string, headers ...string) (workload.Answer, error) {
	for tries := 1; ; tries++ {
		a, err := c.Send(ctx, method, target, body, headers...)
		switch {
		case err != nil || tries == 10:
			return a, err
		case strings.Contains(a.Body, "<Code>RequestTimeTooSkewed<"):
			_, text, _ := strings.Cut(a.Body, "<ServerTime>") // Date is the machine's clock
			text, _, _ = strings.Cut(text, "<")
			now, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return a, err
			}
			c.skew.Store(int64(time.Until(now)))
		case a.Status != http.StatusServiceUnavailable:
			return a, nil
		}
	}
}

// Hash returns a body's SHA-256 for signing.
func Hash[Body ~string | ~[]byte](body Body) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
