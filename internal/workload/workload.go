// Package workload contains shared code for the service workloads. Each subfolder has a client, its requests and the
// expected answers, for the load generator, the fault tests and the end-to-end tests. To avoid repeating server bugs,
// workloads import no server code except for issuing tokens and signing requests.
package workload

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
)

type Answer struct {
	Status int
	Header http.Header
	Body   string
}

const JSON = "Content-Type: application/json"

// NewRequest returns a request. A header is a line such as JSON.
func NewRequest(ctx context.Context, method, url, body string, headers ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	return r, nil
}

// Send sends a request and reads the answer; a nil client is http.DefaultClient.
func Send(ctx context.Context, client *http.Client, method, url, body string, headers ...string) (Answer, error) {
	r, err := NewRequest(ctx, method, url, body, headers...)
	if err != nil {
		return Answer{}, err
	}
	return Do(client, r)
}

// Do is Send for an existing request.
func Do(client *http.Client, r *http.Request) (Answer, error) {
	resp, err := cmp.Or(client, http.DefaultClient).Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(text)}, err
}
