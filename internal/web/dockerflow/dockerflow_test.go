//test:unraced its goroutines share nothing

package dockerflow_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
	"holdfast/internal/web/dockerflow"
	"holdfast/internal/web/webtest"
)

func serveDockerflow(t *testing.T, d *dockerflow.Handler, log *slog.Logger) func(method, path string) *answer {
	t.Helper()
	s := webtest.Serve(t, web.Service{Name: "server", Serve: d.Serve, Error: dockerflow.WriteError, Route: dockerflow.Label}, web.Options{Log: log})
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

type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   string
}

func (a *answer) is(status int, body string) *answer {
	a.t.Helper()
	if a.status != status || a.body != body {
		a.t.Errorf("%s: %d %q, want %d %q", a.what, a.status, a.body, status, body)
	}
	return a
}

func (a *answer) has(name, value string) *answer {
	a.t.Helper()
	if got := a.header.Get(name); got != value {
		a.t.Errorf("%s: %s is %q, want %q", a.what, name, got, value)
	}
	return a
}

var quiet = slog.New(slog.DiscardHandler)

func TestDockerflow(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var away error
	pool := dockerflow.Pool{Active: 1, Idle: 2, Max: 3}
	do := serveDockerflow(t, &dockerflow.Handler{
		Version: dockerflow.Version{Source: "https://example.org/holdfast", Version: "1.2.3", Commit: "abc", Build: "https://example.org/build/1"},
		Ping: func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the ping has no deadline")
			}
			return away
		},
		Quota: func() dockerflow.Quota { return dockerflow.Quota{Enabled: true, Size: 2048, User: 4096} }, Pool: func() dockerflow.Pool { return pool },
		Root: func(w http.ResponseWriter, _ *http.Request, at web.Address) error {
			web.SendJSON(w, http.StatusOK, []byte(at.Path))
			return nil
		},
	}, slog.New(slog.NewTextHandler(&log, nil)))

	do("GET", "/__heartbeat__").is(200, `{"version":"1.2.3","quota":{"enabled":true,"size":2048,"user_size":4096},"database":"Ok","status":"Ok"}`+"\n").
		has("Content-Type", "application/json").has("X-Weave-Timestamp", "")
	do("HEAD", "/__heartbeat__").is(200, "")
	away = errcode.New(errcode.Unavailable, "no route to host")
	do("GET", "/__heartbeat__").is(503, `{"version":"1.2.3","quota":{"enabled":true,"size":2048,"user_size":4096},"database":"Err","status":"Err"}`+"\n")

	do("GET", "/__lbheartbeat__").is(200, `{"active_connections":1,"idle_connections":2}`+"\n")
	pool = dockerflow.Pool{Active: 3, Max: 3}
	do("GET", "/__lbheartbeat__").is(500, `{"active_connections":3,"idle_connections":0}`+"\n")

	do("GET", "/__version__").is(200, `{"source":"https://example.org/holdfast","version":"1.2.3","commit":"abc","build":"https://example.org/build/1"}`+"\n")
	do("GET", "/").is(200, "/")
	do("GET", "/?x=1").is(200, "/")
	do("HEAD", "/").is(200, "")

	for _, path := range []string{"/x", "//", "/__heartbeat__/", "/__heartbeat__/x", "/%5F_heartbeat__", "/1.5/1/info/collections"} {
		do("GET", path).is(404, "0")
		do("POST", path).is(404, "0")
	}
	for _, path := range []string{"/", "/__heartbeat__", "/__lbheartbeat__", "/__version__"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"} {
			do(method, path).is(405, "1").has("Allow", "GET, HEAD")
		}
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("a client can write errors into the log:\n%s", log.String())
	}
}

func TestDockerflowWithoutServices(t *testing.T) {
	t.Parallel()
	tokensOnly := serveDockerflow(t, &dockerflow.Handler{Ping: func(context.Context) error { return nil }}, quiet)
	tokensOnly("GET", "/__heartbeat__").is(200, `{"version":"","database":"Ok","status":"Ok"}`+"\n")
	tokensOnly("GET", "/__lbheartbeat__").is(200, `{}`+"\n")
	down := serveDockerflow(t, &dockerflow.Handler{Ping: func(context.Context) error { return errors.New("away") }}, quiet)
	down("GET", "/__heartbeat__").is(503, `{"version":"","database":"Err","status":"Err"}`+"\n")
	nothing := serveDockerflow(t, &dockerflow.Handler{Quota: func() dockerflow.Quota { return dockerflow.Quota{} }}, quiet)
	nothing("GET", "/__heartbeat__").is(200, `{"version":"","quota":{"enabled":false,"size":0},"status":"Ok"}`+"\n")
	nothing("GET", "/").is(404, "0")
}
