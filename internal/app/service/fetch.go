package service

import (
	"context"
	"net/http"
	"time"
)

// fetchTimeout bounds what a check waits for an answer.
const fetchTimeout = 10 * time.Second

// Fetch asks an address, for checks, and returns the status of the answer.
func Fetch(ctx context.Context, address string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
