package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRefusedRequest checks that the error after a refusal or a closed connection contains the request and the response,
// and that only a busy server gets the request again.
func TestRefusedRequest(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		status := map[string]int{"/busy": http.StatusServiceUnavailable, "/late": http.StatusRequestTimeout}[r.URL.Path]
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, "the database has no connection left", status)
	}))
	t.Cleanup(server.Close)
	anyone := credentials{Endpoint: server.URL, sign: func(*http.Request) error { return nil }, retries: 2}
	err := with(t.Context(), anyone, func(c *caller) error {
		for _, test := range []struct {
			path, want string // want begins the error
			requests   int64
			busy       bool
		}{
			{"/busy", `POST /busy: 503 Service Unavailable: "the database has no connection left\n"`, 3, true},
			{"/late", `POST /late: 408 Request Timeout: "the database has no connection left\n"`, 1, false},
			{"/gone", `POST /gone: no response: `, 1, false},
		} {
			requests.Store(0)
			_, err := c.send(t.Context(), http.MethodPost, test.path, []byte("[]"))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || errors.Is(err, errBusy) != test.busy {
				t.Errorf("%s: %v, want %s", test.path, err, test.want)
			}
			if n := requests.Load(); n != test.requests {
				t.Errorf("%s: %d requests, want %d", test.path, n, test.requests)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
