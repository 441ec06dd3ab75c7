package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/web"
)

// The first owner of the raw path serves a request, with or without the public prefix. The address is resolved once.
func TestMux(t *testing.T) {
	t.Parallel()
	var routes []string
	mount := func(name, prefix string) web.Mount {
		return web.Mount{
			Owns: func(path string) bool { return strings.HasPrefix(path, prefix) },
			Service: web.Service{
				Name: name, Error: plainError, Route: func(path string) string { return name + path },
				Serve: func(w http.ResponseWriter, _ *http.Request, at web.Address) error {
					_, err := io.WriteString(w, name+" "+at.String()+" "+at.Path)
					return err
				},
			},
		}
	}
	mux := &web.Mux{
		Resolver: resolver(t, "https://example.org/base"),
		Options: web.Options{Log: slog.New(slog.DiscardHandler), Trace: func(w http.ResponseWriter, r *http.Request, route string, next http.HandlerFunc) {
			routes = append(routes, route)
			next(w, r)
		}},
		Mounts:  []web.Mount{mount("a", "/a/"), mount("second a", "/a/b"), mount("dots", "/../")},
		Default: mount("rest", "").Service,
	}
	for target, want := range map[string]string{
		"/base/a/b?q": "a https://example.org/base /a/b",
		"/a/b":        "a https://example.org/base /a/b",
		"/../a/":      "dots https://example.org/base /../a/",
		"/b/../a/":    "rest https://example.org/base /b/../a/",
	} {
		routes = nil
		w := ask(mux, http.MethodGet, target, nil)
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
		name, _, _ := strings.Cut(want, " ")
		if len(routes) != 1 || !strings.HasPrefix(routes[0], name+"/") {
			t.Errorf("%s: the trace names the routes %q", target, routes)
		}
	}
}
