package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/spf13/cobra"
	"zombiezen.com/go/sqlite"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/cli"
	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/sweep"
	"holdfast/internal/web"
)

type toy struct {
	Enabled bool `toml:"enabled" doc:"Serve the toy."`
	settings.Database
	Most int `toml:"most" unit:"bytes" doc:"Largest body."`

	db      *sqlitedb.DB
	stopped bool
}

func (t *toy) IsEnabled() bool { return t.Enabled }

func (t *toy) Check() conf.Problems {
	problems := t.Database.Check()
	if t.Most < 1 {
		problems.Addf("most", "must be at least 1")
	}
	return problems
}

func (t *toy) open(ctx context.Context, d *service.Deps) (*service.Opened, error) {
	_, db, err := engine.Open(ctx, d.Engines, "toy", engine.Settings{Database: t.Database}, engine.OnSQLite(
		func() (migrate.Set, error) { return migrate.Load("toy", toyTables, "m") },
		func(db *sqlitedb.DB, _ engine.StoreOptions) *sqlitedb.DB { t.db = db; return db },
	))
	if err != nil {
		return nil, err
	}
	writes := d.Metrics.Counter("toys_total", "Toys that were stored.").WithLabelValues()
	put := func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		body, err := web.ReadBody(w, r, int64(t.Most), &web.BodyErrors{Announced: errToy, TooLarge: errToy, TooSlow: errToy, Cut: errToy})
		if err != nil {
			return err
		}
		writes.Inc()
		return t.exec(r.Context(), "INSERT INTO toys (body) VALUES (?)", string(body))
	}
	fail := func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, errcode.Message(err), http.StatusBadRequest)
	}
	return &service.Opened{
		Databases: []*engine.Database{db},
		Mounts: []service.Mount{{Listener: "toys", Mount: web.Mount{
			Owns:    func(path string) bool { return strings.HasPrefix(path, "/toys/") },
			Service: web.Service{Serve: put, Route: func(string) string { return "toys" }, Error: fail},
		}}},
		Jobs:     []sweep.Job{{Name: "old toys", Limit: 1, Run: func(ctx context.Context, _ time.Time, _ int) (int, error) { return 0, t.exec(ctx, "DELETE FROM toys") }}},
		Ready:    db.Ready(func(ctx context.Context) error { return t.exec(ctx, "SELECT 1 FROM toys LIMIT 0") }),
		Start:    func(context.Context) (func() error, error) { return func() error { t.stopped = true; return nil }, nil },
		Refusals: service.Refusals{{Err: errToy, Reason: "too-large"}},
	}, nil
}

func (t *toy) listeners() []service.Listener {
	return []service.Listener{{Name: "toys", Setting: "toy.listen", Address: "127.0.0.1:0"}}
}

func (t *toy) commands(sh *service.Shell) []*cobra.Command {
	return []*cobra.Command{{Use: "toy", RunE: sh.Run(func(context.Context, []string) error { return sh.PrintLine(t.Most) })}}
}

var (
	errToy    = errcode.New(errcode.Invalid, "the body is too large")
	toyTables = fstest.MapFS{"m/0001_toys.sql": {Data: []byte("CREATE TABLE toys (body TEXT NOT NULL) STRICT;")}}
)

func (t *toy) exec(ctx context.Context, sql string, args ...any) error {
	return t.db.Write(ctx, "toy", func(c *sqlite.Conn) error { return sqlitedb.Exec(c, sql, args...) })
}

func withToy() (*toy, []service.Service) {
	t := &toy{Enabled: true, Database: settings.DefaultDatabase(), Most: 10}
	return t, append(app.Services(), service.Service{Name: "toy", Doc: "A toy.", Config: t, Listeners: t.listeners, Open: t.open, Commands: t.commands, Operations: t.operations()})
}

// TestToyService checks that a single list entry adds a complete service.
func TestToyService(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	environ := []string{"HOLDFAST_DATA=" + data, "HOLDFAST_TOY__MOST=5", "HOLDFAST_SERVER__ADMIN_TOKEN=" + toyToken, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0", "HOLDFAST_LOG__LEVEL=error"}
	run := func(args ...string) (status int, out string) {
		var stdout, stderr bytes.Buffer
		_, services := withToy()
		status = cli.Run(t.Context(), cli.Env{Args: args, Environ: environ, Stdout: &stdout, Stderr: &stderr, Services: services})
		return status, stdout.String() + stderr.String()
	}
	want := func(what, text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("%s: no %s in\n%s", what, p, text)
			}
		}
	}

	toy, services := withToy()
	cfg, _, err := app.Load(services, "", environ)
	if err != nil || toy.Most != 5 {
		t.Fatalf("most is %d, %v", toy.Most, err)
	}
	server, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: app.ModeServe})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	started, out := make(chan string, 1), make(chan error, 1)
	go func() { out <- server.Serve(ctx, announcement(started)) }()
	text := <-started
	base := func(name string) string {
		m := regexp.MustCompile(`(?m)^  ` + name + ` +(http://\S+)`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in\n%s", name, text)
		}
		return m[1]
	}
	want("the start message", text, filepath.Join(data, "toy.db"))

	for body, status := range map[string]int{"small": http.StatusOK, "too large": http.StatusBadRequest} {
		if got, text := do(t, http.MethodPost, base("toys")+"/toys/1", body); got != status {
			t.Errorf("%s: %d %s", body, got, text)
		}
	}
	if status, _ := do(t, http.MethodGet, base("toys")+"/elsewhere", ""); status != http.StatusNotFound {
		t.Errorf("a path that nobody owns: %d", status)
	}
	_, metrics := do(t, http.MethodGet, base("admin")+"/metrics", "")
	want("the metrics", metrics, "toys_total 1\n", `holdfast_ready{service="toy"} 1`, `holdfast_refusals_total{reason="too-large",service="toy"} 1`,
		`holdfast_db_statement_duration_seconds_count{engine="sqlite",outcome="ok",service="toy",statement="toy"}`, `route="toys",service="toy",status="400"`)

	toyOperations(t, base("toys"), base("admin"), run)

	_, text = run("check")
	want("check", text, "toy database", "toy.db: reached, tables are up to date", "toy.listen", "127.0.0.1:0 is free")
	if status, text := run("toy"); status != 0 || !strings.Contains(text, "5") {
		t.Errorf("the command: %d\n%s", status, text)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if status, text := run("backup", backup); status != 0 {
		t.Errorf("backup: %d\n%s", status, text)
	}
	if info, err := os.Stat(filepath.Join(backup, "toy.db")); err != nil || info.Size() == 0 {
		t.Errorf("the copy: %v", err)
	}
	if status, text := run("sweep"); status != 0 || !strings.Contains(text, "old toys: 0") {
		t.Errorf("sweep: %d\n%s", status, text)
	}
	stop()
	if err := errors.Join(<-out, server.Close()); err != nil || !toy.stopped {
		t.Errorf("the end: stopped %v, %v", toy.stopped, err)
	}

	environ = append(environ, "HOLDFAST_TOY__MOST=0")
	status, text := run("check")
	want("a wrong setting", text, "HOLDFAST_TOY__MOST", "must be at least 1")
	if status != 1 {
		t.Errorf("a wrong setting: %d", status)
	}
}

type announcement chan<- string

func (a announcement) Write(p []byte) (int, error) { a <- string(p); return len(p), nil }

func do(t *testing.T, method, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return answerTo(t, r)
}

func answerTo(t *testing.T, r *http.Request) (status int, text string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func TestListenersConflict(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, _, err := app.Load(onAllEngines(), "", []string{"HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=" + l.Addr().String(), "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := app.Open(t.Context(), app.Options{Config: cfg, Data: t.TempDir(), LogTo: io.Discard, Mode: app.ModeServe})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "server.admin_listen: ") {
		t.Errorf("a listener that is in use: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
