// Package retry is shared by the clients: it checks base URLs, and decides whether and when to send a request
// again.
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

// Limits for the delay before a retry, unless the server asks for a longer delay.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// Limits for the delay of a client that follows changes and never gives up.
const (
	leastRest = 250 * time.Millisecond
	mostRest  = 30 * time.Second
)

// NetworkError means that there was no response, or only part of one.
type NetworkError struct{ Err error }

// Error returns the cause's text.
func (e *NetworkError) Error() string { return e.Err.Error() }

func (e *NetworkError) Unwrap() error { return e.Err }

// IsNetwork reports whether an error wraps a NetworkError.
func IsNetwork(err error) bool {
	_, ok := errors.AsType[*NetworkError](err)
	return ok
}

// IsTransient reports whether a repeated request may get another status, from the server or from a proxy in front
// of it. The server may already have executed the request.
func IsTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// longestAfter is the longest delay that After returns, so that sums do not overflow.
const longestAfter = 365 * 24 * time.Hour

// After returns the delay that a response asks for, or 0. Retry-After is a number of seconds or a date (RFC 9110,
// section 10.2.3).
func After(resp *http.Response) time.Duration {
	header := resp.Header.Get("Retry-After")
	if at, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(at), 0), longestAfter)
	}
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, int(longestAfter/time.Second))) * time.Second
}

// Wait waits as long as the server asks for, but at least a delay that grows with the number of failures. It
// returns false if ctx is done or the delay would exceed longest.
func Wait(ctx context.Context, failed int, asked, longest time.Duration) bool {
	wait := max(jitter(leastPause, mostPause, failed), asked)
	return wait <= longest && Pause(ctx, wait)
}

// Rest returns the delay of a client that never gives up: as long as the server asks for, and a delay that grows with
// the number of failures.
func Rest(failed int, asked time.Duration) time.Duration {
	return asked + jitter(leastRest, mostRest, failed)
}

// jitter returns a delay that doubles with each failure up to most. Its random part spreads clients that failed at
// the same time.
func jitter(least, most time.Duration, failed int) time.Duration {
	wait := min(least<<min(failed, 10), most)
	return wait/2 + rand.N(wait/2)
}

// Pause waits. It returns false if ctx is done.
func Pause(ctx context.Context, wait time.Duration) bool {
	if ctx.Err() != nil {
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

// Base returns a base URL without a trailing slash. It returns an error if the URL is invalid or contains without,
// the path that the client adds. example is a valid URL for the error text.
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
