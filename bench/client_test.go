package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func unsigned(url string, retries int) credentials {
	return credentials{Endpoint: url, sign: func(*http.Request) error { return nil }, retries: retries}
}

// TestRefusedRequest checks that a refused request's error contains the request and the response.
func TestRefusedRequest(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		status := http.StatusServiceUnavailable
		if r.URL.Path == "/late" {
			status = http.StatusRequestTimeout
		}
		http.Error(w, "the database has no connection left", status)
	}))
	t.Cleanup(server.Close)
	c, err := dial(t.Context(), unsigned(server.URL, 2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.hangUp)
	for _, test := range []struct {
		path, want string
		requests   int64
		busy       bool
	}{
		{"/busy", `POST /busy: 503 Service Unavailable: "the database has no connection left\n"`, 3, true},
		{"/late", `POST /late: 408 Request Timeout: "the database has no connection left\n"`, 1, false},
	} {
		requests.Store(0)
		_, err := c.send(t.Context(), http.MethodPost, test.path, []byte("[]"))
		if err == nil || err.Error() != test.want || errors.Is(err, errBusy) != test.busy {
			t.Errorf("%s: %v, want %s", test.path, err, test.want)
		}
		if n := requests.Load(); n != test.requests {
			t.Errorf("%s: %d requests, want %d", test.path, n, test.requests)
		}
	}
}

// TestNoResponse checks that the error after a closed connection names the request.
func TestNoResponse(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	c, err := dial(t.Context(), unsigned(server.URL, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.hangUp)
	if _, err := c.send(t.Context(), http.MethodGet, "/gone", nil); err == nil || !strings.HasPrefix(err.Error(), "GET /gone: no response: ") {
		t.Error(err)
	}
}
