// Package retry has what the clients share: the check of their base URL, and when and how long to
// wait before a request is sent again.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Waits before a retry if the server does not give one.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// NetworkError means that there was no response, or only a part of it.
type NetworkError struct{ Err error }

func (e *NetworkError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NetworkError) Unwrap() error { return e.Err }

// IsNetwork reports whether an error is, or wraps, a NetworkError.
func IsNetwork(err error) bool {
	_, ok := errors.AsType[*NetworkError](err)
	return ok
}

// IsTransient reports whether a server, or a proxy before it, may answer otherwise than with this
// status if it is asked again. Whether it has done the request is unknown.
func IsTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// After returns the wait that a response asks for in seconds, or 0.
func After(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Wait waits as long as the server asks for, and at least a time that grows with the number of
// failures. It returns false if ctx ends or the wait exceeds most.
func Wait(ctx context.Context, failed int, asked, most time.Duration) bool {
	wait := min(leastPause<<min(failed, 10), mostPause)
	wait = max(wait/2+rand.N(wait/2), asked)
	if wait > most || ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Base returns a base URL without a slash at its end, or an error if it is not one, or has the path
// without, which the client adds. example is one in the error.
func Base(base, example, without string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("base URL %q: expected http:// or https://, a host and no query, such as %s", base, example)
	}
	if before, _, found := strings.Cut(base, without); found {
		return "", fmt.Errorf("base URL %q: remove %s and what follows; expected %s", base, without, before)
	}
	return strings.TrimRight(base, "/"), nil
}
