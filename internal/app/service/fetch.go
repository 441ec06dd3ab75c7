package service

import (
	"context"
	"net/http"
	"time"

	"holdfast/internal/errcode"
)

const fetchTimeout = 10 * time.Second

// Fetch sends a check's GET request and returns the response status.
func Fetch(ctx context.Context, address string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, errcode.NoAnswer(address, err)
	}
	return resp.StatusCode, resp.Body.Close()
}
