package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/httpapi"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// serveDockerflow serves d as the binary does.
func serveDockerflow(t *testing.T, d *httpapi.Dockerflow, log *slog.Logger) func(method, path string) *answer {
	t.Helper()
	addresses, err := web.NewResolver("", nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Address, d.Log = addresses.Resolve, log
	s := webtest.Serve(t, web.Room{Name: "server", Serve: d.Serve, Error: httpapi.WriteError, Route: func(*http.Request) string { return "" }}, web.Options{Log: log})
	client := s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(method, path string) *answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return &answer{t: t, what: method + " " + path, status: res.StatusCode, header: res.Header, body: string(body)}
	}
}

func TestDockerflow(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var away error
	pool := httpapi.Pool{Active: 1, Idle: 2, Max: 3}
	do := serveDockerflow(t, &httpapi.Dockerflow{
		Version: httpapi.Version{Source: "https://example.org/holdfast", Version: "1.2.3", Commit: "abc", Build: "https://example.org/build/1"},
		Ping: func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a database may take for ever")
			}
			return away
		},
		Quota: &ss.Quota{Limit: 2048}, Pool: func() httpapi.Pool { return pool }, DocumentsLink: "https://example.org/docs?a=b",
	}, slog.New(slog.NewTextHandler(&log, nil)))

	do("GET", "/__heartbeat__").is(200, `{"version":"1.2.3","quota":{"enabled":true,"size":2048},"database":"Ok","status":"Ok"}`).
		has("Content-Type", "application/json").has("X-Weave-Timestamp", "")
	do("HEAD", "/__heartbeat__").is(200, "")
	away = fault.New(fault.Unavailable, "the cable is cut")
	do("GET", "/__heartbeat__").is(503, `{"version":"1.2.3","quota":{"enabled":true,"size":2048},"database":"Err","status":"Err"}`)
	if !strings.Contains(log.String(), "the cable is cut") {
		t.Errorf("the log does not say why:\n%s", log.String())
	}

	do("GET", "/__lbheartbeat__").is(200, `{"active_connections":1,"idle_connections":2}`)
	pool = httpapi.Pool{Active: 3, Max: 3}
	do("GET", "/__lbheartbeat__").is(500, `{"active_connections":3,"idle_connections":0}`)

	do("GET", "/__version__").is(200, `{"source":"https://example.org/holdfast","version":"1.2.3","commit":"abc","build":"https://example.org/build/1"}`)
	do("GET", "/").is(302, "").has("Location", "https://example.org/docs?a=b")
	do("GET", "/?x=1").is(302, "")

	log.Reset()
	do("GET", "/__error__").is(500, "0")
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log does not tell of the error:\n%s", log.String())
	}

	for _, path := range []string{"/x", "//", "/__heartbeat__/", "/__heartbeat__/x", "/%5F_heartbeat__", "/1.5/1/info/collections"} {
		do("GET", path).is(404, "0")
		do("POST", path).is(404, "0")
	}
	for _, path := range []string{"/", "/__heartbeat__", "/__lbheartbeat__", "/__version__", "/__error__"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
			do(method, path).is(405, "1").has("Allow", "GET, HEAD")
		}
	}
}

// Without the storage room there is no quota, and without any there is no
// database to be away.
func TestDockerflowWithoutRooms(t *testing.T) {
	t.Parallel()
	tokensOnly := serveDockerflow(t, &httpapi.Dockerflow{Ping: func(context.Context) error { return nil }}, quiet)
	tokensOnly("GET", "/__heartbeat__").is(200, `{"version":"","database":"Ok","status":"Ok"}`)
	tokensOnly("GET", "/__lbheartbeat__").is(200, `{}`)
	down := serveDockerflow(t, &httpapi.Dockerflow{Ping: func(context.Context) error { return errors.New("away") }}, quiet)
	down("GET", "/__heartbeat__").is(503, `{"version":"","database":"Err","status":"Err"}`)
	nothing := serveDockerflow(t, &httpapi.Dockerflow{Quota: &ss.Quota{}}, quiet)
	nothing("GET", "/__heartbeat__").is(200, `{"version":"","quota":{"enabled":false,"size":0},"status":"Ok"}`)
	nothing("GET", "/").is(404, "0")
}
