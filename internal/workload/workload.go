// Package workload has what the workloads of all services share. The folder of a service has its client, its requests
// and what the answers promise, for the load generator, the fault tests and the end-to-end tests. A workload imports
// nothing of the server except how to issue and sign what a client sends, so that a mistake of the server shows.
package workload

import (
	"io"
	"net/http"
)

// Answer is a response and its body.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends a request and reads the answer.
func Do(client *http.Client, r *http.Request) (Answer, error) {
	resp, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(text)}, err
}
