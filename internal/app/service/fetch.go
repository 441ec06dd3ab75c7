package service

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"holdfast/internal/errcode"
)

// fetchTimeout is the timeout of a request by a check.
const fetchTimeout = 10 * time.Second

// Fetch sends a GET request for a check and returns the status of the response.
func Fetch(ctx context.Context, address string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, NoAnswer(address, err)
	}
	return resp.StatusCode, resp.Body.Close()
}

// NoAnswer returns an error of one line that says why an HTTP client got no response.
func NoAnswer(address string, err error) error {
	return fmt.Errorf("no answer from %s: %s", address, errcode.NetworkReason(err))
}
