// Package servicetest opens a single service for its tests, as the server does.
package servicetest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/ident"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

// Load loads a service's settings from variables, e.g. "HOLDFAST_EXTSTORAGE__ENABLED=true", and runs all its checks.
func Load(s service.Service, environ ...string) (conf.Report, error) {
	report, err := conf.Load([]conf.Section{{Key: s.Name, Doc: s.Doc, Value: s.Config}}, conf.Options{Environ: environ, Aliases: s.Aliases})
	var problems []conf.Problem
	if wrong, ok := errors.AsType[*conf.Error](err); ok {
		problems = wrong.Problems
	}
	if s.Config.IsEnabled() {
		problems = append(problems, s.CheckSettings(&report, service.Settings{LogLevel: "info", HasService: func(string) bool { return true }})...)
	}
	if len(problems) > 0 {
		return report, &conf.Error{Problems: problems}
	}
	return report, err
}

// Server is an open service.
type Server struct {
	*service.Opened
	Deps *service.Deps
	name string
}

// Open loads, opens and migrates a service in a temporary data folder, and closes it after the test.
func Open(t testing.TB, s service.Service, change func(*service.Deps), environ ...string) *Server {
	t.Helper()
	if _, err := Load(s, environ...); err != nil {
		t.Fatal(err)
	}
	for _, secret := range s.Secrets {
		if secret.Setting != nil && *secret.Setting == "" {
			*secret.Setting = ident.Hex(32)
		}
	}
	d := Deps(t)
	if change != nil {
		change(d)
	}
	opened, err := s.Open(t.Context(), d)
	if opened != nil {
		t.Cleanup(func() {
			for _, db := range opened.Databases {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := d.Engines.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, db := range opened.Databases {
		if _, err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return &Server{opened, d, s.Name}
}

// Handler returns the service's handlers on a listener, with 404 for other paths.
func (s *Server) Handler(listener string) http.Handler {
	m := &web.Mux{Resolver: &web.Resolver{}, Options: web.Options{Log: s.Deps.Log}, Default: web.Service{
		Route: func(string) string { return "other" },
		Serve: func(w http.ResponseWriter, r *http.Request, _ web.Address) error { http.NotFound(w, r); return nil },
	}}
	for _, mount := range s.Mounts {
		if mount.Listener == listener {
			mount.Name = s.name
			m.Mounts = append(m.Mounts, mount.Mount)
		}
	}
	return m
}

// WantMetric fails the test unless the metrics contain this line.
func (s *Server) WantMetric(t testing.TB, line string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Deps.Metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
		t.Errorf("no metric %s", line)
	}
}

// Deps returns a server's parts for a service, with a temporary data folder.
func Deps(t testing.TB) *service.Deps {
	t.Helper()
	metrics, data := obs.NewMetrics("test", ""), t.TempDir()
	return &service.Deps{
		Engines: &engine.Opener{Data: data, Create: true, Metrics: metrics}, Data: data, Create: true,
		Log: slog.New(slog.DiscardHandler), Metrics: metrics, Clock: clock.System, Whole: func(context.Context) error { return nil },
		Server: service.Server{
			Listen: "127.0.0.1:8000", InternalListen: "127.0.0.1:8002", Scheme: "http", MasterSecrets: []string{ident.Hex(32)},
			Backoff: func() time.Duration { return 0 }, Address: func(listen string) string { return "http://" + listen },
			OpenAddress: func(string) string { return "" },
		},
	}
}
