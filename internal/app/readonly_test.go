package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/app"
	"holdfast/internal/cli"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func serveOnce(t *testing.T, data, url string, readOnly string, fn func(ask func(method, path string) (int, string))) {
	t.Helper()
	cfg, text, stop := started(t, data, "HOLDFAST_EXTSTORAGE__DATABASE_URL="+url, "HOLDFAST_SERVER__READ_ONLY="+readOnly, "HOLDFAST_BUCKETS__ENABLED=false")
	admin := adminURL(t, text)
	fn(func(method, path string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+cfg.Server.AdminToken.Reveal())
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	})
	stop()
}

// started starts a server in this process on free ports.
func started(t *testing.T, data string, environ ...string) (cfg *app.Config, announced string, stop func()) {
	t.Helper()
	cfg, _, err := app.Load(onAllEngines(), "", append(environ,
		"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0", "HOLDFAST_LOG__LEVEL=error"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: app.ModeServeMigrating})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	texts, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- server.Serve(ctx, announcement(texts)) }()
	select {
	case announced = <-texts:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	return cfg, announced, func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-ended, server.Close()); err != nil {
			t.Error(err)
		}
	}
}

func readOnlyCommand(t *testing.T, environ []string) func(status int, says string, args ...string) {
	return func(status int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		got := cli.Run(t.Context(), cli.Env{Args: append([]string{"read-only"}, args...), Environ: environ, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Services: onAllEngines()})
		if got != status || !strings.Contains(out.String(), says) {
			t.Errorf("holdfast read-only %q: %d %s", args, got, &out)
		}
	}
}

// TestReadOnly makes a service read-only by admin request, command and setting, for every process.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{"sqlite": sqliteURL, "postgres": testdb.PostgresDatabase, "citus": testdb.CitusDatabase} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, data := url(t), t.TempDir()
			openOne(t, "extstorage", url)
			w := &copyWriter{owner: ext.Owner{Tenant: "a0000000-0000-4000-8000-000000000001", Install: "b0000000-0000-4000-8000-000000000001"}}
			store := extHarness(t, url).Store
			refused := func(what string, want bool) {
				t.Helper()
				if err := w.write(t.Context(), store); errcode.Is(err, errcode.Unavailable) != want || err != nil && !want {
					t.Errorf("%s: a write: %v", what, err)
				}
			}
			environ := []string{"HOLDFAST_DATA=" + data, "HOLDFAST_EXTSTORAGE__DATABASE_URL=" + url, "HOLDFAST_BUCKETS__ENABLED=false"}
			command, withSetting := readOnlyCommand(t, environ), readOnlyCommand(t, append(environ, "HOLDFAST_SERVER__READ_ONLY=true"))
			refused("at first", false)
			serveOnce(t, data, url, "false", func(ask func(method, path string) (int, string)) {
				for _, step := range []struct {
					method, path string
					status       int
					refused      bool
				}{
					{http.MethodPost, "/read-only/extstorage/on", http.StatusOK, true},
					{http.MethodPost, "/read-only/extstorage/on", http.StatusOK, true},
					{http.MethodPost, "/read-only/extstorage/off", http.StatusOK, false},
					{http.MethodPost, "/read-only/extstorage/off", http.StatusOK, false},
					{http.MethodPost, "/read-only/nothing/on", http.StatusNotFound, false},
					{http.MethodDelete, "/read-only/extstorage/on", http.StatusMethodNotAllowed, false},
					{http.MethodPost, "/read-only/extstorage/on", http.StatusOK, true},
				} {
					if status, body := ask(step.method, step.path); status != step.status {
						t.Errorf("%s %s: %d %s", step.method, step.path, status, body)
					}
					refused(step.method+" "+step.path, step.refused)
				}
				if status, body := ask(http.MethodGet, "/read-only"); status != http.StatusOK || !strings.Contains(body, `{"service":"extstorage","readOnly":true,"by":"an operator","since":"20`) {
					t.Errorf("the state: %d %s", status, body)
				}
			})
			serveOnce(t, data, url, "true", func(ask func(method, path string) (int, string)) {
				if status, body := ask(http.MethodPost, "/read-only/extstorage/off"); status != http.StatusConflict {
					t.Errorf("the admin listener on the setting: %d %s", status, body)
				}
				withSetting(1, "remove server.read_only from the configuration", "off", "extstorage")
				refused("the setting", true)
			})
			serveOnce(t, data, url, "false", func(ask func(method, path string) (int, string)) {
				refused("what the admin listener began", true)
				if status, body := ask(http.MethodPost, "/read-only/extstorage/off"); status != http.StatusOK {
					t.Errorf("the end: %d %s", status, body)
				}
				refused("the end", false)
				command(0, "extstorage is read-only", "on", "extstorage")
				refused("the command", true)
				command(0, "read-only, by an operator since 20", "list")
				command(1, "no such service", "on", "nothing")
				command(0, "extstorage accepts writes again", "off", "extstorage")
				command(0, `"readOnly":false`, "list", "--json")
				refused("the command that ends it", false)
			})
			serveOnce(t, data, url, "true", func(func(method, path string) (int, string)) {
				refused("the setting alone", true)
				command(1, "remove server.read_only from the configuration", "off", "extstorage")
			})
			serveOnce(t, data, url, "false", func(func(method, path string) (int, string)) { refused("without the setting", false) })
		})
	}
}

// TestReadOnlyWhileATableIsLocked checks that the setting is applied later if the start cannot apply it.
func TestReadOnlyWhileATableIsLocked(t *testing.T) {
	t.Parallel()
	url, data := testdb.PostgresDatabase(t), t.TempDir()
	openOne(t, "extstorage", url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE ext_storage_records IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	serveOnce(t, data, url, "true", func(func(method, path string) (int, string)) {
		if _, err := conn.Exec(t.Context(), `COMMIT`); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			_, err := conn.Exec(ctx, `DELETE FROM ext_storage_records`)
			if pgdb.IsState(err, "HF503") {
				return
			}
			if err != nil {
				t.Fatalf("the table is not read-only: %v", err)
			}
		}
	})
}

var adminLine = regexp.MustCompile(`(?m)^  admin +(http://\S+)`)

func adminURL(t *testing.T, text string) string {
	t.Helper()
	m := adminLine.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no admin listener in\n%s", text)
	}
	return m[1]
}
